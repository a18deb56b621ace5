"""What retrievers over a corpus of their own share: how its passages come and go, one by one and by document."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import phasegraph  # its room graph is loaded when it is first named: it brings scipy.sparse
from phasegraph.errors import InvalidInputError, InvalidTypeError, warn
from phasegraph.retrieval.by_document import (
    Content,
    Given,
    SyncCounts,
    described,
    free_ids,
    plan_sync,
)
from phasegraph.retrieval.framework import Framework
from phasegraph.sources.workers import in_thread

if TYPE_CHECKING:
    import phasegraph.graph

_logger = logging.getLogger("phasegraph")


class KeptPassages:
    """Part of a retriever that was made of passages, or opened from a folder: they come and go.

    A retriever inherits it beside its framework's class, names the framework in ``_framework``, and keeps the corpus in
    ``_corpus``, None where it has none, and the embedding model in ``_embeds``.
    """

    _framework: Framework
    """The framework's documents or nodes."""
    if TYPE_CHECKING:  # of the framework's class, which may keep attributes in a way of its own
        _corpus: Any
        _embeds: Any
    _text_alone = False
    """Whether the vector of a passage depends on its text alone, and not on its metadata."""
    _uncounted: tuple[str, ...] = ()
    """Metadata keys of the framework's own, which are no part of a passage's content."""

    def delete(self, ids: Sequence[str] | None = None, *, where: Any = None) -> int:
        """Delete passages from every source at once.

        Parameters
        ----------
        ids : sequence of str, optional
        where : filter, optional
            In place of ids: all passages that it lets through, as for ``filter=`` of a search.

        Returns
        -------
        int
            Passages that were deleted; 0, with a warning, where `where` lets none through.

        Raises
        ------
        InvalidInputError
            If an id is not there, no passage would stay, or the retriever was made of other retrievers.
        StoreError
            If the folder or its vectors cannot be changed. Nothing is deleted then.
        """
        corpus = self._changing()
        if (ids is None) == (where is None):
            raise InvalidInputError("delete() needs either ids or where=; got " + ("none" if ids is None else "both"))
        if ids is None:
            ids = self.ids(where)
            if not ids:
                warn(f"delete: {where!r:.200} lets no passage through; 0 deleted", stacklevel=2)
                return 0
        corpus.replace(ids)
        self._changed(corpus)
        return len(frozenset(ids))

    async def adelete(self, ids: Sequence[str] | None = None, *, where: Any = None) -> int:
        """As :meth:`delete`, without blocking the event loop."""
        count: int = await in_thread(lambda given: self.delete(given, where=where), ids)
        return count

    def ids(self, where: Any = None) -> list[str]:
        """Ids of the passages, in their order; with `where`, of those that it lets through."""
        corpus = self._changing()
        if where is None:
            return list(corpus.index.records)
        records = described(corpus.index)
        wanted = self._framework.filter_of(where)
        corpus.say_missing(wanted.names, records)
        return [records[row].id for row in wanted.rows(records)]

    def sync(
        self,
        documents: Iterable[Any],
        key: str | None = None,
        *,
        full: bool = False,
        allow_empty: bool = False,
        progress: bool = True,
    ) -> SyncCounts:
        """Bring passages in step with documents, given as the passages that they are split into.

        Documents that are new come, those whose passages differ are replaced, and with `full` those that are not given
        leave. A passage of the same text and metadata stays and keeps its id, whatever id it is given; only others are
        embedded. A second call with the same documents changes nothing.

        Parameters
        ----------
        documents : iterable of documents or nodes
            All passages of each document that is given.
        key : str, optional
            Metadata key that names a passage's document; the retriever's `source_key` unless given.
        full : bool, default False
            The documents are all there are: others are deleted. Passages that name no document stay.
        allow_empty : bool, default False
            With `full`: no document at all is no error, and deletes all. A corpus keeps at least one passage, so that
            this needs passages that name no document.
        progress : bool, default True
            Show a bar for many passages.

        Returns
        -------
        SyncCounts
            Documents added, changed, deleted and unchanged, and passages embedded; logged on ``phasegraph``, too.

        Raises
        ------
        InvalidInputError
            If a passage names no document, or as for :meth:`delete`.
        StoreError
            If the folder or its vectors cannot be changed. Nothing is changed then.
        """
        return self._synced(self._contents(documents), key, full=full, allow_empty=allow_empty, progress=progress)

    def _synced(
        self,
        contents: Sequence[Content],
        key: str | None = None,
        *,
        full: bool,
        allow_empty: bool = False,
        progress: bool = True,
        stays: Callable[[str], bool] | None = None,
    ) -> SyncCounts:
        """As :meth:`sync`; a document that is not given stays in spite of `full` where ``stays(name)`` says so."""
        corpus = self._changing()
        if key is not None and (not isinstance(key, str) or not key):
            raise InvalidTypeError(f"key must be the name of a metadata key; got {key!r:.80}")
        key = corpus.keys.source if key is None else key
        if not contents and full and not allow_empty:
            raise InvalidInputError(
                "documents must hold at least one where full=True, which would delete all others; allow_empty=True "
                "lets it"
            )
        table, state = self._table(key), corpus.state
        given = [self._given(row, one, key, table) for row, one in enumerate(contents)]
        there = table.of(state.index)
        plan = plan_sync(there, given, full=full, stays=stays)
        counts = plan.counts
        if plan.removed or plan.rows:
            items = [contents[row].item for row in plan.rows]
            came = self._passages(items)
            ids = free_ids(there, plan.removed, [given[row] for row in plan.rows], [one["id"] for one in came])
            came = [{**one, "id": name} for one, name in zip(came, ids, strict=True)]
            embedded = self._replace(corpus, plan.removed, came, items, progress, state)
            counts = replace(counts, embedded=embedded)
        _logger.info("sync: %s", counts)
        return counts

    async def async_sync(self, documents: Iterable[Any], key: str | None = None, **options: Any) -> SyncCounts:
        """As :meth:`sync`, without blocking the event loop."""
        counts: SyncCounts = await in_thread(lambda given: self.sync(given, key, **options), documents)
        return counts

    @staticmethod
    def _given(row: int, content: Content, key: str | None, table: phasegraph.graph.DocumentTable) -> Given:
        document = table.document(content.names)
        if not document:
            from phasegraph.graph.corpus.document_table import SOURCE_KEYS

            wanted = f"under {key!r}" if key is not None else "under " + ", ".join(map(repr, SOURCE_KEYS))
            raise InvalidInputError(
                f"sync needs the name of each passage's document {wanted} in its metadata; passage "
                f"{content.id or row!r} has the keys {', '.join(map(repr, content.metadata)) or 'none'}: give key="
            )
        return Given(content.id, document, table.digest(content.text, content.metadata))

    def _table(self, key: str | None) -> phasegraph.graph.DocumentTable:
        """The documents of the passages, worked out once for each key and corpus."""
        tables: dict[str | None, phasegraph.graph.DocumentTable] = self._changing().tables
        return tables.setdefault(key, phasegraph.graph.DocumentTable(key, self._uncounted))

    def _members(self, index: Any, key: str) -> Mapping[str, Sequence[str]]:
        """Ids of the passages of each document that a metadata key names."""
        own = self._changing().keys.source
        usual = own is None and key == "source"  # the key that the table of the usual keys looks at first
        return self._table(None if usual else key).members(index)

    def _counts(self) -> dict[str, int]:
        """Passages by document; under "" those that name none."""
        corpus = self._changing()
        table = self._table(corpus.keys.source).of(corpus.index)
        return dict(Counter(document for document, _ in table.values()))

    def near_duplicates(self, least: float = 0.8) -> list[phasegraph.graph.NearDuplicates]:
        """Pairs of documents that say nearly the same, the most similar first.

        Parameters
        ----------
        least : float, default 0.8
            Least share of runs of four words that both documents have, in (0, 1].

        Returns
        -------
        list of NearDuplicates
            Each with ``first``, ``second`` and ``similarity``. Passages that name no document are left out.
        """
        corpus = self._changing()
        index, table = corpus.index, self._table(corpus.keys.source)
        pairs: list[phasegraph.graph.NearDuplicates] = phasegraph.graph.near_duplicates(
            index, table.members(index), least
        )
        return pairs

    def _contents(self, documents: Iterable[Any]) -> list[Content]:
        """What documents or nodes hold; an error where an id is repeated."""
        raise NotImplementedError

    def _passages(self, items: Sequence[Any]) -> list[dict[str, Any]]:
        """Documents or nodes as passages."""
        raise NotImplementedError

    def _replace(
        self,
        corpus: Any,
        removed: Sequence[str],
        came: Sequence[dict[str, Any]],
        items: Sequence[Any],
        progress: bool,
        planned: Any = None,
    ) -> int:
        """Let passages leave and others come, in one step, as `planned` for a state; how many were embedded."""
        corpus.check(came)
        view, vectors, rows = corpus.index.graph.view, None, []
        if came and view.embeddings is not None:
            self._check_embeds(corpus)
            known = corpus.records(removed).values() if self._text_alone else ()
            same = {one.text: view.passage_rows[one.id] for one in known}
            rows = [row for row, one in enumerate(came) if one["text"] not in same]
            embedded = self._framework.embedded
            fresh = embedded(self._embeds, [items[row] for row in rows], progress) if rows else []
            made = dict(zip(rows, fresh, strict=True))
            vectors = [made[row] if row in made else view.embeddings[same[one["text"]]] for row, one in enumerate(came)]
        corpus.replace(removed, came, vectors, planned=planned)
        self._changed(corpus)
        return len(rows)

    def _check_added(self, corpus: Any, held: Mapping[str, Any]) -> None:
        """Refuse documents or nodes that must not be added."""

    def _add(self, hits: Iterable[Any], triples: Any, progress: bool | None) -> list[str]:
        """Add documents or nodes, with the triples handed over; their ids."""
        from phasegraph.graph import fields_of

        corpus, framework, vectors = self._changing(), self._framework, None
        held = framework.held_by_id(hits)
        self._check_added(corpus, held)
        passages = framework.passages_of(held, corpus.keys.title, fields_of(triples, held))
        corpus.check(passages)
        if corpus.index.graph.view.embeddings is not None:
            self._check_embeds(corpus)
            vectors = framework.embedded(self._embeds, list(held.values()), progress)
        corpus.replace((), passages, vectors)
        self._changed(corpus)
        return list(held)

    def _check_embeds(self, corpus: Any) -> None:
        if getattr(self, "_embeds", None) is None:
            raise InvalidInputError(
                "its passages have vectors: load it with its model (embeddings=, or embed_model= in LlamaIndex) to "
                "add others"
            )
        corpus.check_model()

    def _reembed(self, model: Any, progress: bool | None) -> None:
        """Embed all passages anew by another model of the framework."""
        corpus, framework = self._changing(), self._framework
        embedder = framework.model_of(model)
        if embedder is None:
            raise InvalidInputError("reembed() needs an embedding model; got None")

        def vectors(records: Sequence[phasegraph.graph.PassageRecord]) -> Any:
            return framework.embedded(model, [framework.of_record(record) for record in records], False)

        corpus.embed_anew(embedder, vectors, progress)
        self._embeds = model
        self._remodelled(model)
        self._changed(corpus)

    @classmethod
    def _folder_settings(cls, *, vectors: bool) -> dict[str, object]:
        """What a folder is to be opened with."""
        return {"framework": cls._framework.name, "vectors": vectors, **({"vector_store": "flat"} if vectors else {})}

    @classmethod
    def _open(
        cls,
        path: str | os.PathLike[str],
        model: Any,
        *,
        vectors: bool,
        progress: bool | None = False,
        checks: bool = True,
        vector_store: str | None = None,
    ) -> Any:
        """The corpus of a folder, with its vectors where they are wanted."""
        from phasegraph.graph import open_folder

        framework = cls._framework
        return open_folder(
            path, framework.name, framework.model_of(model), vectors=vectors, progress=progress, checks=checks,
            vector_store=vector_store,
        )  # fmt: skip

    def _changed(self, corpus: Any) -> None:
        """What a retriever has to renew."""

    def _remodelled(self, model: Any) -> None:
        """What a retriever has to renew for another embedding model."""

    def _changing(self) -> Any:
        corpus = getattr(self, "_corpus", None)
        if corpus is None:
            raise InvalidInputError(
                f"this {type(self).__name__} was made of sources of yours: change those. One made of documents, over a "
                "store, or by load changes its own"
            )
        corpus.follow()
        return corpus
