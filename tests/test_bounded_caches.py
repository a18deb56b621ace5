"""What the library keeps between calls is bounded: by entries, and by bytes where an entry may be long."""

from __future__ import annotations

import gc
import random
import sys
import threading
import time
import tracemalloc

import numpy as np
import pytest

from phasegraph import FusionPipeline, Ranking, fit_reference_ecdf
from phasegraph.calibration.background import order_statistic, order_statistics
from phasegraph.graph import build_chunk_graph, build_graph
from phasegraph.graph.walk.restricting import restrict_graph
from phasegraph.retrieval import Recent


def _kept_after(call, lengths):
    """Bytes that calls with lists of these lengths leave behind."""
    for length in lengths[:1]:
        call(length)
    gc.collect()
    tracemalloc.start()
    try:
        for length in lengths[1:]:
            call(length)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


IDS = [f"p{row}" for row in range(60_000)]
PIPELINES = {
    "default": FusionPipeline(),
    "fitted": FusionPipeline(calibrators={"vector": fit_reference_ecdf(np.linspace(0.0, 1.0, 101))}),
    "paper": FusionPipeline.paper(),
}


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_long_lists_of_many_lengths_leave_nothing_behind(name):
    def decide(length):
        PIPELINES[name].decide([Ranking("vector", IDS[:length], np.linspace(1.0, 0.0, length))], k=5)

    assert _kept_after(decide, [50_000 - row for row in range(12)]) < 200_000


def test_order_statistics_are_the_same_kept_or_not_and_one_at_a_time():
    assert order_statistics(5, 100) is order_statistics(5, 100)
    assert order_statistics(5000, 9000) is not order_statistics(5000, 9000)
    for count, size in ((1, 1), (21, 1_000_000), (5000, 9000)):
        assert order_statistic(count, size) == order_statistics(count, size)[-1]


@pytest.mark.parametrize("kind", ["recent", "chunk graph", "entity graph"])
def test_threads_that_ask_for_more_than_is_kept_fail_in_nothing(kind):
    recent = Recent()
    chunks = build_chunk_graph([{"id": f"c{row}", "text": f"def f{row}(): pass"} for row in range(40)])
    entities = build_graph([{"id": f"c{row}", "text": f"Ada met Bo{row}."} for row in range(40)])

    def ask(number):
        if kind == "recent":
            assert recent.get(number, lambda: number) == number
        elif kind == "entity graph":
            assert restrict_graph(entities, {f"c{number}"}).passages == (f"c{number}",)
        else:
            assert chunks.within({f"c{number}"}).passages == (f"c{number}",)

    switched, failed, end = sys.getswitchinterval(), [], time.monotonic() + 0.5

    def work(seed):
        rng = random.Random(seed)
        while time.monotonic() < end:
            try:
                ask(rng.randrange(40))
            except Exception as error:  # noqa: BLE001 - counted
                failed.append(error)

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    finally:
        sys.setswitchinterval(switched)
    assert not failed, failed[:3]


@pytest.mark.parametrize(("most", "expected"), [(1, [1, 2, 3, 4, 3, 4]), (3, [1, 2, 3, 4])])
def test_as_many_are_kept_as_was_said(most, expected):
    recent, made = Recent(most=most), []
    for number in (1, 2, 3, 4, 3, 4):
        recent.get(number, lambda number=number: made.append(number))
    assert made == expected
