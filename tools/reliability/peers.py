"""The packages that fuse lists of hits, each behind the same interface, with a description of how it is called."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from phasegraph import FusionPipeline
from phasegraph.retrieval import HitFields, SourceSpec

Hit = tuple[str, str, float]
"""Id, text, score."""
Lists = Sequence[Sequence[Hit] | Exception | Callable[[str], Sequence[Hit]]]
Fused = list[tuple[str, float | None]]
ALL = 1000


class Fuser:
    """The interface of a package that fuses lists of hits.

    `weighted`: the package takes a weight for each list. `cut`: it takes a number of results. `scored`: it reads and
    returns scores.
    """

    name = ""
    adapter = ""
    weighted = cut = scored = True
    alone = True  # takes a single list
    repeats = True  # a list may hold an id twice
    asks = False  # asks sources itself, so that one can fail
    ours = False
    saved: Callable[[], Fuser] | None = None  # itself, written and read again
    changed = False  # whether the last call changed what it was handed

    def fuse(self, lists: Lists, weights: Sequence[float] | None = None, k: int = ALL) -> Fused:
        """Fuse lists of hits; return the ids of at most `k` hits with their scores or None, best first."""
        raise NotImplementedError


def _answers(lists: Lists, made: Callable[[str, str], Any]) -> list[Any]:
    """Return the lists with each hit as (passage, score), where ``made(id, text)`` returns the framework's passage.

    An error stays as it is. A function of the query is replaced by a function whose result is converted.
    """

    def answer(hits: Any) -> Any:
        if isinstance(hits, Exception):
            return hits
        if callable(hits):
            return lambda query: answer(hits(query))
        return [(made(name, text), score) for name, text, score in hits]

    return [answer(hits) for hits in lists]


def _sources(answers: list[Any], weights: Sequence[float] | None) -> dict[str, Any]:
    def source(row: int) -> Callable[[str], Any]:
        def search(query: str) -> Any:
            found = answers[row]
            if isinstance(found, Exception):
                raise found
            return found(query) if callable(found) else found

        return search

    weight = [{} if weights is None else {"weight": one} for one in weights or answers]
    fields = HitFields(higher_is_better=True)
    return {f"s{row}": SourceSpec(retriever=source(row), fields=fields, **weight[row]) for row in range(len(answers))}


class OursLangChain(Fuser):
    """The fusion of phasegraph's PhaseGraphRetriever."""

    name = "phasegraph, LangChain"
    adapter = (
        "`PhaseGraphRetriever` with default settings, over functions that return `(Document, score)`; the run reads "
        "the scores of the answer from its metadata"
    )
    asks = ours = True

    def __init__(self, pipeline: FusionPipeline | None = None) -> None:
        self.pipeline = pipeline
        self.saved = self._again

    def _again(self) -> Fuser:
        with TemporaryDirectory() as folder:
            retriever, _ = self.built([[]])
            retriever.save(folder)
            return type(self)(FusionPipeline.load(Path(folder) / "pipeline.json"))

    def built(self, lists: Lists, weights: Sequence[float] | None = None, k: int = ALL, **more: Any) -> tuple[Any, Any]:
        """Return a retriever over the lists, and the answers of its sources.

        A source whose list is an error raises it.
        """
        from langchain_core.documents import Document

        from langchain_phasegraph import PhaseGraphRetriever

        answers = _answers(lists, lambda name, text: Document(text, id=name))
        sources = _sources(answers, weights)
        if self.pipeline is not None:
            more = {"pipeline": self.pipeline, **more}
        return PhaseGraphRetriever(retrievers=sources, k=k, timeout=60.0, score_key="score", **more), answers

    def fuse(self, lists: Lists, weights: Sequence[float] | None = None, k: int = ALL) -> Fused:
        retriever, answers = self.built(lists, weights, k)
        before = copy.deepcopy(answers)
        found = self.ask(retriever, "who?")
        self.changed = repr(before) != repr(answers)
        return found

    def selecting(self, lists: Lists, k: int) -> Any:
        """Return a retriever that selects `k` passages; a store with weight 0 supplies the embeddings."""
        from langchain_core.embeddings import DeterministicFakeEmbedding
        from langchain_core.vectorstores import InMemoryVectorStore

        from langchain_phasegraph import PhaseGraphRetriever

        store = InMemoryVectorStore(DeterministicFakeEmbedding(size=16))
        retriever, _ = self.built(lists, [1.0] * len(lists))
        sources = {**retriever.retrievers, "store": SourceSpec(retriever=store, weight=0.0)}
        return PhaseGraphRetriever(retrievers=sources, k=k, selection="mmr", score_key="score")

    def ask(self, retriever: Any, query: str) -> Fused:
        """Return the ids and scores of the retriever's answer to `query`."""
        return [(str(one.id), one.metadata["score"]) for one in retriever.invoke(query)]


