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
        return f"| {row.store} | nothing: the source takes no filter | refused |"
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
    order = "" if values == sorted(values, reverse=True) else ", **out of order**"
    span = "" if all(0 <= value <= 1 for value in values) else ", outside 0 to 1"
    return spread(values) + order + span


def what_we_do(row: Row, opened: Opened, question: str) -> str:
    """In the words of the source's report, what it says about ids left out."""
    report: Any = retriever(row.framework, vector=opened.given).explain(question).reports[0]
    taken = {"higher": "used unchanged", "lower": "negated", "ranks only": "ranks only"}[row.better]
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
# What each store returns

The tables show what your store returns, and how phasegraph uses it.

Every line is measured. A script puts 100 passages of `data/musique-openie`, with their real embeddings, into the real
store and asks one question. `python tests/matrix/make_table.py` writes this page. The tests of the repository ask every
store again, and fail if a line is no longer true.

- **Raw score** says what the store's score measures.
- **Best, middle, worst** are the raw scores of the first, the middle and the last hit.
- **Better** says whether a higher or a lower raw score is better. If a lower score is better, phasegraph negates the
  scores.
- **Relevance function** shows the result of LangChain's `similarity_search_with_relevance_scores` for the same hits,
  best first. For some stores, this function reverses the order or leaves the range of 0 to 1. So phasegraph never
  calls it.
- **Id** says where phasegraph finds the id of a hit. Give the same passage the same id in every store.
- **What phasegraph does** says how phasegraph uses the score, and how it knows which direction is better. You can
  declare the direction (`HitFields(higher_is_better=...)`). Otherwise, phasegraph knows the direction from the store's
  class, or infers it from the order of the scores. If it can do neither, only the ranks count."""

GRAPHS = """\
Knowledge-graph retrievers return passages, triples, or one text with all facts. phasegraph converts a triple to the
passage that the relation of the triple names. It does not use the last passage that mentioned the triple's subject. So
vectors and graph return the same ids, and fusion can join their hits.

If all scores of a list are equal, it counts only that a passage is in the list. If a retriever names no passage, its
text becomes a separate hit. So return `Document`s, nodes or dicts with the passages' ids whenever you can. The last
column of the tables quotes the notes of the source's report (`result.reports`)."""

FILTERS = """\
## Filters

One store contains the 100 passages of two tenants, 50 for each. One tenant asks with a filter:
`filter={"tenant": "red"}` in LangChain, `filters=MetadataFilters(...)` in LlamaIndex. The tests search every output for
ids and words of the other tenant: hits, evidence, candidates, paths of the walk, reports, warnings, callbacks, events
and spans. The tests also compare ids and scores with a store that never contained the other tenant's passages.

- phasegraph uses a store's own filter if the filter's values are passed as parameters. For LanceDB, LangChain instead
  writes the values into the text of the query. So phasegraph requests all rows of LanceDB, up to 10,000, and first
  drops the rows of the other tenant. With more rows, or with the search type `mmr`, the call fails.
- A BM25 index counts the words of all its documents, so its scores would reveal the other tenant's texts. phasegraph
  builds a new index from the matching documents, once per filter. The call fails if phasegraph cannot build this
  index: for a BM25 class of your own, or for an index that does not store its nodes.
- If a source takes no filter, phasegraph refuses the filter. It does not filter the hits afterwards, because the source
  has already used the other tenant's passages to rank them. In LangChain, the call fails; in LlamaIndex, `within`
  raises an error. Examples are retrievers of a property graph and chains that write Cypher. Give each tenant a separate
  graph, or use phasegraph's `EntityGraphRetriever`.
- If a function takes a filter, phasegraph passes the filter to it, and drops hits that do not match.
- A wrapped retriever may already have a filter, in its search settings or by `bind`. phasegraph combines this filter
  with the filter of the call, and applies both to all sources. `calibrate` also applies the retriever's own filter.
- LlamaIndex has no filters for FAISS, and LangChain filters 20 hits of an unfiltered search. In both frameworks,
  phasegraph has FAISS search only the matching rows of flat, HNSW and IVF indexes. With other indexes, the call fails
  in LlamaIndex, and phasegraph requests all rows in LangChain.
- phasegraph translates LangChain's operators (`$in`, `$or`, ranges) for Chroma, Qdrant, PGVector and Neo4jVector. It
  requests 10,000 hits from other stores, and drops hits that do not match. If too few hits remain, the call fails.
- The walk of `EntityGraphRetriever` runs on a graph of only the allowed passages, so the other tenant's texts do not
  change the scores. Two limits remain. The names were found in the passages of all tenants, and a fact that stands in
  passages of both tenants may be lost. A separate graph for each tenant has neither limit."""

NOTES = """\
## Notes

- Qdrant takes UUIDs and whole numbers as ids. LangChain's `PGVectorStore` takes UUIDs, unless you create its id column
  with another type. If your store cannot use your passage ids, write them into the metadata, and read them with
  `SourceSpec(fields=HitFields(id=...))`.
- LangChain's `PGVector` stores all collections in one table, and an id belongs to one collection. If you write the same
  id to a second collection, a search in the second collection does not find it.
- LangChain's `LanceDB` searches by squared distance, whatever value its argument `distance` has.
- phasegraph uses a declared direction even if the order of an answer contradicts it. In this case, you get one warning,
  and a note in the source's report of every such answer.
- A source of the core package, such as `GraphSource`, returns ids without texts. phasegraph takes the texts from
  the hits of the other sources, or looks them up by id in the stores of these sources. LanceDB returns no ids.
  LlamaIndex's `BM25Retriever` and both frameworks' Neo4jVector cannot look up ids. With these stores, pass the texts
  (`documents=`, `nodes=` or `HitFields(resolve=...)`). Otherwise, a warning says that the texts are missing.
- LlamaIndex's `CypherTemplateRetriever` refuses a store without Cypher, such as `SimplePropertyGraphStore`, when you
  create it.
- `GraphCypherQAChain` can be a source. With `return_direct`, each row is a hit, and its columns `c.id` and `c.text` are
  the id and the text. Without `return_direct`, the chain's answer is one hit.
- neo4j-graphrag 1.22's `VectorCypherRetriever` raises an error if it receives filters. Its `HybridRetriever` takes no
  filters.
- Both frameworks' Neo4j vector stores score by cosine if you set a filter, whatever similarity the index uses.
- Neo4j's vector index stores quantized vectors, so hits with nearly equal scores can change places."""
