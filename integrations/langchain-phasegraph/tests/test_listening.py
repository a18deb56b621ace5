"""What ``on_result`` does, or fails to do, never costs the answer."""

import gc
import warnings

import pytest
from langchain_stores import listed

from langchain_phasegraph import PhaseGraphRetriever as Retriever
from phasegraph import PhasegraphWarning


def retriever_of(on_result):
    return Retriever(retrievers={"one": listed("a", "b", "c")}, on_result=on_result)


async def test_a_coroutine_that_raises_costs_a_warning_and_not_the_answer():
    async def broken(result):
        raise KeyError("x")

    with pytest.warns(PhasegraphWarning, match="on_result raised KeyError"):
        assert len(await retriever_of(broken).ainvoke("q")) == 3


def test_a_coroutine_in_a_synchronous_call_is_closed_and_said_once():
    ran = []

    async def listen(result):
        ran.append(result)

    retriever = retriever_of(listen)
    with pytest.warns(PhasegraphWarning, match="on_result is a coroutine function"):
        assert len(retriever.invoke("q")) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(retriever.invoke("q")) == 3
        gc.collect()
    assert ran == []
