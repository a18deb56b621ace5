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

Every line is measured, not copied from a manual: a hundred passages of `data/musique-openie` with their real
embeddings in the real store, and the first of its questions. "Best, middle, worst" are the raw scores of the first,
the middle and the last hit. This page is written by `python tests/matrix/make_table.py`; the tests ask every store
again and fail where a line no longer holds.

- **Better** is the direction of the raw score. A distance becomes a ranking by negation.
- **Relevance function** is what LangChain's `similarity_search_with_relevance_scores` makes of the same hits, best
  first. Some stores' turn the order round, others leave the range of 0 to 1, so phasegraph never asks it.
- **Id** is where the id of a hit is found. Sources meet by id: give the same passage the same id in every store.
- **What phasegraph does** says how the direction came to be known, as the source's report does: it is declared
  (`HitFields(higher_is_better=...)`), else known for the store's class, else inferred from the order of the
  answers so far; else only the ranks count."""

GRAPHS = """\
Knowledge-graph retrievers return passages, triples or one text of everything they found. A triple leads to the passage
that its relation names, not to the passage that mentioned its subject last; then vectors and graph meet by id, and
their agreement counts. Equal scores count as membership only. Where a retriever says nothing about passages, its text
stands as a hit of its own; return `Document`s, nodes or dicts with the passages' ids instead wherever you can."""

FILTERS = """\
## Filters

The hundred passages belong to two tenants, half to each, in one store. One of them asks, with the filter given once:
`filter={"tenant": "red"}` in LangChain, `filters=MetadataFilters(...)` in LlamaIndex. The tests search everything that
is reported on the way (hits, evidence, candidates, paths of the walk, reports, warnings, callbacks, events, spans) for
the ids and words of the other, and compare ids and scores with those of a store that never held the other's passages.

- A store's own filter is used where its values travel as values. LangChain writes those for LanceDB into the text of
  its query, so there every row is asked for, up to 10,000, and what does not match is dropped before anything sees it;
  beyond that, and under `mmr`, it is refused.
- A BM25 index counts the words of all its documents, so its scores would tell of the other's texts. It is built anew
  from the documents that match, once per filter. It is refused where that cannot be done: for a class of one's own, or
  an index that does not hold its nodes.
- What takes no filter is refused, not filtered afterwards: it has walked through the other's passages by then, and what
  it found may rest on them. In LangChain the call fails, in LlamaIndex `within` raises. Retrievers of
  a property graph and chains that write Cypher are such; give each tenant a graph of its own, or use ours. A function
  that takes a filter is given it, and what it returns against it is dropped.
- A filter that a retriever has already, in its search settings or bound to it, stays in force with that of the call,
  and reaches the other sources. `calibrate` looks within the retriever's own filter, too.
- LlamaIndex has no filters for FAISS, and LangChain filters twenty hits that were found without. In both, FAISS's own
  selection of rows is used for flat, HNSW and IVF indexes; another index fails in LlamaIndex, and is asked for all its
  rows in LangChain.
- LangChain's operators (`$in`, `$or`, ranges) are put into Chroma's, Qdrant's, PGVector's and Neo4jVector's words.
  Another store is asked for 10,000 hits, and what does not match is dropped; where too few are left of 10,000, it is an
  error.
- Our walk runs on the graph of the allowed passages. What a text says by itself is the same as if it had been built for
  the tenant alone; which names count as entities was read with all passages at hand, and a fact that passages of both
  state may be lost. A graph per tenant has neither limit."""

NOTES = """\
## Notes

- Qdrant takes UUIDs and whole numbers as ids, LangChain's `PGVectorStore` UUIDs unless its id column is made otherwise.
  Where a store has to have other ids than the rest, `SourceSpec(fields=HitFields(id=...))` reads the shared one out of
  the metadata.
- LangChain's `PGVector` keeps one table for all collections, and an id belongs to one of them: the same id written to
  a second collection is not found there.
- LangChain's `LanceDB` searches by squared distance whatever `distance` says.
- A declared direction is believed. Where the order of an answer says the opposite, a warning says so once and the
  source's report every time.
- A source of the core that is given as it is names passages and holds no texts: they come from what the other sources
  found, then from their stores by id. LanceDB hands back no ids; LlamaIndex's `BM25Retriever` and both frameworks'
  Neo4jVector look none up: there
  give the texts yourself (`documents=`, `nodes=` or `HitFields(resolve=...)`), or a warning says that they are missing.
- LlamaIndex's `CypherTemplateRetriever` refuses a store that speaks no Cypher, `SimplePropertyGraphStore` among them,
  when it is made.
- `GraphCypherQAChain` can be a source as it is: with `return_direct` each row is a hit, `c.id` and `c.text` read as its
  id and text; without, the answer in words is one.
- neo4j-graphrag 1.22's `VectorCypherRetriever` raises when it is given filters; its `HybridRetriever` takes none.
- Both frameworks' Neo4j vector stores score by cosine where a filter is given, whatever the index measures.
- Neo4j's vector index holds quantised vectors: near ties can change places."""