class OursLlamaIndex(OursLangChain):
    """The fusion of phasegraph's CalibratedFusionRetriever."""

    name = "phasegraph, LlamaIndex"
    adapter = "`CalibratedFusionRetriever` with default settings, over functions that return `(TextNode, score)`"

    def built(self, lists: Lists, weights: Sequence[float] | None = None, k: int = ALL, **more: Any) -> tuple[Any, Any]:
        """Return a retriever over the lists, and the answers of its sources.

        A source whose list is an error raises it.
        """
        from llama_index.core.schema import TextNode

        from llama_index.retrievers.phasegraph import CalibratedFusionRetriever

        answers = _answers(lists, lambda name, text: TextNode(id_=name, text=text))
        sources = _sources(answers, weights)
        if self.pipeline is not None:
            more = {"pipeline": self.pipeline, **more}
        return CalibratedFusionRetriever(retrievers=sources, k=k, timeout=60.0, **more), answers

    def selecting(self, lists: Lists, k: int) -> Any:
        """Return a retriever that selects `k` passages by the embeddings of the nodes."""
        retriever, answers = self.built(lists, k=k, selection="mmr")
        for hits in answers:
            for node, _ in hits:
                row = int(node.id_[1:])
                node.embedding = [float(row % 3), float(row % 5), 1.0]
        return retriever

    def ask(self, retriever: Any, query: str) -> Fused:
        """Return the ids and scores of the retriever's answer to `query`."""
        return [(one.node_id, one.score) for one in retriever.retrieve(query)]


class Ensemble(Fuser):
    """The fusion of LangChain's EnsembleRetriever."""

    name = "LangChain Ensemble"
    adapter = (
        "`EnsembleRetriever` with default settings, over retrievers that return `Document`s in the order of their "
        "scores; it returns no scores, and has no parameter for the number of results"
    )
    scored = cut = False
    asks = True

    def fuse(self, lists: Lists, weights: Sequence[float] | None = None, k: int = ALL) -> Fused:
        from langchain_classic.retrievers import EnsembleRetriever
        from langchain_core.documents import Document

        answers = [
            hits if isinstance(hits, Exception) else [Document(text, id=name) for name, text, _ in hits]
            for hits in lists
        ]
        before = copy.deepcopy(answers)
        listed = _listed()
        more = {} if weights is None else {"weights": list(weights)}
        fused = EnsembleRetriever(retrievers=[listed(answer=one) for one in answers], **more)
        found = fused.invoke("who?")
        self.changed = repr(before) != repr(answers)
        return [(str(one.id), None) for one in found]


@cache
def _listed() -> Any:
    from langchain_core.retrievers import BaseRetriever

    class Listed(BaseRetriever):
        answer: Any

        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> Any:
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

    return Listed


class QueryFusion(Fuser):
    """The fusion of LlamaIndex's QueryFusionRetriever."""

    asks = True

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.name = f"LlamaIndex QueryFusion, {mode}"
        ignored = "" if mode in ("relative_score", "dist_based_score") else ", but this mode ignores them"
        options = f"mode={mode!r}, num_queries=1, use_async=False"
        self.adapter = f"`QueryFusionRetriever({options})`; the run passes weights as `retriever_weights`{ignored}"

    def fuse(self, lists: Lists, weights: Sequence[float] | None = None, k: int = ALL) -> Fused:
        from llama_index.core.llms import MockLLM
        from llama_index.core.retrievers import QueryFusionRetriever
        from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
        from llama_index.core.schema import NodeWithScore, TextNode

        answers = [
            hits
            if isinstance(hits, Exception)
            else [NodeWithScore(node=TextNode(id_=name, text=text), score=score) for name, text, score in hits]
            for hits in lists
        ]
        before = copy.deepcopy(answers)
        fused = QueryFusionRetriever(
            [_asked()(one) for one in answers],
            llm=MockLLM(),
            mode=FUSION_MODES(self.mode),
            similarity_top_k=k,
            num_queries=1,
            use_async=False,
            retriever_weights=None if weights is None else list(weights),
        )
        found = [(one.node_id, one.score) for one in fused.retrieve("who?")]
        self.changed = repr(before) != repr(answers)
        return found


