"""Bad arguments are errors that name the field, raised when the object is built."""

import pytest
from langchain_stores import listed, pairs

from langchain_phasegraph import Execution, HitFields, PhaseGraphRetriever, SourceSpec, fuse_lists
from phasegraph import FusionPipeline, InvalidInputError, PhasegraphError

ONE = {"vector": listed("a")}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "retrievers"),
        ({"retrievers": {}}, "retrievers"),
        ({"retrievers": {"": listed("a")}}, "names"),
        ({"retrievers": {"a": None}}, "'a'"),
        ({"retrievers": "vector"}, "retrievers"),
        ({**ONE, "retrievers": {"vector": listed("a")}}, "'vector'"),
        ({**ONE, "weigths": {"vector": 1}}, "weigths"),
        ({**ONE, "k": -1}, "k must"),
        ({**ONE, "k": True}, "k must"),
        ({**ONE, "k": 2.0}, "k must"),
        ({**ONE, "k": "3"}, "k must"),
        ({**ONE, "weights": {"vector": float("nan")}}, "weights"),
        ({**ONE, "weights": {"vector": -1}}, "weights"),
        ({**ONE, "weights": {"vector": float("inf")}}, "weights"),
        ({**ONE, "weights": {"vector": True}}, "weights"),
        ({**ONE, "weights": {"vector": 0}}, "weights"),
        ({**ONE, "weights": {}}, "weights"),
        ({**ONE, "weights": {"vector": 1, "graph": 1}}, "graph"),
        ({**ONE, "graph": listed("a"), "weights": {"vector": 1}}, "graph"),
        ({**ONE, "weights": [1]}, "weights"),
        ({**ONE, "limit": 0}, "limit"),
        ({**ONE, "limit": True}, "limit"),
        ({**ONE, "timeout": 0}, "timeout"),
        ({**ONE, "timeout": float("nan")}, "timeout"),
        ({**ONE, "strict": 1}, "strict"),
        ({**ONE, "on_all_failed": "raise"}, "on_all_failed"),
        ({**ONE, "top_k": 3}, "unexpected argument 'top_k'; did you mean 'k'"),
        ({**ONE, "selektion": "mmr"}, "did you mean 'selection'"),
        ({"retrievers": [listed("a"), listed("b")], "weights": [1]}, "got 1 for 2"),
        ({"retrievers": {"a": listed("a")}, "weights": [1]}, "weights as a list"),
        ({**ONE, "on_result": 3}, "on_result"),
        ({**ONE, "pipeline": 3}, "pipeline"),
        ({**ONE, "pipeline": FusionPipeline(weights={"graph": 1})}, "weights"),
        ({"vector": 3}, "retriever"),
        ({"vector": PhaseGraphRetriever}, "retriever"),
    ],
)
def test_a_bad_argument_is_an_error_that_names_it(arguments, named):
    with pytest.raises(InvalidInputError, match=named):
        PhaseGraphRetriever(**arguments)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"weight": -1}, "weight"),
        ({"weight": float("nan")}, "weight"),
        ({"limit": 0}, "limit"),
        ({"limit": "all"}, "limit"),
        ({"timeout": -1}, "timeout"),
        ({"depends_on": "vector"}, "depends_on"),
        ({"fields": "id"}, "fields"),
        ({"execution": None}, "execution"),
        ({"nonsense": 1}, "nonsense"),
        ({"deadline": 1}, "did you mean 'timeout'"),
        ({"score_key": "s"}, r"did you mean fields=HitFields\(score=...\)"),
    ],
)
def test_a_bad_source_is_an_error_that_names_its_field(arguments, named):
    with pytest.raises(InvalidInputError, match=named):
        SourceSpec(retriever=listed("a"), **arguments)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (HitFields, {"id": 3}),
        (HitFields, {"score": 3}),
        (HitFields, {"higher_is_better": 1}),
        (HitFields, {"size": 0}),
        (HitFields, {"resolve": {}}),
        (Execution, {"on_error": "ignore"}),
        (Execution, {"in_thread": "yes"}),
        (Execution, {"max_in_flight": 0}),
    ],
)
def test_bad_fields_and_execution_are_errors_that_name_them(kind, arguments):
    with pytest.raises(InvalidInputError, match=next(iter(arguments))):
        kind(**arguments)


def test_needs_that_are_unknown_or_go_round_are_errors():
    with pytest.raises(InvalidInputError, match="lexical"):
        PhaseGraphRetriever(vector=SourceSpec(retriever=listed("a"), depends_on=["lexical"]))
    with pytest.raises(InvalidInputError, match="circle"):
        PhaseGraphRetriever(
            vector=SourceSpec(retriever=listed("a"), depends_on=["graph"]),
            graph=SourceSpec(retriever=listed("a"), depends_on=["vector"]),
        )


def test_all_weights_zero_are_an_error():
    with pytest.raises(InvalidInputError, match="weights"):
        PhaseGraphRetriever(vector=SourceSpec(retriever=listed("a"), weight=0))
    with pytest.raises(InvalidInputError, match="weights"):
        PhaseGraphRetriever(vector=SourceSpec(retriever=listed("a"), weight=0), weights={"vector": 1})


def test_a_retriever_inside_itself_is_an_error_when_it_is_built():
    retriever = PhaseGraphRetriever(**ONE)
    outer = PhaseGraphRetriever(vector=retriever)
    for bad in (retriever, outer, outer.with_retry(), SourceSpec(retriever=retriever)):
        with pytest.raises(InvalidInputError, match="the retriever contains itself"):
            retriever.vector = bad
    assert retriever.invoke("q")[0].id == "a"


def test_a_retriever_that_calls_itself_is_reported():
    retriever = PhaseGraphRetriever(vector=lambda q: pairs(a=1.0), graph=lambda q: retriever.invoke(q))
    reports = {report.source: report for report in retriever.explain("q").reports}
    assert reports["graph"].status == "error"
    assert "contains itself" in reports["graph"].reason


@pytest.mark.parametrize("query", ["", "  \n", None, 3, b"q", ["q"]])
async def test_a_query_that_is_no_text_is_an_error(query):
    retriever = PhaseGraphRetriever(**ONE)
    with pytest.raises(InvalidInputError, match="query"):
        retriever.invoke(query)
    with pytest.raises(InvalidInputError, match="query"):
        await retriever.ainvoke(query)
    with pytest.raises(InvalidInputError, match="query"):
        retriever.explain(query)


@pytest.mark.parametrize("k", [-1, True, 1.5, "2"])
def test_a_bad_k_at_the_call_is_an_error(k):
    with pytest.raises(InvalidInputError, match="k must"):
        PhaseGraphRetriever(**ONE).invoke("q", k=k)
    with pytest.raises(InvalidInputError, match="k must"):
        fuse_lists(k=k)


def test_an_unknown_keyword_at_the_call_is_an_error():
    with pytest.raises(TypeError, match="top_k"):
        PhaseGraphRetriever(**ONE).invoke("q", top_k=3)


@pytest.mark.parametrize("lists", [{}, [], None, {"a": None}, {"a": "text"}, {"a": [3]}, {"a": [("x", 1, 2)]}])
def test_bad_lists_are_errors(lists):
    with pytest.raises((PhasegraphError, TypeError)):
        fuse_lists().invoke(lists)


@pytest.mark.parametrize("arguments", [{"weights": {"a": -1}}, {"pipeline": 3}, {"fields": {"a": 3}}])
def test_bad_arguments_of_fusing_lists_are_errors(arguments):
    with pytest.raises(InvalidInputError):
        fuse_lists(**arguments)
