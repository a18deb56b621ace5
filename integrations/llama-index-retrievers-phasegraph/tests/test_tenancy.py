"""Filters apply in engines, tools and recursive retrieval, to passages from ``resolve``, and cannot be lost."""

import asyncio

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import IndexNode, NodeWithScore, TextNode
from llama_index.core.tools import QueryEngineTool, RetrieverTool
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever
from phasegraph import InvalidInputError
from phasegraph.retrieval import HitFields, SourceSpec

QUERY = "Who met Ada in Rome?"


def only(tenant, key="tenant", operator=FilterOperator.EQ):
    return MetadataFilters(filters=[MetadataFilter(key=key, value=tenant, operator=operator)])


RED, BLUE = only("red"), only("blue")


def nodes():
    return [
        TextNode(text=f"Ada met {name}{row} in Rome.", id_=f"{name}-{row}", metadata={"tenant": name, "row": row})
        for row in range(6)
        for name in ("red", "blue")
    ]


def index(held=None):
    return VectorStoreIndex(held or nodes(), embed_model=MockEmbedding(embed_dim=8))


def fused(held=None, **fields):
    held = held or nodes()
    vector = index(held).as_retriever(similarity_top_k=12)
    return CalibratedFusionRetriever(vector=vector, graph=EntityGraphRetriever.from_nodes(held), k=12, **fields)


def walking(held=None, **fields):
    return EntityGraphRetriever.from_nodes(held or nodes(), similarity_top_k=12, **fields)


RETRIEVERS = {"fused": fused, "walk": walking}


def tenants(found):
    assert found
    return {hit.metadata["tenant"] for hit in found}


def both(retriever, query=QUERY):
    return [retriever.retrieve(query), asyncio.run(retriever.aretrieve(query))]


@pytest.mark.parametrize("kind", sorted(RETRIEVERS))
def test_engines_and_tools_ask_within_the_filters(kind):
    retriever = RETRIEVERS[kind]().within(RED)
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
    tool = RetrieverTool.from_defaults(retriever)
    asked = QueryEngineTool.from_defaults(engine)

    async def awaited():
        return await engine.aquery(QUERY), await asked.acall(QUERY), await tool.acall(QUERY)

    answers = [engine.query(QUERY), asked.call(QUERY).raw_output]
    answer, called, said = asyncio.run(awaited())
    for one in (*answers, answer, called.raw_output):
        assert tenants(one.source_nodes) == {"red"}
        assert "blue" not in str(one)
    for text in (tool.call(QUERY).content, said.content):
        assert "red1" in text
        assert "blue" not in text


def standing(kind, obj):
    """Create a retriever over the passages of tenant red and an index node that refers to `obj`."""
    if kind == "fused":
        return fused(object_nodes(None), object_map={"x": obj})
    return EntityGraphRetriever(walking(object_nodes(None))._source, object_nodes(obj), similarity_top_k=12)


def object_nodes(obj):
    """Return the passages of tenant red and an index node that refers to `obj`."""
    own = [one for one in nodes() if one.metadata["tenant"] == "red"]
    return [
        *own,
        IndexNode(text="Ada met them all in Rome.", index_id="x", id_="red-x", metadata={"tenant": "red"}, obj=obj),
    ]


HELD = {
    "a node of another": lambda: nodes()[1],
    "a hit of another": lambda: NodeWithScore(node=nodes()[1], score=1.0),
    "a retriever": lambda: index().as_retriever(similarity_top_k=12),
    "a walk": lambda: walking(),
}


@pytest.mark.parametrize("kind", sorted(RETRIEVERS))
@pytest.mark.parametrize("held", sorted(HELD))
def test_what_an_index_node_stands_for_is_filtered(kind, held):
    retriever = standing(kind, HELD[held]())
    for found in both(retriever):
        assert tenants(found) == {"red", "blue"}
    for found in both(retriever.within(RED)):
        assert tenants(found) == {"red"}
        assert not [hit for hit in found if hit.node_id.startswith("blue")]


@pytest.mark.parametrize("kind", sorted(RETRIEVERS))
def test_an_index_node_that_stands_for_an_engine_cannot_be_filtered(kind):
    engine = RetrieverQueryEngine.from_args(index().as_retriever(), llm=MockLLM())
    retriever = standing(kind, engine).within(RED)
    with pytest.raises(InvalidInputError, match=r"does not support filters= \(RetrieverQueryEngine\)"):
        retriever.retrieve(QUERY)
    with pytest.raises(InvalidInputError, match=r"does not support filters= \(RetrieverQueryEngine\)"):
        asyncio.run(retriever.aretrieve(QUERY))


# Passages from `resolve`.


