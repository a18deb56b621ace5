"""Ask a user's own retriever, from any framework, all questions, and read the hits of its answers."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import NamedTuple, TypeAlias

from phasegraph._support.user_line import warn_at_user_line
from phasegraph.errors import InvalidInputError, InvalidTypeError, PhasegraphWarning
from phasegraph.evaluation.corpus_files import Passage
from phasegraph.evaluation.query_files import Query
from phasegraph.ranking import Ranking
from phasegraph.result import Result
from phasegraph.retrieval import (
    adapted,
    answer_items,
    asearch_of,
    describe_type,
    head_and_score,
    is_number,
    parameters_of,
    plain_hit,
    resolve_id,
    search_of,
)
from phasegraph.retrieval.plain_hits import PlainHit
from phasegraph.sources.protocol import is_fatal
from phasegraph.sources.steps import awaited
from phasegraph.sources.workers import own_loop

Ask: TypeAlias = Callable[[str], object]
Place: TypeAlias = Callable[[Query, "Sequence[Hit]"], "list[str]"]

_HITS = "documents or nodes"


def ask_of(retriever: object, depth: int) -> Ask:
    """Return the function that asks a retriever a question, without importing the retriever's framework.

    `depth` is the number of hits to request, if the retriever accepts such a number.
    """
    if not isinstance(retriever, type):
        for method in ("invoke", "retrieve"):
            found: Ask | None = getattr(retriever, method, None)
            if callable(found):
                return found
        retriever = adapted(retriever)
        if (search := search_of(retriever) or asearch_of(retriever)) is not None:
            return lambda question: search(question, depth, {})
        if callable(retriever):
            function: Callable[..., object] = retriever
            return partial(function, **dict.fromkeys(parameters_of(function) & {"k", "limit"}, depth))
    got = f"the class {retriever.__name__}" if isinstance(retriever, type) else describe_type(retriever)
    raise InvalidTypeError(
        "retriever must be a LangChain retriever or runnable, a LlamaIndex retriever, a source or a function; got "
        f"{got} (for a store or an index, give its as_retriever())"
    )


@dataclass(slots=True)
class RetrieverRun:
    """The answers of one retriever to all questions.

    `found` are ids by question id, `errors` the errors of failed questions, and `milliseconds` the mean time per
    question (None without answers). `repeated` counts hits whose id repeats in an answer, and `nameless` hits without
    an id. `pages` are page names by hit id.
    """

    found: dict[str, tuple[str, ...]]
    errors: dict[str, Exception]
    milliseconds: float | None
    repeated: int
    nameless: int
    pages: dict[str, str]

    def failures(self, name: str) -> list[str]:
        """Return one line, which starts with `name` and counts the failed questions by error class, in a list.

        The list is empty if no question failed.
        """
        kinds = Counter(type(error).__name__ for error in self.errors.values()).most_common()
        said = ", ".join(f"{kind} {count}" for kind, count in kinds)
        asked = len(self.found) + len(self.errors)
        return [f"{name}: {len(self.errors)} of {asked} questions failed and count 0 ({said})"] if kinds else []

    def unknown(self, known: set[str] | None) -> float | None:
        """Return the share of the returned ids that are not in `known`, the ids of the corpus.

        Return None without a corpus or returned ids.
        """
        returned = [one for ids in self.found.values() for one in ids]
        return sum(one not in known for one in returned) / len(returned) if known and returned else None


class Hit(NamedTuple):
    """A hit in the answer of a user's retriever.

    Parameters
    ----------
    id : str
        The id of the hit, which is compared with the judged ids.
    named : bool, default True
        False if the id is derived from the hit's text, and no passage of the corpus has this text.
    page : str
        The page named in the hit's metadata; empty if there is none.
    text : str
        The hit's text; empty if the answer contains only ids.
    """

    id: str
    named: bool = True
    page: str = ""
    text: str = ""


def ids_by_text(passages: Iterable[Passage]) -> dict[str, str]:
    """Return the id of each passage, by the id that is derived from the passage's text.

    :func:`run_retriever` derives such an id from the text of a hit that has no id.
    """
    return {_id_of_text(text): one.id for one in passages for text in (one.text, one.content)}


def run_retriever(
    ask: Ask, queries: Iterable[Query], texts: Mapping[str, str], id_key: str | None, place: Place | None = None
) -> RetrieverRun:
    """Ask a retriever all questions, one after another.

    Parameters
    ----------
    ask : callable
        The function that asks the retriever, from :func:`ask_of`.
    queries : iterable of Query
        The questions to ask.
    texts : mapping of str to str
        The result of :func:`ids_by_text`, by which hits without an id are matched to passages.
    id_key : str or None
        As in :func:`evaluate`.
    place : callable, optional
        ``place(query, hits) -> ids``: the ids of the passages that the hits match. Default: the hits' own ids.

    Returns
    -------
    RetrieverRun
        The ids by question, the errors and the mean time.
    """
    run, spent = RetrieverRun({}, {}, None, 0, 0, {}), 0.0
    for query in queries:
        started = perf_counter()
        try:
            answer = ask(query.text)
            if inspect.isawaitable(answer):
                answer = asyncio.run_coroutine_threadsafe(awaited(answer), own_loop()).result()
            hits = _read_hits(answer, texts, id_key)
        except Exception as error:
            if is_fatal(error):
                raise
            run.errors[query.id] = error
            continue
        spent += perf_counter() - started
        ids = [hit.id for hit in hits] if place is None else place(query, hits)
        run.found[query.id] = tuple(dict.fromkeys(ids))
        run.repeated += len(ids) - len(run.found[query.id])
        run.nameless += sum(not hit.named for hit in hits)
        run.pages |= {hit.id: hit.page for hit in hits if hit.page}
    run.milliseconds = 1000 * spent / len(run.found) if run.found else None
    return run


def _id_of_text(text: str) -> str:
    """Return the id derived from the text of a hit without an id."""
    return resolve_id(None, {}, text)[0]


def _read_hits(answer: object, texts: Mapping[str, str], id_key: str | None) -> list[Hit]:
    """Convert a retriever's answer to a list of hits, best first; `texts` and `id_key` are as in `run_retriever`."""
    if isinstance(answer, Ranking | Result):
        return list(map(Hit, answer.ids))
    if isinstance(answer, Mapping) and answer and all(map(is_number, answer.values())):
        scores = {str(found): float(score) for found, score in answer.items()}
        return list(map(Hit, sorted(scores, key=lambda one: (-scores[one], one))))
    if isinstance(answer, Mapping) and "result" in answer:
        answer = answer["result"]  # the answer of a question-answering chain
    return [_read_hit(item, row, texts, id_key) for row, item in enumerate(answer_items(answer, _HITS))]


