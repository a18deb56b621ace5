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

FILTER_HEAD = "| Source | What keeps the filter | Passages for one of the two |\n| --- | --- | --- |"


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
    notes = "; ".join(note for note in report.notes if not note.startswith("hits without")) or "its scores as they are"
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
        return f"| {row.store} | nothing: it takes none | refused |"
    found = result.candidates.ids
    return f"| {row.store} | {row.filtered} | {len(found)}, {len(set(found) - mine) or 'none'} of them the other's |"


def spread(scores: Sequence[float | None]) -> str:
    """Three of the scores, to two places."""
    picked = [scores[0], scores[len(scores) // 2], scores[-1]]
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
    order = "" if values == sorted(values, reverse=True) else ", **out of order**"
    span = "" if all(0 <= value <= 1 for value in values) else ", beyond 0 to 1"
    return spread(values) + order + span


def what_we_do(row: Row, opened: Opened, question: str) -> str:
    """In the words of the source's report, what it says about ids left out."""
    report: Any = retriever(row.framework, vector=opened.given).explain(question).reports[0]
    taken = {"higher": "taken as it is", "lower": "negated", "ranks only": "ranks only"}[row.better]
    reasons = [note.partition(": ")[2] for note in report.notes if "is better" in note or "rank only" in note]
    return f"{taken}: {reasons[0]}"


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
# Where a score comes from, and what is done with it

You want to know what your store returns, and how phasegraph reads it. Find your store in the tables below.

The tests measure every line. They put a hundred passages of `data/musique-openie`, with their real embeddings, into the
real store and ask the first question. `python tests/matrix/make_table.py` writes this page. The tests ask every store
again and fail if a line is no longer true.

- **Best, middle, worst** are the raw scores of the first, the middle and the last hit.
- **Better** is the direction of the raw score. phasegraph negates distances.
- **Relevance function** shows the result of LangChain's `similarity_search_with_relevance_scores` for the same hits,
  best first. Some stores reverse the order there, and others leave the range of 0 to 1. So phasegraph never calls it.
- **Id** says where phasegraph finds the id of a hit. Give the same passage the same id in every store.
- **What phasegraph does** says how phasegraph knows the direction, in the words of the source's report. You declare
  the direction (`HitFields(higher_is_better=...)`), or phasegraph knows it from the store's class. Otherwise it infers
  the direction from the order of the answers so far. If it cannot, only the ranks count."""

GRAPHS = """\
Knowledge-graph retrievers return passages, triples, or one text with all facts. phasegraph maps a triple to the passage
that its relation names, not to the last passage that mentioned its subject. So hits of vectors and graph match by id,
and their agreement counts. If all scores are equal, only membership counts. If a retriever names no passage, its text
is a separate hit. So return `Document`s, nodes or dicts with the passages' ids whenever you can."""

FILTERS = """\
## Filters

One store holds the hundred passages of two tenants, half for each. One tenant asks with a filter:
`filter={"tenant": "red"}` in LangChain, `filters=MetadataFilters(...)` in LlamaIndex. The tests search every output for
ids and words of the other tenant: hits, evidence, candidates, paths of the walk, reports, warnings, callbacks, events
and spans. They also compare ids and scores with a store that never held the other tenant's passages.

- phasegraph uses a store's own filter if the filter's values travel as parameters. For LanceDB, LangChain writes the
  values into the text of the query. There phasegraph asks for every row, up to 10,000, and drops the other tenant's
  rows first. With more rows, or under `mmr`, the call fails.
- A BM25 index counts the words of all its documents, so its scores would reveal the other tenant's texts. phasegraph
  builds a new index from the matching documents, once per filter. The call fails if that is impossible: for a class of
  your own, or an index without its nodes.
- If a source takes no filter, phasegraph refuses it instead of filtering its hits. Such a source has already used the
  other tenant's passages. In LangChain, the call fails; in LlamaIndex, `within` raises an error. This concerns
  retrievers of a property graph and chains that write Cypher. Give each tenant a separate graph, or use ours.
- A function that takes a filter receives it. phasegraph drops hits that do not match.
- A retriever may already have a filter, in its search settings or bound to it. This filter applies together with the
  call's filter and reaches the other sources. `calibrate` also stays within the retriever's own filter.
- LlamaIndex has no filters for FAISS, and LangChain filters twenty hits of an unfiltered search. In both frameworks,
  phasegraph uses FAISS's own selection of rows for flat, HNSW and IVF indexes. With other indexes, LlamaIndex fails,
  and in LangChain phasegraph asks for all rows.
- phasegraph translates LangChain's operators (`$in`, `$or`, ranges) for Chroma, Qdrant, PGVector and Neo4jVector. It
  asks other stores for 10,000 hits and drops hits that do not match. If too few of the 10,000 remain, you get an error.
- Our walk runs on the graph of the allowed passages. Each text counts as in a graph of this tenant alone. Two limits
  remain: the names were found with all passages present, and a fact in passages of both tenants may be lost. A separate
  graph per tenant has neither limit."""

NOTES = """\
## Notes

- Qdrant takes UUIDs and whole numbers as ids. LangChain's `PGVectorStore` takes UUIDs, unless you create its id column
  differently. If a store needs other ids than the rest, `SourceSpec(fields=HitFields(id=...))` reads the shared id from
  the metadata.
- LangChain's `PGVector` keeps one table for all collections, and an id belongs to one collection. If you write the same
  id to a second collection, the second collection does not find it.
- LangChain's `LanceDB` searches by squared distance, whatever `distance` says.
- phasegraph believes a declared direction. If the order of an answer contradicts it, a warning says so once, and the
  source's report says so every time.
- A core source names passages without texts. The texts come from the hits of the other sources, then from their stores
  by id. LanceDB returns no ids. LlamaIndex's `BM25Retriever` and both frameworks' Neo4jVector cannot look up ids.
  There, pass the texts (`documents=`, `nodes=` or `HitFields(resolve=...)`). Otherwise a warning says that they are
  missing.
- LlamaIndex's `CypherTemplateRetriever` refuses a store without Cypher, such as `SimplePropertyGraphStore`, when you
  create it.
- `GraphCypherQAChain` can be a source. With `return_direct`, each row is a hit, and `c.id` and `c.text` are its id and
  text. Without `return_direct`, the answer in words is one hit.
- neo4j-graphrag 1.22's `VectorCypherRetriever` raises an error if it receives filters. Its `HybridRetriever` takes no
  filters.
- Both frameworks' Neo4j vector stores score by cosine if you set a filter, whatever the index measures.
- Neo4j's vector index holds quantised vectors, so near ties can change places."""
