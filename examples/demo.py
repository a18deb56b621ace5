"""Fuse vectors and a knowledge graph in LangChain and in LlamaIndex, on real data in this repository.

Both frameworks answer 100 questions over 1,890 passages, each with its own vector store. Then every system of the table
fuses the retrieved lists. The demo needs no network and no model.

Run: python examples/demo.py [--ask QUESTION] [--json FILE] [--picture FILE] [--data FOLDER]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console

from phasegraph import DegradedError, FusionPipeline, MissingDependencyError, PhasegraphError, Ranking, Result
from phasegraph.apps.cli.evaluate_output import OURS, as_text, title_of
from phasegraph.apps.cli.evaluate_report import meanings
from phasegraph.apps.cli.explain import show_result
from phasegraph.apps.cli.output import console, progress, show_table, write_json
from phasegraph.embedding import named_embedder
from phasegraph.evaluation.datasets import Dataset, load_dataset
from phasegraph.evaluation.experiment import Answers, Table, compare
from phasegraph.evaluation.judgements import Judgement
from phasegraph.evaluation.peers import PEERS
from phasegraph.evaluation.query_files import Query
from phasegraph.evaluation.source_runs import ExperimentInput, graph_of, search_sources
from phasegraph.evaluation.systems import OWN_SYSTEMS
from phasegraph.graph import EntityGraph

BUNDLED = Path(__file__).resolve().parents[1] / "data" / "musique-openie"
LIMIT, K = 50, 10
FRAMEWORKS = ("ensemble", "fusion-reciprocal", "fusion-relative")
SYSTEMS = (
    "vector",
    "bm25",
    "graph",
    *FRAMEWORKS,
    *(f"{name}-three" for name in FRAMEWORKS),
    "default",
    "default-three",
)
Embed = Callable[[str], list[float]]


@dataclass
class Side:
    """A framework's retriever: `retrieve` maps a query to document ids, and `results` collects the core's results."""

    name: str
    retrieve: Callable[[str], tuple[str, ...]]
    results: list[Result] = field(default_factory=list)

    def ask(self, query: str) -> tuple[tuple[str, ...], Result]:
        """Ask the framework's retriever; return the ids that it returns, and the core's result from which they come."""
        returned = self.retrieve(query)
        return returned, self.results[-1]


def langchain_side(dataset: Dataset, graph: EntityGraph) -> Side:
    """Create a ``PhaseGraphRetriever`` over an ``InMemoryVectorStore`` and the entity graph."""
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever

    embed = embedder(dataset)

    class Bundled(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [embed(text) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return embed(text)

    documents = [Document(one.content, id=one.id, metadata={"title": one.title}) for one in dataset.passages]
    store = InMemoryVectorStore.from_documents(documents, Bundled())
    walk = EntityGraphRetriever(graph=graph, documents=documents, embeddings=Bundled())
    side = Side("langchain", lambda query: tuple(str(document.id) for document in retriever.invoke(query)))
    retriever = PhaseGraphRetriever(
        vector=store.as_retriever(), graph=walk, fetch_k=LIMIT, timeout=60.0, on_result=side.results.append
    )
    return side


def llamaindex_side(dataset: Dataset, graph: EntityGraph) -> Side:
    """Create a ``CalibratedFusionRetriever`` over a ``SimpleVectorStore`` and the entity graph."""
    from llama_index.core import VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.schema import TextNode

    from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever

    embed = embedder(dataset)

    class Bundled(BaseEmbedding):  # type: ignore[misc, unused-ignore]
        def _get_text_embedding(self, text: str) -> list[float]:
            return embed(text)

        def _get_query_embedding(self, query: str) -> list[float]:
            return embed(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return embed(query)

    nodes = [
        TextNode(id_=one.id, text=one.content, metadata={"title": one.title}, embedding=embed(one.content))
        for one in dataset.passages
    ]
    index = VectorStoreIndex(nodes, embed_model=Bundled())
    walk = EntityGraphRetriever(graph, nodes=nodes, embed_model=Bundled())
    side = Side("llamaindex", lambda query: tuple(node.node_id for node in retriever.retrieve(query)))
    retriever = CalibratedFusionRetriever(
        vector=index.as_retriever(), graph=walk, fetch_k=LIMIT, timeout=60.0, on_result=side.results.append
    )
    return side


def embedder(dataset: Dataset) -> Embed:
    """Return a function from text to embedding: from the data set if it has the text, otherwise from MiniLM."""
    known = dataset.vectors_by_text()

    def embed(text: str) -> list[float]:
        vector = known.get(text)
        if vector is None:
            vector = minilm().embed_query(text)
        return [float(value) for value in vector]

    return embed


@cache
def minilm() -> Any:
    """Return the embedding model all-MiniLM-L6-v2, which is loaded once."""
    return named_embedder("minilm")


@dataclass
class Demonstration:
    """The results of the demo: a table of systems that fuse the same lists of 50 hits, and the table's data."""

    dataset: Dataset
    table: Table
    results: Sequence[Result]
    """The result of phasegraph's default settings for each question."""
    rankings: dict[str, list[Ranking]]
    """The rankings by source name, as the retrievers returned them."""
    chosen: int | None
    """Row of the first question whose last hop only the default finds in its first 5 hits, and not the vectors."""
    seconds: float


