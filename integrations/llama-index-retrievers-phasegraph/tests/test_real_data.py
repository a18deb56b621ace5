"""The bundled multi-hop questions with a real store and a graph: the framework returns the core's answer."""

import json
from pathlib import Path

import numpy as np
import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import QueryBundle, TextNode
from llamaindex_stores import Looked, ids_of

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever
from phasegraph import Context, FusionPipeline, Ranking
from phasegraph.graph import GraphSource, build_graph
from phasegraph.lexical import read_hits
from phasegraph.sources import Gatherer, SourceSettings

DATA = Path(__file__).parents[3] / "data" / "musique-openie"
ASKED = 25


def rows(name):
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def unit(name):
    vectors = np.load(DATA / name, allow_pickle=False).astype(np.float64)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def corpus():
    passages, queries = rows("corpus.jsonl"), rows("queries.jsonl")[:ASKED]
    triples = {row["id"]: row["triples"] for row in rows("triples.jsonl")}
    return passages, queries, unit("passages.f16.npy"), unit("queries.f16.npy"), build_graph(passages, triples=triples)


@pytest.fixture(scope="module")
def retriever(corpus):
    passages, _, vectors, _, graph = corpus
    nodes = [
        TextNode(id_=one["id"], text=one["text"], embedding=vector.tolist())
        for one, vector in zip(passages, vectors, strict=True)
    ]
    index = VectorStoreIndex(nodes, embed_model=Looked())
    walk = EntityGraphRetriever(graph, {node.node_id: node for node in nodes})
    return CalibratedFusionRetriever(vector=index.as_retriever(), graph=walk)


class Exact:
    """A source that ranks every passage by its cosine with the query, computed like in the store."""

    def __init__(self, corpus):
        passages, queries, self.vectors, embedded, _ = corpus
        self.ids = [one["id"] for one in passages]
        self.embedded = {query["question"]: row for query, row in zip(queries, embedded[:ASKED], strict=True)}

    def search(self, query, limit, upstream):
        scores = self.vectors @ self.embedded[query]
        best = np.argsort(-scores, kind="stable")[:limit]
        return Ranking("vector", [self.ids[row] for row in best], scores[best])


def test_the_same_ids_and_scores_as_the_core_on_real_questions(corpus, retriever):
    passages, queries, _, embedded, graph = corpus
    texts = {one["id"]: one["text"] for one in passages}
    sources = {"vector": Exact(corpus), "graph": GraphSource(graph)}
    gatherer = Gatherer({"vector": SourceSettings(), "graph": SourceSettings(depends_on=("vector",))})
    for row, query in enumerate(queries):
        found = retriever.retrieve(QueryBundle(query["question"], embedding=embedded[row].tolist()))
        gathered = gatherer.gather(sources, query["question"])
        words = read_hits(query["question"], gathered.rankings, texts.__getitem__)
        expected = FusionPipeline().decide(gathered.rankings, Context(query["question"], words=words))
        assert ids_of(found) == list(expected.ids)
        assert [hit.score for hit in found] == pytest.approx(expected.scores.tolist(), abs=1e-9)


async def test_sync_and_async_agree_and_every_winner_has_its_text(corpus, retriever):
    passages, queries, _, embedded, _ = corpus
    texts = {one["id"]: one["text"] for one in passages}
    for row, query in enumerate(queries[:5]):
        bundle = QueryBundle(query["question"], embedding=embedded[row].tolist())
        found = retriever.retrieve(bundle)
        assert await retriever.aretrieve(bundle) == found
        assert all(hit.text == texts[hit.node_id] for hit in found)
