"""PostgreSQL behind both frameworks: filters in SQL, all rows, and rows that SQL changes."""

import uuid

import pytest
from langchain_postgres import Column, PGEngine, PGVectorStore
from langchain_postgres.v2.hybrid_search_config import HybridSearchConfig
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters
from llama_index.vector_stores.postgres import PGVectorStore as LlamaIndexPostgres
from matrix_slice import LangChainVectors, LlamaIndexVectors
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever
from llama_index.retrievers.phasegraph import CalibratedFusionRetriever
from phasegraph import PhasegraphWarning

OWNERS = ["O'Brien", "at :noon", r"C:\x", "7", "acme", "100% x", "100 x"]
FILTERS = [
    ("==", "O'Brien", 1), ("==", "x' OR '1'='1", 0), ("==", "at :noon", 1), ("==", r"C:\x", 1), ("==", "7", 1),
    ("!=", "7", 6), ("in", ["O'Brien", "7"], 2), ("nin", ["at :noon"], 6), ("text_match", "100%", 1),
    ("text_match", r":\x", 1), (">", "7", 4), ("<=", "7", 3), (">", "x' OR '1'='1", 0),
]  # fmt: skip


@pytest.fixture(scope="module")
def sql(servers):
    """A function that runs SQL, and returns the rows if there are any."""
    engine = create_engine(f"postgresql+psycopg{servers.postgres}")

    def run(query, **values):
        with engine.begin() as connection:
            found = connection.execute(text(query), values)
            return [tuple(row) for row in found] if found.returns_rows else []

    yield run
    engine.dispose()


@pytest.fixture
def index(data, servers):
    """An index over PostgreSQL; each node has another owner."""
    store = LlamaIndexPostgres(
        connection_string=f"postgresql+psycopg2{servers.postgres}",
        async_connection_string=f"postgresql+asyncpg{servers.postgres}",
        table_name=f"m{uuid.uuid4().hex}",
        embed_dim=data.vectors.shape[1],
    )
    nodes = data.nodes()[: len(OWNERS)]
    for node, owner in zip(nodes, OWNERS, strict=True):
        node.metadata["owner"] = owner
    storage = StorageContext.from_defaults(vector_store=store)
    return VectorStoreIndex(nodes, storage_context=storage, embed_model=LlamaIndexVectors())


@pytest.fixture
def table(data, servers):
    """A function that creates a PGVectorStore with the passages, and a metadata column for the tenant."""
    engine = PGEngine.from_connection_string(f"postgresql+psycopg{servers.postgres}")

    def made(**more):
        name = f"m{uuid.uuid4().hex}"
        columns = [Column("tenant", "TEXT")]
        engine.init_vectorstore_table(name, data.vectors.shape[1], metadata_columns=columns)
        store = PGVectorStore.create_sync(engine, LangChainVectors(data), name, metadata_columns=["tenant"], **more)
        store.add_documents(data.documents(), ids=data.ids)
        return store

    return made


def owned(value, operator="=="):
    """Filters on the key "owner"."""
    return MetadataFilters(filters=[MetadataFilter(key="owner", value=value, operator=FilterOperator(operator))])


def test_an_index_over_postgres_becomes_a_retriever(index, data):
    retriever = CalibratedFusionRetriever.from_index(index, similarity_top_k=3)
    assert len(retriever.ids()) == len(OWNERS)
    assert len(retriever.retrieve(data.questions[0])) == 3


def test_a_hybrid_search_on_two_scales_is_warned_about(index):
    hybrid = index.as_retriever(vector_store_query_mode="hybrid")
    with pytest.warns(PhasegraphWarning, match="source 'vector': the hybrid search of PGVectorStore ranks all hits"):
        CalibratedFusionRetriever(vector=hybrid)


def test_a_change_reads_only_the_rows_that_it_names(index, sql, data):
    retriever = CalibratedFusionRetriever.from_index(index)
    table = index.vector_store.table_name
    sql(f"UPDATE data_{table} SET metadata_ = CAST('[]' AS json) WHERE node_id = :one", one=data.ids[1])  # unreadable
    assert retriever.delete([data.ids[0]]) == 1
    assert sql(f"SELECT count(*) FROM data_{table}") == [(len(OWNERS) - 1,)]