def run_demo(folder: Path = BUNDLED) -> Demonstration:
    """Answer every question in both frameworks, compare the systems of the table, and return the results.

    Raise PhasegraphError if the frameworks return different ids for a question.
    """
    started = perf_counter()
    dataset = load_dataset(folder)
    graph = graph_of(dataset)
    first, second = (answer_all(side(dataset, graph), dataset) for side in (langchain_side, llamaindex_side))
    for query, one, other in zip(dataset.queries, first, second, strict=True):
        if one.ids != other.ids:
            raise PhasegraphError(f"question {query.id}: LangChain returned {one.ids}, LlamaIndex {other.ids}")
    rankings = {name: [ranking_of(result, name) for result in first] for name in ("vector", "graph")}
    rankings["bm25"] = list(search_sources(ExperimentInput(dataset, LIMIT), ["bm25"])["bm25"].rankings)
    table = compare_systems(dataset, rankings)
    column = [str(measure) for measure in table.measures].index("LastHop@5")
    better = table.values["default"][:, column] > table.values["vector"][:, column]
    chosen = int(better.argmax()) if better.any() else None
    return Demonstration(dataset, table, first, rankings, chosen, perf_counter() - started)


def answer_all(side: Side, dataset: Dataset) -> list[Result]:
    """Ask every question in one framework, and return the results.

    Raise PhasegraphError if the core does not return the same ids from the same lists.
    """
    found = []
    for row in progress(range(len(dataset.queries)), side.name):
        query = dataset.queries[row]
        returned, result = side.ask(query.text)
        lists = result.candidates.rankings
        decided = FusionPipeline().decide(lists, dataset.context(row, lists)).ids
        if not decided == returned == result.ids:
            raise PhasegraphError(f"question {query.id}: {side.name} returned {returned}, the core {decided}")
        found.append(result)
    check_sources(side.name, found)
    return found


def check_sources(side: str, results: Sequence[Result]) -> None:
    """Raise DegradedError if a source failed on every question, because the table would show only the other source."""
    for reports in zip(*(result.reports for result in results), strict=True):
        if all(report.degraded and not report.answered for report in reports):
            last = reports[-1]
            raise DegradedError(
                f"source {last.source!r} of {side} failed on all {len(reports)} questions: {last.status} "
                f"({last.reason})"
            )


def ranking_of(result: Result, name: str) -> Ranking:
    """Return the ranking that a source contributed to a result; an empty ranking if the source found nothing."""
    rankings: list[Ranking] = [one for one in result.candidates.rankings if one.source == name]
    return rankings[0] if rankings else Ranking(name, [], np.array([]))


