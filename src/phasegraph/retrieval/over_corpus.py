"""Build fused and entity-graph retrievers from passages, a folder or a store, for both integrations."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import phasegraph  # phasegraph.graph and .neo4j are imported at their first use: they import scipy.sparse
from phasegraph._support.progress import with_progress
from phasegraph._support.renamed import renamed_sources
from phasegraph._support.validation import check_flag, known_arguments
from phasegraph.errors import IntegrityError, InvalidInputError, InvalidTypeError, warn
from phasegraph.fusion.grouping import GroupBy
from phasegraph.retrieval.additions import Additions
from phasegraph.retrieval.answer import SelectedHit
from phasegraph.retrieval.framework import Framework, HitLookup
from phasegraph.retrieval.graph_search import GraphSearch
from phasegraph.retrieval.indexing import MANY, BuildPlan, Indexing
from phasegraph.retrieval.kept import KeptPassages
from phasegraph.retrieval.once import on_trial
from phasegraph.retrieval.parents import Parents
from phasegraph.retrieval.source_config import PIPELINE
from phasegraph.sources.protocol import Source

if TYPE_CHECKING:
    import phasegraph.graph
    import phasegraph.neo4j
    from phasegraph.retrieval.wrapped import WrappedSource

OVERRIDING = frozenset({"pipeline", "weights", "accept", "selection", "group_by"})
"""Constructor arguments that replace a folder's pipeline: if any is given, the stored pipeline is not loaded."""
_PATH = (
    "this index is built in memory. With path=FOLDER, the index is built in shards (pip install "
    "'phasegraph[distributed]')"
)
_COMMAND = (
    "this index is built in memory. To build it in shards, write the passages to a file of JSON lines (id, title, "
    "text, metadata) and run: phasegraph index PASSAGES.jsonl --out FOLDER --engine local (pip install "
    "'phasegraph[distributed,cli]'; --embeddings VECTORS.npy adds their vectors). Give the result to a retriever as "
    "graph=phasegraph.graph.load_graph(FOLDER)"
)
"""The advice in the warning about an index that is too large for memory, without and with the argument `path`."""
_PIPELINE_ONLY = (
    "save: {name!r} contains only the fitted pipeline; the passages stay in your {place}. To use the pipeline again, "
    "give this path as pipeline= together with your {place}"
)


def build_corpus(
    framework: Framework,
    held: Mapping[str, Any],
    model: Any,
    how: Indexing,
    *,
    vectors: Any = None,
    store: Any = None,
    remedy: str = _COMMAND,
) -> phasegraph.graph.Corpus:
    """Build a corpus in memory from `held`, which maps ids to documents or nodes.

    `vectors` are the vectors of the passages. None means that `model` embeds the passages; an empty list means that the
    corpus has no vectors. `store` is the user's vector store, if the vectors are stored there. If the index would not
    fit in the free memory, a warning states the needed and the available memory, and the `remedy`.
    """
    from phasegraph.graph import Corpus, GraphIndex, Keys

    held, vectors, how = _with_words(framework, held, how, vectors)
    passages, embedder = _passages_of(framework, held, how, kept=False), framework.model_of(model)
    plan = BuildPlan.of(sum(len(one["title"]) + len(one["text"]) for one in passages))
    if plan.sizes:
        warn(f"{plan.sizes}: {remedy}")
    given = vectors is not None and len(vectors) > 0
    if vectors is None:
        vectors = framework.embedded(model, list(held.values()), how.progress)
    elif not given:
        vectors = None
    many = how.progress if len(passages) > MANY else False
    index = GraphIndex.build(
        passages, triples=how.triples, embeddings=vectors, known_names=how.known_names, tokenizer=how.tokenizer,
        progress=lambda rows: with_progress(rows, many, label="index", unit="passage"),
    )  # fmt: skip
    made_by = None
    if embedder is not None and store is None and (given or not framework.carries_vectors(held.values())):
        made_by = embedder.identity.as_given() if given else embedder.identity
    checked = made_by is not None and not given
    return Corpus(
        index, embedder, store=store, made_by=made_by, checked=checked, keys=Keys(how.title_key, how.source_key)
    )