def parents(ids):
    """Return the parents of passages by id; an even row has a parent of the other tenant."""
    other = {"red": "blue", "blue": "red"}
    made = {}
    for one in ids:
        name, _, row = one.partition("-")
        owner = other[name] if int(row) % 2 == 0 else name
        made[one] = TextNode(text=f"parent of {owner}", id_=f"{owner}-parent", metadata={"tenant": owner})
    return made


async def aparents(ids):
    return parents(ids)


@pytest.mark.parametrize("resolve", [parents, lambda ids: [parents(ids)[one] for one in ids], aparents])
def test_what_resolve_brings_back_is_filtered(resolve):
    async def vectors(query, filters=None):
        return [(one, 1.0) for one in nodes() if filters is None or one.metadata["tenant"] == filters.filters[0].value]

    given = vectors if resolve is aparents else index().as_retriever(similarity_top_k=12)
    retriever = CalibratedFusionRetriever(vector=SourceSpec(retriever=given, fields=HitFields(resolve=resolve)), k=12)
    for found in both(retriever.within(RED)):
        assert len(found) == 3
        assert {hit.text for hit in found} == {"parent of red"}
    result = retriever.explain(QUERY, filters=RED)
    assert sorted(result.candidates.ids) == ["red-1", "red-3", "red-5"]
    assert "blue" not in repr(result) + repr(result.reports) + repr(dict(result.candidates.rankings[0].payloads))
    assert any("3 of 6" in note for note in result.reports[0].notes)


def test_of_passages_of_equal_id_only_the_own_one_is_shown():
    def of(name):
        return index(
            [TextNode(text=f"Ada met {name}{row}.", id_=str(row), metadata={"tenant": name}) for row in range(6)]
        )

    retriever = CalibratedFusionRetriever(retrievers={name: of(name) for name in ("blue", "red")}, k=12)
    for found in both(retriever.within(RED)):
        assert len(found) == 6
        assert tenants(found) == {"red"}
    result = retriever.explain(QUERY, filters=RED)
    assert [(one.source, one.status) for one in result.reports] == [("blue", "empty"), ("red", "ok")]
    assert "blue1" not in repr(result)
    assert result.warnings == ()


# Filters that cannot be applied, or that are missing.


@pytest.mark.parametrize("kind", sorted(RETRIEVERS))
def test_where_a_filter_is_required_a_call_without_it_fails(kind):
    retriever = RETRIEVERS[kind](required_filter_key="tenant")
    for found in both(retriever.within(RED)):
        assert tenants(found) == {"red"}
    many = MetadataFilters(
        filters=[
            MetadataFilter(key="tenant", value=["red"], operator=FilterOperator.IN),
            MetadataFilter(key="row", value=1, operator=FilterOperator.GT),
        ]
    )
    assert tenants(retriever.within(many).retrieve(QUERY)) == {"red"}
    either = MetadataFilters(filters=[*RED.filters, *only(1, "row").filters], condition="or")
    for asked in (retriever, *map(retriever.within, (only(1, "row"), only("x", operator=FilterOperator.NE), either))):
        with pytest.raises(InvalidInputError, match="required_filter_key='tenant'"):
            asked.retrieve(QUERY)
        with pytest.raises(InvalidInputError, match="required_filter_key='tenant'"):
            asyncio.run(asked.aretrieve(QUERY))
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
    with pytest.raises(InvalidInputError, match="required_filter_key='tenant'"):
        engine.query(QUERY)
    with pytest.raises(InvalidInputError, match="required_filter_key must be"):
        RETRIEVERS[kind](required_filter_key=" ")


def test_where_a_filter_is_required_explaining_needs_it_and_calibrating_does_not():
    retriever = fused(required_filter_key="tenant")
    with pytest.raises(InvalidInputError, match="required_filter_key='tenant'"):
        retriever.explain(QUERY)
    assert len(retriever.explain(QUERY, filters=RED).ids) == 6
    assert tenants(fused(required_filter_key="tenant", filters=BLUE).retrieve(QUERY)) == {"blue"}


@pytest.mark.parametrize("kind", ["LSH"])
def test_an_index_that_cannot_select_rows_fails_the_call_also_beside_others(kind):
    import faiss
    import numpy as np
    from llama_index.core import StorageContext
    from llama_index.vector_stores.faiss import FaissVectorStore

    made = faiss.index_factory(8, kind)
    made.train(np.zeros((4, 8), dtype=np.float32))
    storage = StorageContext.from_defaults(vector_store=FaissVectorStore(made))
    vector = VectorStoreIndex(nodes(), embed_model=MockEmbedding(embed_dim=8), storage_context=storage)
    retriever = CalibratedFusionRetriever(vector=vector, graph=walking(), k=12)
    assert retriever.retrieve(QUERY)
    for _ in range(4):
        with pytest.raises(InvalidInputError, match="cannot search only some of its rows"):
            retriever.within(RED).retrieve(QUERY)
    assert retriever.retrieve(QUERY)