def compare_systems(dataset: Dataset, rankings: dict[str, list[Ranking]]) -> Table:
    """Let every system fuse the same rankings; return the table of measures, with the time of the fusion alone."""
    known = {**OWN_SYSTEMS, **PEERS}
    keys = [query.id for query in dataset.queries]
    answers = []
    for name in SYSTEMS:
        started = perf_counter()
        found = known[name].answer(dataset, {source: rankings[source] for source in known[name].sources}, K)
        each = 1000 * (perf_counter() - started) / len(keys)
        answers.append(Answers(name, dict(zip(keys, found, strict=True)), each))
    return compare(
        answers,
        dataset.judgements,
        baseline="vector",
        dataset=dataset.name,
        limit=LIMIT,
        corpus=dataset.contents,
    )


def ask(question: str, folder: Path, to: Console) -> None:
    """Answer a typed question from the passages of `folder`, and print the answer and its evidence."""
    dataset = load_dataset(folder)
    embedder(dataset)(question)  # a missing package raises an error here, before the graph is built
    result = langchain_side(dataset, graph_of(dataset)).ask(question)[1]
    show_result(result, Query("typed", question, Judgement("typed", ())), dataset, to, top=5)


def show(done: Demonstration, to: Console) -> None:
    """Print the demo's table of systems, and a question that vectors alone do not answer."""
    from phasegraph.evaluation.report import conclusion

    show_table(to, title_of(done.table), *as_text(done.table), OURS)
    for line in (
        conclusion(done.table),
        f"LangChain (InMemoryVectorStore) and LlamaIndex (SimpleVectorStore) returned the core's ids for all "
        f"{len(done.results)} questions. The demo took {done.seconds:.0f} s. Every system fuses the same lists of "
        f"{done.table.limit} hits from vector and graph; systems named -three also fuse bm25. graph is phasegraph's "
        f"walk, which starts at the hits of the vectors and at words of the question. Values are percentages. Brackets "
        f"and the column W/L contain p of the paired test against {done.table.baseline}.",
        *(f"{name}: {meaning}" for name, meaning in meanings(done.table, (), "per question, of fusing alone").items()),
        "",
    ):
        to.print(line, markup=False)
    if done.chosen is not None:
        to.print("A question that vectors alone do not answer:", markup=False)
        show_result(done.results[done.chosen], done.dataset.queries[done.chosen], done.dataset, to, top=3)


def draw(done: Demonstration, picture: Path, to: Console) -> None:
    """Write a picture of the scores before and after calibration; without matplotlib, print why there is none."""
    from phasegraph.evaluation.report import calibrated_scores, gold_hits, score_distributions

    try:
        figure = score_distributions(
            *calibrated_scores(done.rankings, FusionPipeline()), gold_hits(done.rankings, done.dataset.judgements)
        )
    except MissingDependencyError as error:
        to.print(f"no picture: {error}", markup=False)
        return
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=140)
    to.print(f"Scores before and after calibration, gold passages in colour: {picture}", markup=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return 0 for success, or 1 for a failure, whose reason is written to standard error."""
    parser = argparse.ArgumentParser(description="Fuse vectors and a knowledge graph on 100 real questions.")
    parser.add_argument("--ask", metavar="QUESTION", help="answer only this question; needs phasegraph[minilm]")
    parser.add_argument("--json", metavar="FILE", help="write the table as JSON ('-': standard output)")
    parser.add_argument("--picture", default="phasegraph-demo.png", help="path of the picture; 'none': no picture")
    parser.add_argument("--data", type=Path, default=BUNDLED, help="folder of another data set")
    chosen = parser.parse_args(arguments)
    if chosen.ask is not None and not chosen.ask.strip():
        parser.error("--ask must not be blank")
    to = console(beside_json=chosen.json == "-")
    try:
        if chosen.ask is not None:
            ask(chosen.ask, chosen.data, to)
            return 0
        done = run_demo(chosen.data)
        if chosen.json is not None:
            write_json(done.table.to_dict(), chosen.json)
        show(done, to)
        if chosen.picture != "none":
            draw(done, Path(chosen.picture), to)
    except (PhasegraphError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