def _passages_of(framework: Framework, held: Mapping[str, Any], how: Indexing, *, kept: bool) -> list[dict[str, Any]]:
    """Convert documents or nodes to passages, and check them before anything is embedded.

    `held` maps ids to the documents or nodes, and `how` contains the options of the index. With `kept`, the function
    also checks that the passages can be stored in a folder.
    """
    from phasegraph.graph import check_passages, check_source_key, check_title_key

    passages = framework.passages_of(held, how.title_key)
    metadata = [one["metadata"] for one in passages]
    check_title_key(how.title_key, metadata)
    check_source_key(how.source_key, metadata)
    check_passages(passages, kept=kept, tokenizer=how.tokenizer)
    return passages


def _with_words(
    framework: Framework, held: Mapping[str, Any], how: Indexing, vectors: Any = None
) -> tuple[dict[str, Any], Any, Indexing]:
    """Leave out documents or nodes without text, with a warning, their rows in `vectors`, and their triples."""
    kept = framework.with_words(held, how.title_key)
    if len(kept) == len(held):
        return kept, vectors, how
    if vectors is not None and len(held) == len(vectors):
        vectors = [row for name, row in zip(held, vectors, strict=True) if name in kept]
    gone, triples = held.keys() - kept.keys(), how.triples
    if isinstance(triples, Mapping):
        triples = {name: each for name, each in triples.items() if name not in gone}
    elif isinstance(triples, Iterable):
        triples = [one for one in triples if getattr(one, "passage_id", None) not in gone]
    return kept, vectors, replace(how, triples=triples)


def _check_any(framework: Framework, held: Mapping[str, Any]) -> None:
    """Raise InvalidInputError if there is no document or node."""
    if not held:
        raise InvalidInputError(
            f"{framework.hits} is empty: give at least one {framework.hit}. To start with an empty corpus, build it "
            f"from one {framework.hit}, and then call retriever.delete([ID])"
        )