def _read_hit(item: object, row: int, texts: Mapping[str, str], id_key: str | None) -> Hit:
    head = head_and_score(item)[0]
    if isinstance(head, str):
        return Hit(texts.get(_id_of_text(head), head), text=head)
    hit = getattr(head, "node", head)
    if hasattr(hit, "page_content"):
        read = PlainHit(hit.page_content, hit.id, hit.metadata)
    elif hasattr(hit, "get_content"):
        read = PlainHit(hit.get_content(), hit.node_id, hit.metadata)
    else:
        read = plain_hit(hit, _HITS, row)
    page = read.metadata.get("source")
    page = page if isinstance(page, str) else ""
    if id_key is not None:
        value = read.metadata.get(id_key, getattr(hit, id_key, None))
        if value is None:
            held = ", ".join(map(str, read.metadata)) or "nothing"
            raise InvalidInputError(f"hit {row} has no id under id_key={id_key!r}; its metadata keys are: {held}")
        return Hit(str(value), True, page, read.text or "")
    found, origin = resolve_id(read.id, read.metadata, read.text or "")
    return Hit(texts.get(found, found), origin != "text" or found in texts, page, read.text or "")


def run_notes(name: str, run: RetrieverRun, queries: Sequence[Query], depth: int, passages: int | None) -> list[str]:
    """Return remarks on the run of one retriever; warn if no returned id is judged for any question.

    `depth` is the largest depth of the measures, and `passages` the number of passages in the corpus, if known.
    """
    notes, longest = run.failures(name), max(map(len, run.found.values()), default=0)
    if longest < depth and (passages is None or longest < passages):
        notes.append(
            f"{name} returned at most {longest} hits, so deeper measures gain nothing (LangChain: k or search_kwargs, "
            "LlamaIndex: similarity_top_k)"
        )
    if run.repeated:
        notes.append(f"{name}: {run.repeated} hits repeat an id of the same answer and are left out")
    if run.nameless:
        notes.append(f"{name}: {run.nameless} hits have no id, and no passage of the corpus has their text")
    judged = {one for query in queries for one in (*query.judgement.passages, *query.judgement.grades)}
    returned = dict.fromkeys(one for ids in run.found.values() for one in ids)
    pages = {page for query in queries for page in query.judgement.pages}
    if passages is None and pages and pages.isdisjoint(run.pages.values()):
        theirs = f"the hits have {min(run.pages.values())!r:.60}" if run.pages else "the hits have no 'source'"
        notes.append(
            f"{name}: no hit has a judged page, such as {min(pages)!r:.60}, in the metadata 'source': {theirs}"
        )
    if returned and judged and judged.isdisjoint(returned):
        notes.append(
            f"{name}: none of the {len(returned)} returned ids is judged for any question; a returned id is "
            f"{next(iter(returned))!r:.60}, a judged id is {min(judged)!r:.60}; set id_key (--id-key on the command "
            "line) if the ids are in another field"
        )
        warn_at_user_line(PhasegraphWarning(notes[-1]), again=False)
    return notes