@cache
def _asked() -> Any:
    from llama_index.core.base.base_retriever import BaseRetriever

    class Listed(BaseRetriever):
        def __init__(self, answer: Any) -> None:
            super().__init__()
            self.answer = answer

        def _retrieve(self, query_bundle: Any) -> Any:
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

    return Listed


class Haystack(Fuser):
    """The fusion of Haystack's DocumentJoiner."""

    def __init__(self, mode: str, joiner: Any = None) -> None:
        self.mode = mode
        self.joiner = joiner
        self.weighted = mode in ("merge", "reciprocal_rank_fusion")
        self.name = f"Haystack, {mode}"
        ignored = "" if self.weighted else "; according to its documentation, this mode ignores weights"
        self.adapter = f"`DocumentJoiner(join_mode={mode!r})`{ignored}"
        self.saved = self._again

    def _again(self) -> Fuser:
        from haystack.components.joiners import DocumentJoiner

        return Haystack(self.mode, DocumentJoiner.from_dict(DocumentJoiner(join_mode=self.mode).to_dict()))

    def fuse(self, lists: Lists, weights: Sequence[float] | None = None, k: int = ALL) -> Fused:
        from haystack import Document
        from haystack.components.joiners import DocumentJoiner

        answers = [[Document(id=name, content=text, score=score) for name, text, score in hits] for hits in lists]
        before = copy.deepcopy(answers)
        joiner = self.joiner or DocumentJoiner(join_mode=self.mode, weights=None if weights is None else list(weights))
        found = [(one.id, one.score) for one in joiner.run(documents=answers, top_k=k)["documents"]]
        self.changed = repr(before) != repr(answers)
        return found


class Ranx(Fuser):
    """The fusion of ranx (``ranx.fuse``)."""

    alone = repeats = cut = False

    def __init__(self, norm: str | None, method: str) -> None:
        self.norm = norm
        self.method = method
        self.weighted = method == "wsum"
        self.name = f"ranx, {method}" + (f" of {norm}" if norm else "")
        self.adapter = (
            f"`ranx.fuse(runs, norm={norm!r}, method={method!r})`, one run per list; it refuses a single run, and has "
            "no parameter for the number of results"
        )

    def fuse(self, lists: Lists, weights: Sequence[float] | None = None, k: int = ALL) -> Fused:
        from ranx import Run, fuse

        found = [{"q": {name: float(score) for name, _, score in hits}} for hits in lists]
        before = copy.deepcopy(found)
        runs = [Run(one, name=f"s{row}") for row, one in enumerate(found)]
        params = {"weights": tuple(weights or [1.0 / len(lists)] * len(lists))} if self.weighted else None
        fused = fuse(runs=runs, norm=self.norm, method=self.method, params=params)
        self.changed = repr(before) != repr(found)
        return [(str(name), float(score)) for name, score in fused.to_dict()["q"].items()]


class Qdrant(Fuser):
    """The fusion of qdrant-client's local mode."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.weighted = method == "rrf"
        self.name = f"qdrant-client, {method.upper()}"
        function = "reciprocal_rank_fusion" if self.weighted else "distribution_based_score_fusion"
        self.adapter = (
            f"`qdrant_client.hybrid.fusion.{function}`, the function that the local mode of the client calls, over "
            "`ScoredPoint`s"
        )

    def fuse(self, lists: Lists, weights: Sequence[float] | None = None, k: int = ALL) -> Fused:
        from qdrant_client.http.models import ScoredPoint
        from qdrant_client.hybrid.fusion import distribution_based_score_fusion, reciprocal_rank_fusion

        answers = [
            [ScoredPoint(id=name, version=0, score=score, payload={"text": text}) for name, text, score in hits]
            for hits in lists
        ]
        before = copy.deepcopy(answers)
        if self.weighted:
            fused = reciprocal_rank_fusion(answers, limit=k, weights=None if weights is None else list(weights))
        else:
            fused = distribution_based_score_fusion(answers, limit=k)
        found = [(str(one.id), one.score) for one in fused]
        self.changed = repr(before) != repr(answers)
        return found


def fusers() -> list[Fuser]:
    """Return one object for each package that is compared."""
    return [
        OursLangChain(),
        OursLlamaIndex(),
        Ensemble(),
        *(QueryFusion(mode) for mode in ("reciprocal_rerank", "relative_score", "dist_based_score", "simple")),
        *(
            Haystack(mode)
            for mode in ("reciprocal_rank_fusion", "distribution_based_rank_fusion", "merge", "concatenate")
        ),
        Ranx(None, "rrf"),
        Ranx("min-max", "wsum"),
        Qdrant("rrf"),
        Qdrant("dbsf"),
    ]