class FusedPassages(KeptPassages):
    """Base class of fused retrievers that are built from passages, a folder or the user's store."""

    _makes = ("vector", "graph")

    if TYPE_CHECKING:  # the framework's class defines this attribute
        _parents: Parents | None
        _save_pipeline: Callable[[Path], None]
        _by_name: Mapping[str, WrappedSource]

    def _settle_parents(self, parents: Any, look_up: Callable[[Any], HitLookup], group_by: GroupBy | None) -> None:
        """Check and store the argument `parents`, which gives hits the texts of their whole documents.

        ``look_up(parents)`` creates the lookup of documents by name. Raise InvalidInputError if `parents` is given
        without `group_by`, which names the documents.
        """
        if parents is None or parents is False:
            self._parents = None
            return
        if group_by is None:
            raise InvalidInputError("parents= needs group_by=, which names the document of each passage")
        self._parents = Parents(self._framework, group_by.key, look_up(None if parents is True else parents))

    def _with_parents(self, hits: list[SelectedHit], filter_in_force: Callable[[], Any]) -> list[SelectedHit]:
        """Replace the texts of the hits by the texts of their documents, if `parents` is set.

        ``filter_in_force()`` returns the filter of the call, or None; the filter also applies to the documents.
        """
        if self._parents is None:
            return hits
        where = filter_in_force()
        return self._parents.resolve(hits, None if where is None else self._framework.filter_of(where), self)

    @classmethod
    def _graph_retriever(cls, source: Any, hits: Any, model: Any, name: str) -> Any:
        """Create the framework's entity-graph retriever, which searches a source of the core and looks up its hits."""
        raise NotImplementedError

    @classmethod
    def _of_passages(
        cls, hits: Iterable[Any], model: Any, how: Indexing, path: Any, fields: Mapping[str, Any],
        tried: Mapping[str, Any] | None = None, *, vector_store: str,
    ) -> Self:  # fmt: skip
        """Build a retriever from documents or nodes, in memory or, with `path`, in a new folder.

        The index of a folder is built in shards if it would not fit in the free memory. `vector_store` is the kind of
        vector search in a folder. `tried` are the constructor arguments to check on a small sample corpus, before all
        passages are embedded; None checks `fields`.
        """
        from phasegraph.graph import check_new, check_store, sample_corpus

        framework = cls._framework
        framework.check_model(model)
        check_store(vector_store)
        if path is not None:
            check_new(Path(path))
        elif vector_store != "flat":
            raise InvalidInputError(
                f"vector_store={vector_store!r} needs path=: without a folder, all vectors are compared in memory"
            )
        with on_trial():
            cls._over(sample_corpus(framework.model_of(model)), model, fields if tried is None else tried)
        held = framework.held_by_id(hits)
        _check_any(framework, held)
        if path is None:
            return cls._over(build_corpus(framework, held, model, how, remedy=_PATH), model, fields)
        from phasegraph.retrieval.new_folder import write_folder

        held, _, how = _with_words(framework, held, how)
        embedder, checks = framework.model_of(model), framework.carries_vectors(held.values())
        write_folder(
            path, framework, model, list(held.values()), _passages_of(framework, held, how, kept=True), how,
            made_by=None if embedder is None or checks else embedder.identity,
            settings=cls._folder_settings(vectors=True), uncounted=cls._uncounted,
        )  # fmt: skip
        return cls._opened(path, model, fields, how.progress, checks=checks, vector_store=vector_store)

    @classmethod
    def _loaded(
        cls, path: str | os.PathLike[str], model: Any, fields: Mapping[str, Any], *, reembed: bool,
        vector_store: str | None,
    ) -> Self:  # fmt: skip
        """Open a retriever from a folder; with `reembed`, embed all its passages again.

        `fields` are the other arguments of the retriever. `vector_store` is the store to which the vectors are moved;
        with None, they stay where they are.
        """
        cls._framework.check_model(model)
        if Path(path).is_file():
            raise IntegrityError(
                f"{str(path)!r} is a file, and not the folder of a retriever. If save() wrote the file, it "
                "contains only a fitted pipeline: give it as pipeline= when you create a retriever, or call "
                "load_pipeline()"
            )
        made = cls._opened(path, model, fields, False, checks=not reembed, vector_store=vector_store)
        if reembed:
            made._reembed(model, True)
        return made

    @classmethod
    def _opened(
        cls, path: str | os.PathLike[str], model: Any, fields: Mapping[str, Any], progress: bool | None, *,
        checks: bool, vector_store: str | None,
    ) -> Self:  # fmt: skip
        corpus = cls._open(path, model, vectors=True, progress=progress, checks=checks, vector_store=vector_store)
        if (Path(path) / PIPELINE).is_file() and not fields.keys() & OVERRIDING:
            fields = {**fields, "pipeline": Path(path) / PIPELINE}
        return cls._over(corpus, model, fields)

    @classmethod
    def _over(
        cls, corpus: phasegraph.graph.Corpus, model: Any, fields: Mapping[str, Any], store: Any = None
    ) -> Self:  # fmt: skip
        """Create a retriever over a corpus; the vectors are in the corpus, or in the user's `store` if it is given.

        `fields` are the other constructor arguments, by name.
        """
        from phasegraph.graph import CorpusLookup

        fields = dict(fields)
        if check_flag("embed_clauses", fields.pop("embed_clauses", False)):
            corpus.compare_clauses()
        hits = CorpusLookup(corpus, cls._framework.of_record)
        names: tuple[Any, ...] = ("graph", "bm25") if store is not None else ("graph", "bm25", "vector")
        sources = {
            name: cls._graph_retriever(corpus.source(name), hits, None if name == "bm25" else model, name)
            for name in names
        }
        sources["graph"]._corpus = corpus
        if store is not None:
            sources["vector"] = store
        others = fields.get("retrievers") or {}
        if not isinstance(others, Mapping):
            raise InvalidTypeError(
                "retrievers must be a mapping of names to retrievers if the retriever is made from documents"
            )
        known = renamed_sources(others, sources)
        sources |= {known.get(name, name): one for name, one in others.items()}
        vector, graph = sources.pop("vector"), sources.pop("graph")
        made = cls(**{**fields, "vector": vector, "graph": graph, "retrievers": sources})
        made._corpus, made._embeds = corpus, model
        warned = set[str]()
        for name in names:
            made._by_name[name].deletions.belong_to_retriever(warned)
        if store is not None:
            made._by_name["graph"].additions = Additions(
                "vector", made._by_name["vector"].live(), cls._framework.text_of
            )
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the retriever's passages and fitted pipeline to a folder, or only the pipeline to a file.

        Parameters
        ----------
        path : path
            A new or empty folder: if the retriever was made from documents or by ``load``, the folder receives the
            passages, their index and vectors, and the pipeline. ``load`` opens it; nothing is embedded again.

            A path that ends in ``.json``, or an existing file: the file receives only the fitted pipeline, with the
            weights and the number of results. The constructor reads it as `pipeline`.

            The folder from which the retriever was loaded: the folder receives only the pipeline, because it already
            contains the passages.

        Raises
        ------
        InvalidInputError
            If the retriever owns passages, and `path` is a folder of other files or of another retriever, or if JSON
            cannot store the metadata or the tokenizer of the passages.
        StoreError
            If the folder cannot be written.

        Notes
        -----
        A retriever over your own sources or your own vector store always writes only the pipeline.
        """
        from phasegraph.graph import check_passages
        from phasegraph.graph.corpus.folder import STATE
        from phasegraph.graph.corpus.vector_stores import RenewableStore

        place, corpus = Path(path), self._corpus
        if corpus is None or place.is_file() or (place.suffix == ".json" and not place.is_dir()):
            names_a_file = place.exists() or place.suffix != ""
            self._save_pipeline(place)
            if not names_a_file:
                warn(_PIPELINE_ONLY.format(name=place.name, place="sources"))
            return
        corpus = self._own_corpus()
        if corpus.is_in(place):
            self._save_pipeline(place)
            return
        if (place / STATE).is_file():
            raise InvalidInputError(
                f"{str(place)!r} already contains a saved retriever, whose passages may differ: choose a new or empty "
                "folder, or a path that ends in .json to write only the pipeline"
            )
        store = corpus.state.store
        if store is not None and not isinstance(store, RenewableStore):
            self._save_pipeline(place)
            warn(_PIPELINE_ONLY.format(name=place.name, place="vector store"))
            return
        if not corpus.settings:  # the passages of a folder were checked when the folder was created
            records = corpus.index.records.values()
            check_passages(
                [{"id": one.id, "title": one.title, "text": one.text, "metadata": one.metadata} for one in records],
                kept=True,
            )
        files = {PIPELINE: self._save_pipeline}
        corpus.save(place, self._folder_settings(vectors=True), self._uncounted, files)

    def documents(self) -> dict[str, int]:
        """Return the number of passages by document name; the name ``""`` counts passages without a document.

        The document of a passage is the value of the metadata key `source_key`.
        """
        return self._counts()


class GraphPassages(KeptPassages):
    """Base class of entity-graph retrievers that own passages, or read them from a folder or Neo4j."""

    _makes = ("graph",)
    _search: GraphSearch

    @property
    def _source(self) -> Source:
        """The core's source that the retriever searches; ``repr`` shows its class."""
        return self._search.source

    @property
    def corpus(self) -> phasegraph.graph.Corpus | None:
        """The corpus that the retriever owns; None if it owns no corpus."""
        found: phasegraph.graph.Corpus | None = self._search.look_up.corpus
        return found

    def kept_ids(self) -> Iterable[str]:
        """Return the ids of the passages in memory; the result is empty if the passages come from a store."""
        return self._search.look_up.kept_ids

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the graph and the passages to a new or empty folder.

        The tokenizer must be given by name, because a function cannot be stored.
        """
        self._own_corpus().save(path, self._folder_settings(vectors=False), self._uncounted)

    @classmethod
    @known_arguments
    def from_neo4j(
        cls,
        connection: phasegraph.neo4j.Neo4jConnection,
        corpus: str | None = None,
        *,
        schema: str | phasegraph.neo4j.GraphSchema | None = None,
        load: bool = True,
        **fields: Any,
    ) -> Self:
        """Read the graph and the texts of its passages from Neo4j.

        Parameters
        ----------
        connection : Neo4jConnection
            The connection to the server. It is tested immediately; see ``Neo4jConnection.connect``.
        corpus : str, optional
            The name of a corpus that ``phasegraph.neo4j.write_graph`` wrote; None for a graph of another library.
        schema : str or GraphSchema, optional
            The schema of the graph: ``"llama_index"``, ``"langchain"`` or ``"neo4j_graphrag"``. By default,
            phasegraph's own schema if `corpus` is given; otherwise the schema is detected.
        load : bool, default True
            True: read the graph now, and walk it in memory. Later changes in Neo4j have no effect. False: walk the
            graph in Neo4j, without matching the words of the passages; this needs a graph of ``write_graph``.
        **fields
            Other arguments of the retriever. With `load`, an embedding model (``embeddings=``, or ``embed_model=`` in
            LlamaIndex) embeds every passage and each query. Neo4j stores only texts and titles. A filter on other
            metadata needs the documents or their store as ``documents=`` (``nodes=`` in LlamaIndex). The retriever
            then returns these documents instead of the texts in Neo4j.

        Raises
        ------
        InvalidInputError, InvalidTypeError
            If the corpus does not exist, no schema matches, the graph has no passage, or an argument is invalid.
        StoreError
            If the server cannot be reached, refuses the request, or does not answer in time.
        """
        from phasegraph.neo4j import open_graph

        framework = cls._framework
        model = fields.get(framework.model)
        if model is not None and not check_flag("load", load):
            raise InvalidInputError(
                f"{framework.model}= must be None if load=False, because Neo4j then walks the graph without "
                f"embeddings: leave out {framework.model}=, or set load=True"
            )
        opened = open_graph(
            connection, corpus, schema=schema, load=load,
            embed=framework.embeds_texts(model), embed_query=framework.model_of(model),
        )  # fmt: skip
        hits = _TextsIn(opened.texts, framework.of_text)
        return cls(**{"graph": opened.source, framework.hits: hits, framework.model: model, **fields})

    @classmethod
    def _of_passages(
        cls, hits: Iterable[Any], model: Any, how: Indexing, vectors: Any, extractor: Any, fields: Mapping[str, Any]
    ) -> Self:
        """Build a retriever from documents or nodes, with their `vectors` or, if these are None, vectors of `model`.

        If an `extractor` finds the entities, the retriever does not own its passages: passages cannot be added or
        deleted.
        """
        from phasegraph.graph import graph_of_documents

        framework = cls._framework
        held = framework.held_by_id(hits)
        _check_any(framework, held)
        if extractor is None:
            return cls._over(build_corpus(framework, held, model, how, vectors=vectors), model, fields)
        held, vectors, how = _with_words(framework, held, how, vectors)
        graph = graph_of_documents(
            ((name, one.metadata, framework.text_of(one)) for name, one in held.items()),
            title_key=how.title_key, embed=framework.embeds_texts(model), vectors=vectors, triples=how.triples,
            extractor=extractor, known_names=how.known_names, tokenizer=how.tokenizer,
        )  # fmt: skip
        return cls(**{"graph": graph, framework.hits: held, framework.model: model, **fields})

    @classmethod
    def _loaded(cls, path: str | os.PathLike[str], model: Any, fields: Mapping[str, Any]) -> Self:
        """Open a retriever from a folder; `fields` are its other constructor arguments, by name."""
        return cls._over(cls._open(path, model, vectors=False), model, fields)

    @classmethod
    def _over(cls, corpus: phasegraph.graph.Corpus, model: Any, fields: Mapping[str, Any]) -> Self:
        """Create a retriever over a corpus; `fields` are its other constructor arguments, by name."""
        from phasegraph.graph import CorpusLookup

        framework = cls._framework
        if check_flag("embed_clauses", fields.get("embed_clauses", False)):
            corpus.compare_clauses()
        hits = CorpusLookup(corpus, framework.of_record)
        made = cls(**{"graph": corpus.index.graph, framework.hits: hits, framework.model: model, **fields})
        made._corpus, made._embeds = corpus, model
        made._search.source = corpus.source("graph")
        return made


@dataclass(frozen=True, slots=True)
class _TextsIn:
    """A function that looks up passages in Neo4j by id; the title of a passage becomes metadata."""

    texts: Callable[[Sequence[str]], Mapping[str, tuple[str, str]]]
    made: Callable[[str, str, Mapping[str, Any]], Any]

    def __call__(self, ids: Sequence[str]) -> dict[str, Any]:
        return {
            name: self.made(name, text, {"title": title} if title else {})
            for name, (title, text) in self.texts(ids).items()
        }
