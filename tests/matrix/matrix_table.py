"""The page of stores, made of what the stores answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from matrix_ours import retriever, spec
from matrix_rows import Graph, GraphRow, Opened, Row
from matrix_slice import Slice
from matrix_tenants import MINE, Tenant

from phasegraph import AllSourcesFailed, InvalidInputError

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "stores.md"
HEAD = (
    "| Store | Raw score | Best, middle, worst | Better | Relevance function | Id | What phasegraph does |\n"
    "| --- | --- | --- | --- | --- | --- | --- |"
)

GRAPH_HEAD = (
    "| Retriever | Score | Id of a hit | Passage of a hit | What the source's report says |\n"
    "| --- | --- | --- | --- | --- |"
)

FILTER_HEAD = "| Source | What applies the filter | Passages that the asking tenant gets |\n| --- | --- | --- |"


REASONS = {
    "known for this store": "; direction known from the store's class",
    "inferred from the order of its scores": "; direction inferred from the order of the scores",
    "it returns no scores": ", because the store returns no scores",
}
"""The reasons in a report's notes, as the ends of a cell."""


def line(row: Row, opened: Opened, data: Slice) -> str:
    """One row of the table, from one question."""
    question = data.questions[0]
    scores = [score for _, score in opened.own(question, len(data.rows))]
    cells = (
        row.store,
        row.score,
        spread(scores),
        row.better,
        relevance(opened, question),
        opened.identity,
        what_we_do(row, opened, question),
    )
    return f"| {' | '.join(cells)} |"


def graph_line(row: GraphRow, graph: Graph, data: Slice) -> str:
    """One row of the table of knowledge-graph retrievers, from one question."""
    asked = retriever(row.framework, graph=spec(row.framework, graph.given, **graph.settings))
    (report,) = asked.explain(data.questions[0]).reports
    notes = (
        "; ".join(note for note in report.notes if not note.startswith("hits without"))
        or "no note: the scores are used unchanged"
    )
    return f"| {row.store} | {row.score} | {row.hit} | {row.passage} | {notes} |"


def tenant_line(row: Row | GraphRow, opened: Opened | Graph, data: Slice) -> str:
    """One row of the table of filters: what one of two tenants gets."""
    mine = set(data.of(MINE).ids)
    settings = opened.settings if isinstance(opened, Graph) else {}
    asked = retriever(row.framework, retrievers={"one": spec(row.framework, opened.given, **settings)})
    try:
        view = Tenant(row.framework, asked, MINE)
        result = next(found for found in map(view.explain, data.questions) if found.ids)
    except (AllSourcesFailed, InvalidInputError):
        return f"| {row.store} | nothing, because the source takes no filter | none: the call fails |"
    found = result.candidates.ids
    return f"| {row.store} | {row.filtered} | {len(found)}; {len(set(found) - mine) or 'none'} from the other tenant |"


