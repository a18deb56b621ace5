"""The model embeds a question once in each call; if the model fails, only the vector search is lost."""

import asyncio
import copy
import re
from typing import Any

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.bridge.pydantic import Field
from llama_index.core.schema import QueryBundle, TextNode
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter, MetadataFilters
from llamaindex_stores import TextModel
from tests.suites.question_calls import NOTE, QUERY, TEXTS, vector_of_words

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever
from llama_index.retrievers.phasegraph.embedding import QuestionModel
from phasegraph.errors import PhasegraphWarning


class Model(TextModel):
    """A model of words that counts the questions that it embeds."""

    asked: list[Any] = Field(default_factory=list)
    fails: bool = False

    def _get_text_embedding(self, text):
        return vector_of_words(text)

    def _get_query_embedding(self, query):
        self.asked.append(query)
        if self.fails:
            raise OSError("401 invalid api key")
        return self._get_text_embedding(query)


@pytest.fixture
def model():
    return Model()


def nodes():
    return [TextNode(id_=title, text=text, metadata={"year": 1958, "tags": ["a"]}) for title, text in TEXTS.items()]


def made(kind, model, tmp_path):
    if kind == "nodes":
        return CalibratedFusionRetriever.from_nodes(nodes(), model)
    if kind == "folder":
        CalibratedFusionRetriever.from_nodes(nodes(), model, path=tmp_path / "folder")
        return CalibratedFusionRetriever.load(tmp_path / "folder", model)
    index = VectorStoreIndex(nodes(), embed_model=model)
    if kind == "index":
        return CalibratedFusionRetriever.from_index(index)
    graph = EntityGraphRetriever.from_nodes(nodes(), embed_model=model)
    return CalibratedFusionRetriever(vector=index, graph=graph)


@pytest.mark.parametrize("kind", ["nodes", "folder", "index", "parts"])
def test_a_question_costs_one_call_of_the_model(kind, model, tmp_path):
    retriever = made(kind, model, tmp_path)
    model.asked.clear()
    found = [
        [one.node.node_id for one in answer]
        for answer in (retriever.retrieve(QUERY), asyncio.run(retriever.aretrieve(QUERY)))
    ]
    assert found[0] == found[1]
    assert "Alfred Hitchcock" in found[0]
    assert model.asked == [QUERY] * 2


def raw_scores(result):
    """Return the scores of each source, by source name and passage id."""
    return {
        (one.source, name): one.raw for name in result.ids for one in result.evidence(name).sources
        if one.rank is not None
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["nodes", "folder"])
def test_a_vector_of_another_model_in_the_bundle_is_not_used(kind, model, tmp_path):
    retriever = made(kind, model, tmp_path)
    plain = retriever.explain(QUERY)
    given = QueryBundle(QUERY, embedding=[1.0, 0.0])  # LlamaIndex's retrievers write their vector into the bundle
    for found in (retriever.explain(given), asyncio.run(retriever.aexplain(given))):
        assert raw_scores(found) == pytest.approx(raw_scores(plain))
        assert not found.degraded
    graph = EntityGraphRetriever.from_nodes(nodes(), embed_model=model)
    assert [hit.score for hit in graph.retrieve(given)] == [hit.score for hit in graph.retrieve(QUERY)]


@pytest.mark.parametrize("kind", ["nodes", "index"])
def test_a_failing_model_costs_the_vector_search_and_not_the_walk(kind, model, tmp_path):
    retriever = made(kind, model, tmp_path)
    whole = retriever.explain(QUERY)
    model.fails = True
    with pytest.warns(PhasegraphWarning, match=r"source 'vector' failed \(OSError\)") as said:
        result = retriever.explain(QUERY)
    assert len(said) == 1
    reports = {one.source: one for one in result.reports}
    assert (reports["vector"].status, reports["graph"].status, reports["graph"].reason) == ("error", "ok", NOTE)
    assert "Alfred Hitchcock" in result.ids
    model.fails = False
    model.asked.clear()
    with pytest.warns(PhasegraphWarning, match="answers again"):
        again = retriever.explain(QUERY)
    assert (again.ids, again.scores.tolist()) == (whole.ids, whole.scores.tolist())
    assert model.asked == [QUERY]


def test_a_walk_alone_warns_until_the_model_answers_again(model):
    retriever = EntityGraphRetriever.from_nodes(nodes(), embed_model=model)
    for _ in range(2):
        model.fails = True
        with pytest.warns(PhasegraphWarning) as said:
            assert [bool(retriever.retrieve(QUERY)) for _ in range(3)] == [True] * 3
        assert [str(one.message) for one in said] == [NOTE]
        model.fails = False
        assert retriever.retrieve(QUERY)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (MetadataFilter(key="year", value="1958"), "a text under the filter key 'year' (the values are numbers)"),
        (
            MetadataFilter(key="year", value=["1958"], operator=FilterOperator.IN),
            "a text under the filter key 'year' (the values are numbers)",
        ),
        (MetadataFilter(key="tags", value="a"), "a text under the filter key 'tags' (the values are lists)"),
    ],
)
def test_a_filter_value_of_another_type_is_said_once(one, said, model):
    retriever = CalibratedFusionRetriever.from_nodes(nodes(), model)
    with pytest.warns(PhasegraphWarning, match=re.escape(f"no passage has {said}")) as heard:
        narrow = retriever.within(MetadataFilters(filters=[one]))
    assert [len(narrow.retrieve(QUERY)) for _ in range(2)] == [0, 0]
    assert len(heard) == 1


def test_a_wrapped_model_can_be_copied(model):
    wrapped = copy.copy(QuestionModel(model))
    assert wrapped.get_agg_embedding_from_queries([QUERY]) == model._get_text_embedding(QUERY)