def test_the_value_of_a_filter_does_not_become_sql(index, sql, data):
    sql("CREATE TABLE victim (x int)")
    attack = owned("x'; DROP TABLE victim; COMMIT; SELECT 1 WHERE '1'='1")
    assert not CalibratedFusionRetriever(vector=index).within(attack).retrieve(data.questions[0])
    assert sql("SELECT CAST(to_regclass('victim') AS text)") == [("victim",)]


def test_texts_that_a_user_assigns_to_a_filter_are_escaped_too(index, sql, data):
    sql("CREATE TABLE assigned (x int)")
    attack = owned(["acme"], "in")
    attack.filters[0].value = ("x'); DROP TABLE assigned; COMMIT; SELECT 1 WHERE ('1'='1",)  # and not a list
    assert not CalibratedFusionRetriever(vector=index).within(attack).retrieve(data.questions[0])
    assert sql("SELECT CAST(to_regclass('assigned') AS text)") == [("assigned",)]


@pytest.mark.parametrize(("operator", "value", "count"), FILTERS)
def test_a_filter_on_postgres_finds_what_it_names(index, data, operator, value, count):
    (report,) = (
        CalibratedFusionRetriever(vector=index).within(owned(value, operator)).explain(data.questions[0]).reports
    )
    assert (report.status, report.hits, report.dropped) == ("ok" if count else "empty", count, 0)
    assert "match the filter" not in str(report.notes)


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_a_store_for_asynchronous_calls_only_also_shows_what_was_deleted(servers, sql, data, driver):
    pool = create_async_engine(f"postgresql+{driver}{servers.postgres}")
    engine, name = PGEngine.from_engine(pool), f"m{uuid.uuid4().hex}"
    await engine.ainit_vectorstore_table(name, data.vectors.shape[1])
    store = await PGVectorStore.create(engine, LangChainVectors(data), name)
    documents = data.documents()
    await store.aadd_documents(documents, ids=data.ids)
    graph = EntityGraphRetriever.from_documents(documents, LangChainVectors(data))
    retriever = PhaseGraphRetriever(vector=store, graph=graph, k=5)
    first = (await retriever.ainvoke(data.questions[0]))[0].id
    sql(f"DELETE FROM {name} WHERE langchain_id = CAST(:one AS uuid)", one=first)
    with pytest.warns(PhasegraphWarning, match="hits dropped: their passages are not in the store"):
        found = await retriever.ainvoke(data.questions[0])
    assert first not in [one.id for one in found]
    await pool.dispose()


def test_a_table_of_postgres_becomes_a_retriever_that_can_change(table, data):
    retriever = PhaseGraphRetriever.from_vectorstore(table(), k=3)
    assert sorted(retriever.ids()) == sorted(data.ids)
    assert {one.metadata["tenant"] for one in retriever.invoke(data.questions[0], filter={"tenant": "red"})} == {"red"}
    (first,) = retriever.ids(where={"tenant": "red"})[:1]
    retriever.delete([first])
    assert not retriever.explain(data.questions[0]).warnings
    assert first not in retriever.ids()


def test_a_hybrid_search_uses_the_words_of_its_own_question(table, data):
    stores = [table(hybrid_search_config=HybridSearchConfig()) for _ in data.questions[:2]]
    used, fresh = (PhaseGraphRetriever(vector=one) for one in stores)
    used.invoke(data.questions[0])
    found, expected = (one.explain(data.questions[1]).candidates.rankings[0] for one in (used, fresh))
    assert (found.ids, found.scores.tolist()) == (expected.ids, expected.scores.tolist())
    assert len(found) == 50  # and not the eight rows of the store's default


async def test_a_question_to_a_table_is_embedded_once(table, data):
    store = table()
    asked, model = [], store.embeddings
    graph = EntityGraphRetriever.from_documents(data.documents(), model)
    retriever = PhaseGraphRetriever(vector=store, graph=graph)
    embed = model.embed_query
    model.embed_query = lambda query: asked.append(query) or embed(query)
    retriever.invoke(data.questions[0])
    await retriever.ainvoke(data.questions[1])
    assert asked == list(data.questions[:2])