def spread(scores: Sequence[float | None]) -> str:
    """Three of the scores, to two places."""
    picked = [scores[0], scores[len(scores) // 2], scores[-1]]
    if all(score is None for score in picked):
        return "no scores"
    return ", ".join("none" if score is None else number(score) for score in picked)


def number(value: float) -> str:
    """Two places, without a minus before zero."""
    return f"{round(value, 2) + 0.0:.2f}"


def relevance(opened: Opened, question: str) -> str:
    """What the framework's own relevance function makes of the best and the worst."""
    if opened.relevance is None:
        return "–"
    try:
        values = opened.relevance(question)
    except NotImplementedError:
        return "not implemented"
    order = "" if values == sorted(values, reverse=True) else " (**out of order**)"
    span = "" if all(0 <= value <= 1 for value in values) else " (outside 0 to 1)"
    return spread(values) + order + span


def what_we_do(row: Row, opened: Opened, question: str) -> str:
    """In the words of the source's report, what it says about ids left out."""
    report: Any = retriever(row.framework, vector=opened.given).explain(question).reports[0]
    taken = {"higher": "used unchanged", "lower": "negated", "ranks only": "ranks only"}[row.better]
    reasons = [note.partition(": ")[2] for note in report.notes if "is better" in note or "rank only" in note]
    return f"{taken}{REASONS.get(reasons[0], f': {reasons[0]}')}"


Lines = Iterable[tuple[str, str | None]]


def page(stores: Lines, graphs: Lines, filters: Lines) -> str:
    """The page from (framework, line) pairs in order; its frame alone where there are no lines."""
    vector, knowledge = tables("vector and lexical", HEAD, stores), tables("knowledge graphs", GRAPH_HEAD, graphs)
    kept = tables("two tenants in one store", FILTER_HEAD, filters)
    return "\n\n".join([INTRODUCTION, *vector, GRAPHS, *knowledge, FILTERS, *kept, NOTES]) + "\n"


def tables(kind: str, head: str, lines: Lines) -> list[str]:
    """One table per framework."""
    by_framework: dict[str, list[str]] = {}
    for framework, one in lines:
        by_framework.setdefault(framework, []).extend([] if one is None else [one])
    return ["\n".join([f"## {name}, {kind}\n\n{head}", *rows]) for name, rows in by_framework.items()]


INTRODUCTION = """\
# What each store returns

You want to know which scores and ids your store returns, and how phasegraph reads them. Find your store in the tables.

All values are measured, not copied from documentation. A script loads 100 passages of `data/musique-openie`, with their
real embeddings, into each store and runs one query. `python tests/matrix/make_table.py` writes this page. The tests of
the repository repeat the query for every store, and fail if a row is no longer true.

- **Raw score** is the quantity that the store returns as the score.
- **Best, middle, worst** are the raw scores of the first, the middle and the last hit.
- **Better** says whether higher or lower raw scores are better. If lower scores are better, phasegraph negates the
  scores.
- **Relevance function** shows what LangChain's `similarity_search_with_relevance_scores` returns for the same three
  hits. For some stores, this function returns values in the wrong order or outside the range of 0 to 1. phasegraph
  therefore never calls this function.
- **Id** says where phasegraph finds the id of a hit. Give the same passage the same id in every store.
- **What phasegraph does** says how phasegraph uses the score, and how it determines the *direction*: whether higher or
  lower scores are better. You can declare the direction (`HitFields(higher_is_better=...)`). Otherwise, phasegraph
  knows the direction from the store's class, or infers it from the order of the scores. If both are impossible, only
  the ranks count."""

GRAPHS = """\
Knowledge-graph retrievers return passages, triples, or a single text with all facts. For a triple, phasegraph returns
the passage from which the triple was extracted: the graph stores this passage's id with the relation. Vectors and graph
then return the same ids, so fusion can merge their hits.

If all scores in a list are equal, the list has no order. phasegraph then uses only the set of passages in the list. If
a retriever returns a text without a passage id, the text becomes a separate hit. Whenever you can, return `Document`s,
nodes or dicts with the ids of the passages. The last column of the next two tables quotes the notes in the source's
report (`result.reports`). "Known for this store" means: known from the retriever's class."""

FILTERS = """\
## Filters

For the next two tables, one store contains 50 passages of each of two tenants. One tenant searches with a filter:
`filter={"tenant": "red"}` in LangChain, `filters=MetadataFilters(...)` in LlamaIndex. The tests search every output for
ids and words of the other tenant: hits, evidence, candidates, paths of the walk, reports, warnings, callbacks, events
and spans. The tests also check that ids and scores are the same as in a store that never contained the other tenant's
passages.

- **Vector stores.** phasegraph uses a store's own filter if the store receives the filter's values as parameters. For
  LanceDB, LangChain writes the values into the text of the query instead. phasegraph therefore requests all rows of
  LanceDB (up to 10,000), drops the rows that do not match, and ranks the other rows. With more than 10,000 rows, or
  with the search type `mmr`, the call fails.
  LlamaIndex's Postgres store also writes keys and values into the text of its query. phasegraph therefore escapes them,
  so that they cannot become SQL. This needs PostgreSQL's default setting `standard_conforming_strings = on`.
- **BM25.** A BM25 index counts the words of all its documents, so its scores would reveal the other tenant's texts.
  phasegraph therefore builds a new index from the matching documents, once per filter. If phasegraph cannot build this
  index, the call fails: for example, if you use your own BM25 class, or an index that does not store its nodes.
- **Sources without a filter.** If a source cannot apply a filter, phasegraph raises an error: in LangChain when you
  call the retriever, in LlamaIndex when you call `within`. Examples are retrievers of a property graph and chains that
  write Cypher. phasegraph does not filter their hits afterwards, because the source has already used the other tenant's
  passages to rank them. Give each tenant a separate graph, or use phasegraph's `EntityGraphRetriever`.
- **Functions.** If a function has a parameter for the filter, phasegraph passes the filter to the function. It then
  drops returned hits that do not match.
- **Retrievers with their own filter.** A wrapped retriever may already have a filter, in its search settings or through
  `bind`. phasegraph combines this filter with the filter of the call, and applies both filters to all sources.
  `calibrate` also applies the retriever's own filter.
- **FAISS.** LlamaIndex cannot filter FAISS, and LangChain filters only the first 20 hits of an unfiltered search. In
  both frameworks, phasegraph lets FAISS search only the matching rows of flat, HNSW and IVF indexes. With other
  indexes, the call fails in LlamaIndex; in LangChain, phasegraph requests all rows.
- **Operators.** phasegraph translates LangChain's operators (`$in`, `$or`, ranges) for Chroma, Qdrant, PGVector and
  Neo4jVector. From other stores, phasegraph requests 10,000 hits and drops the hits that do not match. If too few hits
  remain, the call fails.
- **The walk.** `EntityGraphRetriever` walks over a graph of the allowed passages only, so the other tenant's texts do
  not change the scores. Two limits remain. The graph's names come from the passages of all tenants. A fact that occurs
  in passages of both tenants may be lost. If each tenant has a separate graph, neither limit applies."""

NOTES = """\
## Notes

- Qdrant accepts only UUIDs and whole numbers as ids. LangChain's `PGVectorStore` accepts only UUIDs, unless you create
  its id column with another type. If your store does not accept your passage ids, write the ids into the metadata. Name
  the metadata key with `SourceSpec(fields=HitFields(id=...))`.
- With the driver `asyncpg`, an integer id column of `PGVectorStore` refuses ids that are texts, as the ids of documents
  are. phasegraph then cannot look up or change passages, and a warning says so. With `psycopg`, it can.
- A hybrid search of LangChain's `PGVectorStore` keeps the words of its first query, and uses them in all later queries.
  phasegraph therefore gives each search a copy of the configuration with the words of the question, and asks both parts
  of the search for as many rows as it requests from the source.
- In LlamaIndex, the hybrid search of `PGVectorStore` returns the nearest vectors with their cosines, and then the hits
  of the text search with text ranks, which are much smaller. The hits of the text search are therefore lost, and a
  warning says so. Pass two sources instead: `vector=index.as_retriever()` and
  `retrievers={"text": index.as_retriever(vector_store_query_mode="sparse")}`.
- If a table of PostgreSQL has an HNSW or IVFFlat index, pgvector applies a filter only to the rows that the index
  search returned, by default 40 with HNSW. The source `vector` then has fewer hits than requested; its report gives
  their number. Set `hnsw.iterative_scan` in PostgreSQL, or `hnsw.ef_search` in the query options of the store.
- LangChain's `PGVector` stores all collections in one table, and an id can belong to only one collection. If you write
  an existing id to a second collection, a search in the second collection does not find the passage.
- LangChain's `LanceDB` always searches by squared distance and ignores its argument `distance`.
- If you declare a direction, phasegraph uses it even if the order of the hits contradicts it. You then get one warning,
  and a note in the report of the source for every such answer.
- A source of the core package, such as `GraphSource`, returns ids without texts. phasegraph takes the texts from the
  hits of the other sources, or looks them up by id in the stores of these sources. With some stores, this is
  impossible: LanceDB returns no ids, and LlamaIndex's `BM25Retriever` and both frameworks' Neo4jVector cannot look up
  ids. With these stores, pass the texts (`documents=`, `nodes=` or `HitFields(resolve=...)`). Otherwise, a warning says
  that the texts are missing.
- When you create LlamaIndex's `CypherTemplateRetriever` over a store without Cypher, such as
  `SimplePropertyGraphStore`, you get an error from LlamaIndex.
- `GraphCypherQAChain` can be a source. With `return_direct`, each row is a hit; the columns `c.id` and `c.text` contain
  its id and its text. Without `return_direct`, the chain's answer is a single hit.
- In neo4j-graphrag 1.21, `VectorCypherRetriever` raises an error if it receives filters, and `HybridRetriever` has no
  parameter for filters.
- If you set a filter, the Neo4j vector stores of both frameworks score by cosine, even if the index uses another
  similarity.
- Neo4j's vector index stores quantized vectors. The order of hits with nearly equal scores can therefore differ between
  two runs."""
