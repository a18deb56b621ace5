"""The methods of retrievers that own a corpus: add and delete passages, one by one or by document."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import phasegraph  # phasegraph.graph is imported at its first use, because it imports scipy.sparse
from phasegraph.errors import InvalidInputError, InvalidTypeError, warn
from phasegraph.retrieval.by_document import (
    Content,
    GivenPassages,
    SyncCounts,
    copies_of_stored,
    described,
    free_ids,
    id_of_copy,
    plan_sync,
)
from phasegraph.retrieval.filter_types import warn_of_types
from phasegraph.retrieval.framework import Framework, is_blank, warn_of_blank
from phasegraph.retrieval.identity import is_text_id
from phasegraph.sources.workers import in_thread

if TYPE_CHECKING:
    import phasegraph.graph

_logger = logging.getLogger("phasegraph")


class KeptPassages:
    """Base class of a retriever that owns its passages, from documents or a folder.

    A retriever inherits from this class and from its framework's class. ``_framework`` converts the framework's
    documents or nodes. ``_corpus`` is the corpus; None if the retriever wraps other retrievers. ``_embeds`` is the
    embedding model.
    """

    _framework: Framework
    """The operations on the framework's documents or nodes."""
    if TYPE_CHECKING:  # the framework's class defines these attributes
        _corpus: Any
        _embeds: Any
    _uncounted: tuple[str, ...] = ()
    """The metadata keys that the framework adds; a changed value under such a key does not change the passage."""

    def delete(self, ids: Sequence[str] | None = None, *, where: Any = None) -> int:
        """Delete passages from every source in one step.

        Parameters
        ----------
        ids : sequence of str, optional
            The ids of the passages to delete. Give either `ids` or `where`.
        where : filter, optional
            Delete all passages that match this filter. `where` has the same form as the filter of a search.

        Returns
        -------
        int
            Number of deleted passages; 0, with a warning, if no passage matches `where`.

        Raises
        ------
        InvalidInputError
            If an id is unknown, or the retriever wraps other retrievers.
        StoreError
            If the folder or its vectors cannot be changed. In this case, no passage is deleted.

        Notes
        -----
        If no passage is left, searches find nothing, and passages can be added again.
        """
        corpus = self._own_corpus()
        if (ids is None) == (where is None):
            raise InvalidInputError("delete() needs either ids or where=; got " + ("none" if ids is None else "both"))
        strays = self._strays(corpus, ids, where)
        if ids is None:
            ids = self.ids(where)
            if not ids and not strays:
                warn(f"delete: no passage matches {where!r:.200}; 0 deleted")
                return 0
        corpus.replace([one for one in ids if one not in strays] if strays else ids)
        if strays:
            corpus.state.store.remove(sorted(strays))
        self._changed(corpus)
        return len(strays.union(ids))

    async def adelete(self, ids: Sequence[str] | None = None, *, where: Any = None) -> int:
        """Delete passages as :meth:`delete` does, without blocking the event loop."""
        count: int = await in_thread(lambda given: self.delete(given, where=where), ids)
        return count

    def ids(self, where: Any = None) -> list[str]:
        """Return the ids of all passages, in the corpus's order, or of the passages that match the filter `where`."""
        corpus = self._own_corpus()
        if where is None:
            return list(corpus.index.records)
        records = described(corpus.index)
        wanted = self._framework.filter_of(where)
        corpus.say_missing(wanted.names, records)
        warn_of_types(corpus, wanted, records)
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
        """Update the corpus to match documents; the input contains the passages of each document.

        New documents are added, and documents with changed passages are updated. With `full`, all other documents are
        deleted. A passage with unchanged text and metadata stays in the corpus under its stored id. A changed passage
        is embedded only if the text that the model embeds has changed. A second call with the same documents changes
        nothing.

        Parameters
        ----------
        documents : iterable of documents or nodes
            All passages of each document that the input contains. Passages without text are left out, with a warning.
        key : str, optional
            Metadata key that names a passage's document. By default, the retriever's `source_key`.
        full : bool, default False
            If True, the input is complete: all other documents are deleted. Passages without a document stay.
        allow_empty : bool, default False
            If True, an empty input with `full` deletes all documents instead of raising an error. The corpus can then
            be empty: searches find nothing, and passages can be added again.
        progress : bool, default True
            Show a progress bar for many passages.

        Returns
        -------
        SyncCounts
            The numbers of added, changed, deleted and unchanged documents, and of embedded passages. They are also
            logged on the logger ``phasegraph``.

        Raises
        ------
        InvalidInputError
            If a passage names no document, if the input is empty (see `allow_empty`), or if the retriever wraps other
            retrievers.
        StoreError
            If the folder or its vectors cannot be changed. In this case, the corpus is unchanged.

        Notes
        -----
        Only texts and metadata are compared. In LlamaIndex, a change of ``excluded_embed_metadata_keys``,
        ``text_template`` or ``metadata_separator`` alone is therefore not seen, and ``reembed`` uses the stored
        nodes. To store and embed the new nodes, delete the old nodes with :meth:`delete` before the sync.
        """
        return self._synced(self._contents(documents), key, full=full, allow_empty=allow_empty, progress=progress)

    def _synced(
        self,
        contents: Iterable[Content],
        key: str | None = None,
        *,
        full: bool,
        allow_empty: bool = False,
        progress: bool = True,
        stays: Callable[[str], bool] | None = None,
    ) -> SyncCounts:
        """Run :meth:`sync` on documents that were converted to `contents`; the other parameters are the same.

        Documents for which ``stays(name)`` is True are not deleted.
        """
        corpus = self._own_corpus()
        if key is not None and (not isinstance(key, str) or not key):
            raise InvalidTypeError(f"key must be the name of a metadata key; got {key!r:.80}")
        key = corpus.keys.source if key is None else key
        table, state = self._table(key), corpus.state
        documents, digests = table.of(state.index)
        stored = frozenset(documents.values())
        given = self._given(contents, key, table, corpus.keys.title, self._framework.hit, stored)
        if not len(given) and not allow_empty and (full or (stored and stored <= given.emptied)):
            why = "documents has no text" if given.emptied else "documents is empty"
            raise InvalidInputError(
                f"{why}, and the sync would delete all documents: give allow_empty=True to delete them"
            )
        plan = plan_sync(documents, digests, given, full=full, stays=stays)
        counts = plan.counts
        copies = copies_of_stored(documents, digests, given, plan.removed) if counts.added else 0
        if plan.removed or plan.rows:
            items = [given.items[row] for row in plan.rows]
            came = self._passages(items)
            ids = free_ids(documents, plan.removed, [given[row] for row in plan.rows], [one["id"] for one in came])
            came = [{**one, "id": name} for one, name in zip(came, ids, strict=True)]
            embedded = self._replace(corpus, plan.removed, came, items, progress, state)
            counts = replace(counts, embedded=embedded)
        _logger.info("sync: %s", counts)
        if copies:
            warn(
                f"sync: {copies} of {counts.added} added documents have the same passages as stored documents with "
                "other names: give source_key= (the metadata key that names a document, such as a file's path) when "
                "you create the retriever"
            )
        return counts

    async def async_sync(self, documents: Iterable[Any], key: str | None = None, **options: Any) -> SyncCounts:
        """Update the corpus as :meth:`sync` does, without blocking the event loop."""
        counts: SyncCounts = await in_thread(lambda given: self.sync(given, key, **options), documents)
        return counts

    @staticmethod
    def _given(
        contents: Iterable[Content], key: str | None, table: phasegraph.graph.DocumentTable,
        title_key: str = "title", noun: str = "passage", stored: AbstractSet[str] = frozenset(),
    ) -> GivenPassages:  # fmt: skip
        """Return the passages in the input of a sync; passages without text are left out.

        If no passage has a text, and there are no `stored` documents, return all passages; the check of the passages
        then raises an error. `title_key` is the metadata key of the title. `noun` is the
        framework's word for a passage.
        """
        given, blank = GivenPassages(), GivenPassages()
        example = None
        for content in contents:
            document = table.document(content.names)
            if not document:
                from phasegraph.graph.corpus.document_table import SOURCE_KEYS

                wanted = f"under {key!r}" if key is not None else "under " + ", ".join(map(repr, SOURCE_KEYS))
                raise InvalidInputError(
                    f"sync needs the name of a passage's document in the passage's metadata, {wanted}; passage "
                    f"{content.id or len(given)!r} has the keys {', '.join(map(repr, content.metadata)) or 'none'}: "
                    "give key="
                )
            to = given
            if is_blank(content.text, content.metadata.get(title_key)):
                to, example = blank, example or content
            to.append(content.id, document, table.digest(content.text, content.metadata), content.item)
        if example is None:
            return given
        if not len(given) and not stored:
            return blank
        given.emptied = frozenset(blank.documents)
        warn_of_blank(len(blank), noun, example.id or blank.documents[0], example.metadata)
        return given

    def _table(self, key: str | None) -> phasegraph.graph.DocumentTable:
        """Return the table of documents, which are named by the passages' values under the metadata key `key`.

        None stands for the usual keys, such as ``source`` and ``doc_id``. The corpus caches a table for each key.
        """
        tables: dict[str | None, phasegraph.graph.DocumentTable] = self._own_corpus().tables
        return tables.setdefault(key, phasegraph.graph.DocumentTable(key, self._uncounted))

    def _members(self, index: Any, key: str) -> Mapping[str, Sequence[str]]:
        """Return, by document name, the ids of the document's passages; the metadata `key` contains the name."""
        own = self._own_corpus().keys.source
        usual = own is None and key == "source"  # the table for the default keys reads this key before the other keys
        return self._table(None if usual else key).members(index)

    def _counts(self) -> dict[str, int]:
        """Return the number of passages by document name; the name "" counts passages without a document."""
        corpus = self._own_corpus()
        table = self._table(corpus.keys.source).of(corpus.index)
        return dict(Counter(table.documents.values()))

    def near_duplicates(self, least: float = 0.8) -> list[phasegraph.graph.NearDuplicates]:
        """Find pairs of documents with nearly the same text, the most similar pair first.

        Parameters
        ----------
        least : float, default 0.8
            Minimum similarity of a pair, in (0, 1]: the Jaccard index of their sets of four-word sequences.

        Returns
        -------
        list of NearDuplicates
            The pairs, with the fields ``first`` and ``second`` (document names) and ``similarity``. Passages without a
            document are not compared.
        """
        corpus = self._own_corpus()
        index, table = corpus.index, self._table(corpus.keys.source)
        pairs: list[phasegraph.graph.NearDuplicates] = phasegraph.graph.near_duplicates(
            index, table.members(index), least
        )
        return pairs

    def _contents(self, documents: Iterable[Any]) -> Iterator[Content]:
        """Check documents or nodes, and convert them to :class:`Content` one by one; raise an error for repeated ids.

        The call itself raises the errors. The iterator does not keep the objects that it yields: in a large input, the
        garbage collector visits every object that is kept.
        """
        raise NotImplementedError

    def _passages(self, items: Sequence[Any]) -> list[dict[str, Any]]:
        """Convert documents or nodes to passages of the corpus."""
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
        """Delete and add passages in one step, and return the number of embedded passages.

        `removed` are the ids of the passages to delete. `came` are the passages to add, and `items` the documents or
        nodes from which they were made. A passage keeps the vector of a deleted passage with the same embedded text. If
        the state of the corpus is no longer `planned`, raise StoreError; None accepts every state.
        """
        corpus.check(came)
        view, vectors, rows = corpus.index.graph.view, None, []
        if came and view.embeddings is not None:
            self._check_embeds(corpus)
            framework = self._framework
            same = {
                framework.embedded_text(framework.of_record(one)): view.passage_rows[one.id]
                for one in corpus.records(removed).values()
            }
            texts = [framework.embedded_text(item) for item in items]
            rows = [row for row, text in enumerate(texts) if text not in same]
            fresh = framework.embedded(self._embeds, [items[row] for row in rows], progress) if rows else []
            made = dict(zip(rows, fresh, strict=True))
            vectors = [made[row] if row in made else view.embeddings[same[text]] for row, text in enumerate(texts)]
        corpus.replace(removed, came, vectors, planned=planned)
        self._changed(corpus)
        return len(rows)

    def _check_added(self, corpus: Any, held: Mapping[str, Any]) -> None:
        """Raise an error if the documents or nodes in `held` must not be added; this base class accepts all.

        `held` maps ids to the new documents or nodes.
        """

    def _add(self, hits: Iterable[Any], triples: Any, progress: bool | None) -> list[str]:
        """Add documents or nodes with their triples, and return their ids."""
        from phasegraph.graph import fields_of

        corpus, framework, vectors = self._own_corpus(), self._framework, None
        held = framework.held_by_id(hits)
        self._check_added(corpus, held)
        passages = framework.passages_of(held, corpus.keys.title, fields_of(triples, held))
        ids = self._ids_of_added(corpus, held)
        passages = [{**one, "id": name} for one, name in zip(passages, ids, strict=True)]
        corpus.check(passages)
        if corpus.index.graph.view.embeddings is not None:
            self._check_embeds(corpus)
            vectors = framework.embedded(self._embeds, list(held.values()), progress)
        corpus.replace((), passages, vectors)
        self._changed(corpus)
        return ids

    def _ids_of_added(self, corpus: Any, held: Mapping[str, Any]) -> list[str]:
        """Return the ids of new documents or nodes, which `held` maps from their proposed ids.

        An id that was made from a text can be the id of an equal passage of another document. This passage stays, and
        the new passage gets an id that depends on its document, as in a sync. If the corpus already has this id, the
        new passage keeps it, also after the other passage was deleted.
        """
        same = [name for name in held if is_text_id(name)]
        if not same:
            return list(held)
        table, own = self._table(corpus.keys.source), dict[str, str]()
        stored = table.of(corpus.index).documents if any(name in corpus for name in same) else {}
        for name, content in zip(same, self._contents([held[name] for name in same]), strict=True):
            document = table.document(content.names)
            copy = id_of_copy(name, document)
            if content.id is None and (copy in corpus or stored.get(name, document) not in ("", document)):
                own[name] = copy
        return [own.get(name, name) for name in held]

    def _check_embeds(self, corpus: Any) -> None:
        if getattr(self, "_embeds", None) is None:
            raise InvalidInputError(
                "the stored passages have vectors, and no embedding model was given: load the retriever with its model "
                "(embeddings=, or embed_model= in LlamaIndex) to add passages"
            )
        corpus.check_model()

    def _reembed(self, model: Any, progress: bool | None) -> None:
        """Embed all passages again with another model of the framework."""
        corpus, framework = self._own_corpus(), self._framework
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
        """Return the settings to store in a new folder; they are read again when the folder is opened.

        `vectors` is True if the folder contains vectors.
        """
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
        """Open the corpus of a folder; `vectors` says whether its vectors are needed.

        With `checks`, check that `model` embedded the passages. `vector_store` is the store to which the vectors are
        moved; with None, they stay where they are.
        """
        from phasegraph.graph import open_folder

        framework = cls._framework
        return open_folder(
            path, framework.name, framework.model_of(model), vectors=vectors, progress=progress, checks=checks,
            vector_store=vector_store,
        )  # fmt: skip

    def _strays(self, corpus: Any, ids: Iterable[str] | None, where: Any) -> frozenset[str]:
        """Return the given ids that only the user's store has, and not the corpus; none in this base class.

        If `ids` is None, all such ids in the store that match the filter `where`.
        """
        return frozenset()

    def _changed(self, corpus: Any) -> None:
        """Update the retriever after a change of the corpus; this base class does nothing."""

    def _remodelled(self, model: Any) -> None:
        """Update the retriever after a change of the embedding model; this base class does nothing."""

    def _own_corpus(self) -> Any:
        """Return the corpus with the newest changes of its folder; raise InvalidInputError without a corpus."""
        corpus = getattr(self, "_corpus", None)
        if corpus is None:
            raise InvalidInputError(
                f"this {type(self).__name__} wraps your own sources and owns no passages: add or delete passages in "
                "these sources. Only a retriever made from documents, over a store, or by load() owns passages"
            )
        corpus.follow()
        return corpus
