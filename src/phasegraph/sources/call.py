"""One call: which sources have settled, which wait for another, what is due next.

Nothing here blocks and nothing here knows whether the caller is a thread or a coroutine: `gather` and
`agather` each wait in their own way until :attr:`Call.finished`. Any thread may settle a source.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from types import MappingProxyType
from typing import TypeAlias

from phasegraph.candidates import Ranking, Status, found_in
from phasegraph.errors import PhasegraphError
from phasegraph.sources.answers import is_fatal, one_line, reason_of
from phasegraph.sources.slot import Slot

Ring: TypeAlias = Callable[[], None]
Outcome: TypeAlias = "Ranking | BaseException"
_LATE_SECONDS, _GRACE_SECONDS = 0.002, 0.005


class Call:
    """The state of one call over its slots.

    Parameters
    ----------
    query : str
        What is asked.
    slots : sequence of Slot
        In name order.
    deadline : float or None
        Seconds from now.
    begin : callable
        Starts an admitted slot; may raise, which settles the slot.
    ring : callable
        Wakes whoever waits; called from any thread.
    """

    def __init__(
        self,
        query: str,
        slots: Sequence[Slot],
        deadline: float | None,
        begin: Callable[[Call, Slot], None],
        ring: Ring,
    ) -> None:
        self.query = query
        self.slots = slots
        self.finished = False
        self.fatal: BaseException | None = None
        self._by_name: Mapping[str, Slot] = {slot.name: slot for slot in slots}
        self._begin = begin
        self._ring = ring
        self._lock = threading.Lock()
        self._open = len(slots)
        self._excused = 0.0
        self._started = monotonic()
        self._due = float("inf") if deadline is None else self._started + deadline
        self._patience = float("inf") if deadline is None else self._started + deadline / 2.0

    def start(self) -> None:
        """Launch every source whose needs are not to be waited for."""
        for slot in self.slots:
            if not slot.needs or all(self._is_settled(need) for need in slot.needs):
                self._launch(slot)

    def answer(self, slot: Slot) -> object:
        """Call the source; where it is asynchronous, a coroutine."""
        return slot.function(self.query, slot.settings.limit, slot.given)

    def search(self, slot: Slot) -> Outcome:
        """Run the source to its end on this thread; what it raises is the outcome."""
        try:
            return slot.context.run(self._search, slot)
        except BaseException as error:  # noqa: BLE001 - the caller gets it, whatever it is
            return error
        finally:
            slot.leave()

    def _search(self, slot: Slot) -> Ranking:
        return slot.ranking_from(self.answer(slot))

    def settle(self, slot: Slot, outcome: Outcome) -> None:
        """Take a slot's outcome, once; a later one is ignored, but the breaker hears of a trial that ended well."""
        if slot.probe and slot.status == "timeout" and isinstance(outcome, Ranking):
            slot.state.succeeded_late()
        elif isinstance(outcome, Ranking):
            status, reason = found_in(outcome)
            self._settle(slot, status, one_line(reason), outcome, None)
        elif is_fatal(outcome):
            self._fail(slot, outcome)
        else:
            self._settle(slot, "error", reason_of(outcome), None, outcome)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until something is due; None = nothing ever is."""
        due = self._due
        for slot in self.slots:
            if not slot.settled:
                due = min(due, slot.due if slot.launched else self._patience)
        return None if due == float("inf") else max(0.0, max(due, self._excused) - monotonic())

    def advance(self) -> None:
        """Do what has become due: launch sources that waited long enough, give up on late ones."""
        now = monotonic()
        for slot in self.slots:
            if slot.settled:
                continue
            due = min(self._due, slot.due)
            if now >= max(due, self._excused):
                if self._was_held_up(now, due):
                    return
                late = TimeoutError(f"source {slot.name!r} did not answer in time")
                self._settle(slot, "timeout", "no answer within the deadline", None, late)
            elif not slot.launched and now >= self._patience:
                self._launch(slot)

    def _was_held_up(self, now: float, due: float) -> bool:
        """Whether we come late ourselves, for the first time: then answers may lie ready that nobody had time to take.

        A process that gets no processor, or an event loop that something blocks, would else lose healthy sources. For
        a moment from `now` on nobody is given up; what is due later stays due then.
        """
        if self._excused or now - due < _LATE_SECONDS:
            return False
        self._excused = now + _GRACE_SECONDS
        return True

    def close(self) -> None:
        """Let go of the slots that have not settled: nothing they do later is heard."""
        with self._lock:
            self.finished = True
            left = [slot for slot in self.slots if not slot.settled]
            for slot in left:
                slot.settled = slot.launched = True
        for slot in left:
            slot.state.give_back(probe=slot.probe)
            _cancel(slot)

    def forget(self) -> None:
        """Let go of errors and tasks: their frames hold this call, and a circle waits for the collector."""
        self.fatal = None
        for slot in self.slots:
            slot.error = slot.cancel = None

    def _is_settled(self, name: str) -> bool:
        slot = self._by_name.get(name)
        return slot is None or slot.settled

    def _launch(self, slot: Slot) -> None:
        with self._lock:
            if slot.launched or slot.settled:
                return
            slot.launched = True
        reason, probe = slot.state.enter()
        if reason:
            skipped = PhasegraphError(f"source {slot.name!r} was not asked: {reason}")
            self._settle(slot, "skipped", reason, None, skipped)
            return
        with self._lock:
            gone = slot.settled
            slot.admitted, slot.probe = not gone, probe and not gone
        if gone:
            slot.leave()
            slot.state.give_back(probe=probe)
            return
        if slot.needs:
            self._hand_over(slot)
        if slot.settings.deadline is not None:
            slot.due = monotonic() + slot.settings.deadline
        try:
            self._begin(self, slot)
        except BaseException as error:  # noqa: BLE001 - settled as the source's error, or passed through
            slot.leave()
            self.settle(slot, error)

    def _hand_over(self, slot: Slot) -> None:
        given: dict[str, Ranking | None] = {}
        for need in slot.needs:
            found = self._by_name.get(need)
            given[need] = found.ranking if found is not None and found.hits else None
        slot.given = MappingProxyType(given)
        slot.without = tuple(need for need in slot.needs if given[need] is None)

    def _fail(self, slot: Slot, error: BaseException) -> None:
        """End the call with an error that is nobody's to swallow."""
        with self._lock:
            if slot.settled or self.finished:
                return
            self.fatal = error
            self.finished = True
        self._ring()

    def _settle(
        self, slot: Slot, status: Status, reason: str, ranking: Ranking | None, error: BaseException | None
    ) -> None:
        with self._lock:
            if slot.settled or self.finished:
                return
            slot.milliseconds = (monotonic() - self._started) * 1000.0
            slot.status, slot.reason, slot.ranking, slot.error = status, reason, ranking, error
            slot.hits = 0 if ranking is None else len(ranking)
            slot.settled = True
            self._open -= 1
            if error is not None and slot.settings.on_error == "raise":
                self.fatal = error
            over = self.finished = self._open == 0 or self.fatal is not None
        if slot.admitted:
            slot.state.record(succeeded=error is None, probe=slot.probe)
        if status == "timeout":
            _cancel(slot)
        if over:
            self._ring()
        else:
            self._launch_after(slot.name)

    def _launch_after(self, name: str) -> None:
        for slot in self.slots:
            if name in slot.needs and not slot.launched and all(map(self._is_settled, slot.needs)):
                self._launch(slot)
                if slot.settings.deadline is not None:
                    self._ring()


def _cancel(slot: Slot) -> None:
    if slot.cancel is not None:
        slot.cancel()
