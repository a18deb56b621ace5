"""A fork while searches run: no child hangs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from phasegraph._support.shared import fork_safe_lock, lazy_property

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "src" / "phasegraph"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.timeout(240)
def test_all_of_60_children_forked_while_searches_run_answer():
    done = subprocess.run(
        [sys.executable, str(HERE / "fork_run.py"), "60"], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.stdout.strip().endswith("60 of 60"), done.stderr[-2000:]


def test_no_attribute_of_the_product_takes_a_lock_of_its_class():
    """``functools.cached_property`` of Python 3.11 does, and a child that is forked meanwhile finds it taken."""
    found = [file.name for file in SOURCES.rglob("*.py") if "@cached_property" in file.read_text(encoding="utf-8")]
    assert not found


def test_an_attribute_is_worked_out_once_and_is_one_object_for_all():
    together, made = threading.Barrier(4, timeout=10), []

    class Lazy:
        @lazy_property
        def value(self):
            together.wait()
            made.append(object())
            return made[-1]

    one, seen = Lazy(), []
    threads = [threading.Thread(target=lambda: seen.append(one.value)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, seen))) == 1
    assert one.value is seen[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_lock_that_was_held_is_open_in_the_child():
    lock = fork_safe_lock()
    lock.acquire()
    child = os.fork()
    if child == 0:
        os._exit(0 if lock.acquire(timeout=5) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert lock.locked()
