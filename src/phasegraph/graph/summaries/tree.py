"""Summarize related passages, then related summaries (RAPTOR); store the summaries as a tree and search them.

.. [1] Sarthi et al., "RAPTOR: Recursive Abstractive Processing for Tree-Organized Retrieval", arXiv:2401.18059
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy import sparse

from phasegraph._support.frozen import by_fields
from phasegraph._support.ordering import top_order
from phasegraph._support.products import times_vector
from phasegraph._support.progress import with_progress
from phasegraph._support.serialization import MISFITS, read_bundle, write_bundle
from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import Float32Array, FloatArray
from phasegraph._support.validation import check_choice, check_count, check_query, check_rows
from phasegraph.errors import IntegrityError, InvalidInputError, InvalidTypeError, warn
from phasegraph.graph.experimental.llm_extraction import AnswerCache
from phasegraph.graph.flat import NoPassages
from phasegraph.graph.model.building import passage_field, read_passages, texts_of
from phasegraph.graph.model.entity_graph import check_kind, checked_embeddings
from phasegraph.graph.model.storage import packed, packed_matrix, unpacked, unpacked_matrix
from phasegraph.graph.summaries.clusters import (
    Clustering,
    ClusterSettings,
    fit_clusters,
    packed_clusterings,
    unpacked_clusterings,
)
from phasegraph.graph.walk.relevance import unit_vector
from phasegraph.graph.walk.restricting import allowed_ids
from phasegraph.graph.walk.walker import Embedder, check_embedder, check_source_name
from phasegraph.lexical import tokenizer_of
from phasegraph.ranking import SUMMARY_PREFIX, Ranking
from phasegraph.sources.protocol import Upstream
from phasegraph.sources.workers import as_they_come

Summarise: TypeAlias = Callable[[list[str]], Any]
EmbedTexts: TypeAlias = Callable[[list[str]], Any]
Resolve: TypeAlias = Literal["leaves", "summaries"]
_Slot: TypeAlias = tuple[str, int, int]
"""The permanent position of a node: its document (or "" for the whole collection), its level, and its cluster."""
_KIND, _VERSION = "summary-tree", 1
_TEXT_KIND = "summary"
_COLLECTION = ""
_GROWN = 1.0
"""Ratio of passages added after fitting the clusters to fitted passages, above which a warning is given."""
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+")


def extractive(texts: Sequence[str], *, sentences: int = 5, characters: int = 700) -> str:
    """Summarize texts without a model: return their most central sentences, in the order of the texts.

    Parameters
    ----------
    texts : sequence of str
        The texts to summarize.
    sentences : int, default 5
        Maximum number of sentences.
    characters : int, default 700
        Maximum number of characters; if the best sentence alone is longer, it is cut.

    Returns
    -------
    str

    Notes
    -----
    The vector of a sentence contains the count of each word times log(1 + n / df). n is the number of sentences, and df
    is the number of sentences with this word. The center is the mean of the vectors after scaling to length 1. The
    sentences nearest to the center are chosen. A sentence with a cosine above .5 to a chosen sentence is skipped.

    References
    ----------
    Radev, Jing and Budzikowska (2000), arXiv:cs/0005020.

    Examples
    --------
    >>> extractive(["Ada met Bo. It rained.", "Bo met Ada again."], sentences=2)
    'Ada met Bo. It rained.'
    """
    found = [one.strip() for text in texts for one in _SENTENCE.split(text) if one.strip()]
    split = tokenizer_of("english")
    words = [Counter(split(one)) for one in found]
    places = {word: place for place, word in enumerate(sorted(set().union(*words)))} if words else {}
    rows = [row for row, one in enumerate(words) for _ in one]
    columns = [places[word] for one in words for word in one]
    counts = [float(count) for one in words for count in one.values()]
    matrix: Any = sparse.csr_array((counts, (rows, columns)), shape=(len(found), max(len(places), 1)))
    frequency = np.maximum((matrix > 0).sum(axis=0), 1)
    matrix = matrix.multiply(np.log1p(len(found) / frequency)).tocsr()
    lengths = np.sqrt(matrix.multiply(matrix).sum(axis=1))
    matrix = sparse.csr_array(matrix.multiply(1 / np.maximum(lengths, 1e-12)[:, None]))
    near = matrix @ matrix.mean(axis=0)
    taken: list[int] = []
    left = characters
    for row in np.lexsort((np.arange(len(found)), -near.round(12))).tolist():
        if len(taken) == sentences:
            break
        known = (matrix[[row]] @ matrix[taken].T).max() if taken else 0.0
        if known <= 0.5 and (len(found[row]) <= left or not taken):
            taken.append(row)
            left -= len(found[row]) + 1
    return " ".join(found[row] for row in sorted(taken))[:characters]


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary in a summary tree.

    Parameters
    ----------
    id : str
        ``summary:`` and a hash of the summarized nodes and of the summarizer's name; the same nodes give the same id.
    text : str
        The text of the summary.
    level : int
        1 for summaries of passages, 2 for summaries of level-1 summaries, and so on. If each document has its own tree,
        one more tree groups the documents; its levels continue this count.
    passages : tuple of str
        Ids of all passages below the summary, in ascending order.
    """

    id: str
    text: str
    level: int
    passages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Node:
    """A passage or summary during the construction of a tree.

    `key` is a hash that identifies the node. `leaves` are the rows of the passages below a summary, or the
    row of the passage itself.
    """

    key: str
    text: str
    vector: Float32Array
    level: int
    leaves: frozenset[int]


@dataclass(frozen=True, eq=False)
class SummaryTree:
    """A tree of summaries over passages; :meth:`build` creates it, :meth:`add` and :meth:`remove` change it.

    Parameters
    ----------
    passages : tuple of str
        Ids of the P passages, in ascending order.
    texts : tuple of str
        Title and text of each passage.
    documents : tuple of str
        The document of each passage; "" if the tree does not distinguish documents.
    embeddings : (P, d) array of float32
        The L2-normalized embeddings of the passages.
    summaries : tuple of Summary
        The N summaries, sorted by level, then id.
    vectors : (N, d) array of float32
        The L2-normalized vectors of the summaries.
    settings : ClusterSettings
        Settings for clustering the nodes.
    levels : int
        Maximum number of levels of summaries, in the tree of each document and again in the tree above the documents.
    summariser : str
        The name of the function or model that wrote the summaries.
    embedded : bool
        If True, a model embedded the summaries; if False, their vectors are the means of their passages' embeddings.
    clusterings : mapping of (str, int) to Clustering
        The fitted clustering of each document and level.
    parents : mapping of (str, int) to mapping
        For each document and level, the numbers of the clusters to which each summary was first assigned, by the
        summary's position (document, level, cluster). A summary stays in these clusters if its text changes later.
    """

    passages: tuple[str, ...]
    texts: tuple[str, ...] = field(repr=False)
    documents: tuple[str, ...] = field(repr=False)
    embeddings: Float32Array = field(repr=False)
    summaries: tuple[Summary, ...] = field(repr=False)
    vectors: Float32Array = field(repr=False)
    settings: ClusterSettings
    levels: int
    summariser: str
    embedded: bool
    clusterings: Mapping[tuple[str, int], Clustering] = field(repr=False)
    parents: Mapping[tuple[str, int], Mapping[_Slot, tuple[int, ...]]] = field(repr=False)

    __reduce__ = by_fields

    def __repr__(self) -> str:
        return (
            f"<SummaryTree of {len(self.passages):,} passages and {len(self.summaries):,} summaries by "
            f"{self.summariser:.40} on {self.levels} levels>"
        )

    @classmethod
    def build(
        cls,
        passages: Iterable[Any],
        embeddings: Any,
        summarise: Summarise = extractive,
        *,
        embed: EmbedTexts | None = None,
        document: str | None = None,
        levels: int = 3,
        clusters: ClusterSettings | None = None,
        summariser: str | None = None,
        cache: str | os.PathLike[str] | None = None,
        workers: int = 4,
        progress: bool | None = None,
    ) -> SummaryTree:
        """Cluster passages, summarize each cluster, and repeat this with the summaries, level by level.

        Parameters
        ----------
        passages : iterable of mapping or object
            Passages with ``id``, ``text`` and optionally ``title``, as for :func:`~phasegraph.graph.build_graph`.
        embeddings : (P, d) array_like
            The embeddings of the passages, in the order of the passages.
        summarise : callable
            A function or coroutine function ``summarise(texts) -> text``, which several threads call at the same time.
            The default :func:`extractive` needs no model. :func:`~phasegraph.graph.summarise_with` uses a language
            model.
        embed : callable, optional
            A function ``embed(texts) -> (n, d)`` that embeds summaries with the model of `embeddings`. Default: the
            vector of a summary is the mean of its passages' embeddings.
        document : str, optional
            The field of a passage that names its document. Each document then gets its own tree, and a further tree
            above these trees summarizes across documents. Default: a single tree of all passages.
        levels : int, default 3
            Maximum number of levels of summaries, >= 1. It applies to the tree of each document, and again to the tree
            above the documents.
        clusters : ClusterSettings, optional
            Settings for clustering the nodes.
        summariser : str, optional
            The name of `summarise`, which is part of the summaries' ids and of the cache's keys. Default: the name of
            the callable.
        cache : path, optional
            A folder that stores each summary as soon as it is written; an interrupted build can then be resumed.
        workers : int, default 4
            Maximum number of simultaneous calls of `summarise`, >= 1.
        progress : bool, optional
            If True, show a progress bar on a terminal, if tqdm is installed. By default, no progress bar is shown.

        Returns
        -------
        SummaryTree
            The tree, which does not depend on the order of the passages.

        Raises
        ------
        MissingDependencyError
            If scikit-learn is not installed (``phasegraph[summaries]``).
        InvalidInputError, InvalidTypeError
            If the numbers of passages and embeddings differ, or if `summarise` does not return a text. Errors of
            `summarise` are raised with a note that states the number of written summaries.

        Examples
        --------
        >>> passages = [{"id": name, "text": f"{name} is a {'bird' if name < 'c' else 'boat'}."} for name in "abcd"]
        >>> tree = SummaryTree.build(passages, [[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]])
        >>> [(one.level, one.passages) for one in tree.summaries]
        [(1, ('a', 'b')), (1, ('c', 'd'))]
        """
        listed = list(check_rows("passages", passages))
        writer = _Writer.of(summarise, summariser, embed, cache, workers, progress)
        chosen = ClusterSettings() if clusters is None else clusters
        check_kind("clusters", chosen, ClusterSettings)
        check_count("levels", levels, minimum=1)
        blank = cls(
            (), (), (), np.empty((0, 1), np.float32), (), np.empty((0, 1), np.float32), chosen, levels, writer.name,
            embed is not None, {}, {},
        )  # fmt: skip
        return _grown(blank, *_leaves(listed, embeddings, document), writer)

    def add(
        self,
        passages: Iterable[Any],
        embeddings: Any,
        summarise: Summarise = extractive,
        *,
        embed: EmbedTexts | None = None,
        document: str | None = None,
        summariser: str | None = None,
        cache: str | os.PathLike[str] | None = None,
        workers: int = 4,
        progress: bool | None = None,
    ) -> SummaryTree:
        """Return the tree with additional or replaced passages; :meth:`build` describes the parameters.

        The fitted clusters stay unchanged. Each new passage is assigned to clusters by its embedding, and only the
        summaries above new passages are written again. The result does not depend on the order in which passages are
        added.

        Warns
        -----
        PhasegraphWarning
            If the number of added passages exceeds the number of passages to which the clusters were fitted. Then build
            the tree again.
        """
        self._check_writer(embed)
        writer = _Writer.of(summarise, summariser, embed, cache, workers, progress)
        if writer.name != self.summariser:
            raise InvalidInputError(
                f"the summaries of this tree are by {self.summariser!r}, but new summaries would be by "
                f"{writer.name!r}: use the same summariser (summariser= sets its name), or build the tree again"
            )
        names, texts, documents, vectors = _leaves(list(check_rows("passages", passages)), embeddings, document)
        if len(self.passages) and vectors.shape[1] != self.embeddings.shape[1]:
            raise InvalidInputError(
                f"embeddings must have the tree's {self.embeddings.shape[1]} columns; got {vectors.shape[1]}"
            )
        if bool(documents[0]) != bool(self.documents and self.documents[0]):
            raise InvalidInputError(
                "document= was given, but the tree was built without document=: leave it out, or build the tree again"
                if documents[0]
                else "document= is missing, but the tree was built with document=: name the same field again"
            )
        new = frozenset(names)
        old = [row for row, name in enumerate(self.passages) if name not in new]
        merged = (
            [*(self.passages[row] for row in old), *names],
            [*(self.texts[row] for row in old), *texts],
            [*(self.documents[row] for row in old), *documents],
            np.concatenate([self.embeddings[old], vectors]),
        )
        return _grown(self, *merged, writer)

    def remove(
        self,
        ids: Collection[str],
        summarise: Summarise = extractive,
        *,
        embed: EmbedTexts | None = None,
        summariser: str | None = None,
        cache: str | os.PathLike[str] | None = None,
        workers: int = 4,
        progress: bool | None = None,
    ) -> SummaryTree:
        """Return the tree without the passages `ids`; the summaries above them are written again or removed.

        :meth:`build` describes the other parameters. Raises InvalidInputError if an id is unknown, or if no passage
        would be left.
        """
        self._check_writer(embed)
        gone = allowed_ids(ids)
        unknown = sorted(gone.difference(self.passages))
        if unknown:
            raise InvalidInputError(
                f"passage {unknown[0]!r} is not in the tree: remove only ids that the tree contains"
            )
        rows = [row for row, name in enumerate(self.passages) if name not in gone]
        if not rows:
            raise InvalidInputError("a tree must contain at least one passage: not all passages can be removed")
        writer = _Writer.of(summarise, summariser or self.summariser, embed, cache, workers, progress)
        names, texts, documents = (
            [values[row] for row in rows] for values in (self.passages, self.texts, self.documents)
        )
        return _grown(self, names, texts, documents, self.embeddings[rows], writer)

    def _check_writer(self, embed: EmbedTexts | None) -> None:
        if self.embedded != (embed is not None):
            raise InvalidInputError(
                "embed= is missing, but the tree was built with embed=: give the same function again"
                if self.embedded
                else "embed= was given, but the tree was built without embed=: leave it out, or build the tree again"
            )

    def source(self, embedder: Embedder, *, name: str = "summaries", resolve: Resolve = "leaves") -> SummarySource:
        """Create a source that searches the tree; :class:`SummarySource` describes the parameters."""
        return SummarySource(self, embedder, name, resolve)

    def within(self, allowed: Collection[str]) -> SummaryTree | None:
        """Return the tree of the passages with the ids `allowed`, or None if no passage is left.

        A summary is removed if any passage below it is not allowed.
        """
        seen = allowed_ids(allowed)
        rows = [row for row, name in enumerate(self.passages) if name in seen]
        if len(rows) == len(self.passages):
            return self
        nodes = [row for row, one in enumerate(self.summaries) if seen.issuperset(one.passages)]
        if not rows:
            return None
        return replace(
            self,
            passages=tuple(self.passages[row] for row in rows),
            texts=tuple(self.texts[row] for row in rows),
            documents=tuple(self.documents[row] for row in rows),
            embeddings=self.embeddings[rows],
            summaries=tuple(self.summaries[row] for row in nodes),
            vectors=self.vectors[nodes],
        )

    @lazy_property
    def above(self) -> Any:
        """A boolean CSR matrix of shape (P, N): True if the summary is above the passage."""
        places = {name: row for row, name in enumerate(self.passages)}
        rows = [places[name] for one in self.summaries for name in one.passages]
        columns = np.repeat(np.arange(len(self.summaries)), [len(one.passages) for one in self.summaries])
        shape = (len(self.passages), len(self.summaries))
        return sparse.csr_array((np.ones(len(rows), dtype=np.bool_), (rows, columns)), shape=shape)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Save the tree to a directory of its own; an existing tree is replaced when the new tree is complete."""
        under = self.above.T.tocsr()
        arrays = (
            packed("passages", self.passages) | packed("texts", self.texts) | packed("documents", self.documents)
            | packed("summaries", [one.id for one in self.summaries])
            | packed("written", [one.text for one in self.summaries])
            | packed_matrix("under", under) | packed_clusterings(list(self.clusterings.values()))
            | {
                "embeddings": self.embeddings,
                "vectors": self.vectors,
                "heights": np.array([one.level for one in self.summaries], dtype=np.int64),
            }
        )  # fmt: skip
        body: dict[str, object] = {
            "settings": asdict(self.settings), "levels": self.levels, "summariser": self.summariser,
            "embedded": self.embedded, "clusterings": [list(one) for one in self.clusterings],
            "parents": [
                [*key, [[list(slot), list(found)] for slot, found in each.items()]]
                for key, each in self.parents.items()
            ],
        }  # fmt: skip
        write_bundle(directory, _KIND, _VERSION, body, arrays)

    @classmethod
    def load(cls, directory: str | os.PathLike[str], *, mmap: bool = True, verify: bool = True) -> SummaryTree:
        """Load a tree that :meth:`save` wrote; the embeddings are memory-mapped.

        Parameters
        ----------
        directory : path
            The directory of the tree.
        mmap, verify : bool, default True
            Options that :func:`~phasegraph.graph.load_graph` describes.

        Raises
        ------
        IntegrityError
            If a file is missing, truncated or damaged, is not part of a tree, or was written by a newer version. The
            message names the file.
        """
        state, arrays = read_bundle(directory, _KIND, _VERSION, mmap=mmap, verify=verify)
        body: dict[str, Any] = dict(state)
        try:
            names, written = unpacked("passages", arrays), unpacked("written", arrays, unique=False)
            ids, heights = unpacked("summaries", arrays), arrays["heights"].tolist()
            under = unpacked_matrix("under", arrays, (len(ids), len(names)), np.bool_)
            summaries = [
                Summary(key, text, level, tuple(names[row] for row in sorted(under[[place]].indices.tolist())))
                for place, (key, text, level) in enumerate(zip(ids, written, heights, strict=True))
            ]
            settings = ClusterSettings(**body["settings"])
            fitted = unpacked_clusterings(arrays, settings.threshold)
            keys = [(str(group), int(level)) for group, level in body["clusterings"]]
            embeddings: Any = arrays["embeddings"]
            vectors: Any = arrays["vectors"]
            columns = (len(names), *embeddings.shape[1:]), (len(ids), *embeddings.shape[1:])
            if embeddings.ndim != 2 or (embeddings.shape, vectors.shape) != columns or not embeddings.shape[1]:
                raise InvalidInputError(
                    "each passage and each summary must have a vector, and all vectors must have the same length; got "
                    f"shapes {embeddings.shape} for {len(names)} passages and {vectors.shape} for {len(ids)} summaries"
                )
            if {embeddings.dtype, vectors.dtype} != {np.dtype(np.float32)}:
                raise InvalidInputError(f"vectors must be float32; got {embeddings.dtype} and {vectors.dtype}")
            if any(one.mixtures[0].centre.shape != embeddings.shape[1:] for one in fitted):
                raise InvalidInputError(
                    f"the clusters must have {embeddings.shape[1]} dimensions, like the embeddings; got "
                    f"{sorted({len(one.mixtures[0].centre) for one in fitted})!r:.80}"
                )
            texts, documents = (unpacked(name, arrays, unique=False) for name in ("texts", "documents"))
            if {len(texts), len(documents), len(set(names))} != {len(names)} or len(set(ids)) != len(ids):
                raise InvalidInputError(
                    f"each passage must have a unique id, a text and a document, and each summary a unique id; got "
                    f"{len(names)} passages, {len(texts)} texts, {len(documents)} documents and {len(ids)} summaries"
                )
            return cls(
                names, texts, documents, embeddings, tuple(summaries), vectors,
                settings, check_count("levels", body["levels"], minimum=1), str(body["summariser"]),
                bool(body["embedded"]), dict(zip(keys, fitted, strict=True)),
                {
                    (str(group), int(level)): {_slot(one): tuple(map(int, found)) for one, found in each}
                    for group, level, each in body["parents"]
                },
            )  # fmt: skip
        except MISFITS as error:
            raise IntegrityError(
                f"{Path(directory).name}: the parts of the saved tree do not fit together: {error}. Restore "
                "the folder, or build the tree again"
            ) from error


def _slot(said: Any) -> _Slot:
    group, level, cluster = said
    return str(group), int(level), int(cluster)


def _leaves(
    listed: Sequence[Any], embeddings: Any, document: str | None
) -> tuple[list[str], list[str], list[str], Float32Array]:
    """Return the ids, texts, documents and checked embeddings of passages, in the order of the passages."""
    rows = read_passages(listed)
    vectors = checked_embeddings("embeddings", embeddings, len(rows))
    documents = [_COLLECTION] * len(rows)
    if document is not None:
        for row, passage in enumerate(listed):
            found = passage_field(passage, document)
            if not isinstance(found, str) or not found:
                raise InvalidTypeError(f"{document} of passage {rows[row][0]!r} must name its document; got {found!r}")
            documents[row] = found
    return [name for name, _, _ in rows], texts_of(rows), documents, vectors


@dataclass(frozen=True, slots=True)
class _Writer:
    """A writer of summaries: the function that writes a summary, the function that embeds it, and the cache."""

    summarise: Summarise
    name: str
    embed: EmbedTexts | None
    cache: AnswerCache
    workers: int
    progress: bool | None

    @classmethod
    def of(
        cls, summarise: Any, name: str | None, embed: Any, cache: Any, workers: int, progress: bool | None
    ) -> _Writer:
        if not callable(summarise):
            raise InvalidTypeError(f"summarise must be a function of texts; got {type(summarise).__name__}")
        if embed is not None and not callable(embed):
            raise InvalidTypeError(f"embed must be a function of texts or None; got {type(embed).__name__}")
        called = getattr(summarise, "__qualname__", type(summarise).__qualname__) if name is None else name
        if not isinstance(called, str) or not called.strip():
            raise InvalidTypeError(f"summariser must be text that is not blank; got {name!r}")
        kept = AnswerCache(cache, _TEXT_KIND)
        return cls(summarise, called, embed, kept, check_count("workers", workers, minimum=1), progress)

    def written(self, wanted: Mapping[str, list[str]]) -> dict[str, str]:
        """Return the summaries by key; each is taken from the cache, or written by a call of `summarise`.

        `wanted` maps the key of each summary to the texts to summarize.
        """
        found = {key: text for key in wanted if isinstance(text := self.cache.get(key).get("text"), str)}
        asked = [key for key in wanted if key not in found]
        try:
            texts = as_they_come(lambda key: self._one(key, wanted[key]), asked, self.workers)
            found |= with_progress(texts, self.progress, label="summarise", unit="summary", total=len(asked))
        except Exception as error:
            folder = self.cache.folder
            error.add_note(
                f"{len(found)} of {len(wanted)} summaries of this level are written"
                + (f" and stored in {folder}: a new build with this cache continues from there" if folder else "")
            )
            raise
        return found

    def _one(self, key: str, texts: list[str]) -> str:
        answer = self.summarise(texts)
        text = asyncio.run(_awaited(answer)) if inspect.isawaitable(answer) else answer
        if not isinstance(text, str) or not text.strip():
            raise InvalidInputError(f"summarise must return text that is not blank; got {text!r:.80}")
        self.cache.put(key, {"text": text})
        return text


async def _awaited(answer: Any) -> Any:
    return await answer


def _hash(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode("ascii")).hexdigest()[:32]


class _Growing:
    """A summary tree during construction: the previous tree, and the clusterings and nodes of the new tree."""

    def __init__(self, before: SummaryTree, embeddings: Float32Array, writer: _Writer) -> None:
        self.before, self.embeddings, self.writer = before, embeddings, writer
        self.known = {one.id.removeprefix(SUMMARY_PREFIX): row for row, one in enumerate(before.summaries)}
        self.clusterings: dict[tuple[str, int], Clustering] = {}
        self.parents: dict[tuple[str, int], dict[_Slot, tuple[int, ...]]] = {}
        self.nodes: dict[str, _Node] = {}

    def members(self, group: str, level: int, nodes: Mapping[_Slot, _Node]) -> dict[_Slot, list[_Slot]] | None:
        """Assign the nodes on one level of a document's tree to clusters, and return the members of each cluster.

        `group` is the document, or "" for the tree above the documents. Returns None if the nodes are the top of the
        tree, because they are too few to be clustered.
        """
        key = (group, level)
        found = self.before.clusterings.get(key)
        settings = self.before.settings
        if found is None and len(nodes) < settings.fewest:
            return {(group, level, 0): list(nodes)} if level == 1 and len(nodes) > 1 else None
        slots = list(nodes)
        vectors = np.array([nodes[slot].vector for slot in slots])
        if found is None:
            found = fit_clusters(vectors, settings)
        elif len(slots) - found.fitted > _GROWN * found.fitted and found.fitted:
            warn(
                f"{len(slots)} nodes are in clusters that were fitted to only {found.fitted} nodes, so clusters may be "
                "poor: build the summary tree again"
            )
        self.clusterings[key] = found
        where = dict(zip(slots, found.assign(vectors), strict=True))
        pinned = self.before.parents.get(key, {})  # a summary stays in its first clusters, even if its text changes
        self.parents[key] = {slot: pinned.get(slot, cells) for slot, cells in where.items() if slot[1]}
        where |= self.parents[key]
        out: dict[_Slot, list[_Slot]] = {}
        for slot, cells in where.items():
            for cell in cells:
                out.setdefault((group, level, cell), []).append(slot)
        return out

    def summarised(self, level: int, clusters: Mapping[_Slot, Sequence[_Node]]) -> dict[_Slot, _Node]:
        """Summarize each cluster on a level, and return the node of each summary.

        `clusters` contains the nodes of each cluster. A cluster with one node is not summarized; its node is returned.
        """
        distinct = {slot: {one.key: one for one in nodes} for slot, nodes in clusters.items()}
        keys = {
            slot: next(iter(each)) if len(each) == 1 else _hash(self.writer.name, *sorted(each))
            for slot, each in distinct.items()
        }
        members = {keys[slot]: [each[key] for key in sorted(each)] for slot, each in distinct.items() if len(each) > 1}
        new = {key: nodes for key, nodes in members.items() if key not in self.nodes}
        kept = {key: self.known[key] for key in new if key in self.known}
        missing = {key: [one.text for one in nodes] for key, nodes in new.items() if key not in kept}
        texts = self.writer.written(missing) if missing else {}
        embedded = self._embedded(texts)
        for key, nodes in new.items():
            leaves = frozenset().union(*(one.leaves for one in nodes))
            if key in kept:
                text, vector = self.before.summaries[kept[key]].text, np.array(self.before.vectors[kept[key]])
            else:
                text = texts[key]
                vector = embedded[key] if key in embedded else self._mean(leaves)
            self.nodes[key] = _Node(key, text, vector, level, leaves)
        singles = {next(iter(each)): next(iter(each.values())) for each in distinct.values() if len(each) == 1}
        return {slot: self.nodes.get(key) or singles[key] for slot, key in keys.items()}

    def _mean(self, leaves: Collection[int]) -> Float32Array:
        mean = self.embeddings[sorted(leaves)].astype(np.float64).mean(axis=0)
        return unit_vector(mean, len(mean))

    def _embedded(self, texts: Mapping[str, str]) -> dict[str, Float32Array]:
        if self.writer.embed is None or not texts:
            return {}
        vectors = checked_embeddings("embed(summaries)", self.writer.embed(list(texts.values())), len(texts))
        if vectors.shape[1] != self.embeddings.shape[1]:
            raise InvalidInputError(
                f"embed must return vectors of {self.embeddings.shape[1]} numbers, like the passages' embeddings; got "
                f"{vectors.shape[1]}"
            )
        return dict(zip(texts, vectors, strict=True))

    def climbed(self, groups: Mapping[str, Mapping[_Slot, _Node]], first: int) -> dict[str, dict[_Slot, _Node]]:
        """Build the trees of all groups level by level, and return the top nodes of each group's tree.

        A group is a document or the whole collection, and `groups` contains the lowest nodes of each group. Levels are
        counted from `first` + 1.
        """
        tops = {group: dict(nodes) for group, nodes in groups.items()}
        climbing = list(tops)
        for level in range(1, self.before.levels + 1):
            if not climbing:
                break
            clusters: dict[_Slot, list[_Node]] = {}
            rising: list[str] = []
            for group in climbing:
                found = self.members(group, level, tops[group])
                if found is not None:
                    rising.append(group)
                    clusters |= {slot: [tops[group][one] for one in own] for slot, own in found.items()}
            made = self.summarised(first + level, clusters)
            for group in rising:
                tops[group] = {slot: made[slot] for slot in sorted(made) if slot[0] == group}
            climbing = [group for group in rising if len({one.key for one in tops[group].values()}) > 1]
        return tops


def _grown(
    before: SummaryTree,
    names: Sequence[str],
    texts: Sequence[str],
    documents: Sequence[str],
    embeddings: Float32Array,
    writer: _Writer,
) -> SummaryTree:
    """Return the summary tree of the passages `names`; reuse clusterings and unchanged summaries of tree `before`."""
    order = sorted(range(len(names)), key=names.__getitem__)
    ids, words, groups = (tuple(each[row] for row in order) for each in (names, texts, documents))
    vectors = np.ascontiguousarray(embeddings[order])
    vectors.setflags(write=False)
    growing = _Growing(before, vectors, writer)
    leaves: dict[str, dict[_Slot, _Node]] = {}
    for row, (name, text, group) in enumerate(zip(ids, words, groups, strict=True)):
        node = _Node(_hash("passage", name, text), text, vectors[row], 0, frozenset((row,)))
        leaves.setdefault(group, {})[(group, 0, row)] = node
    tops = growing.climbed(leaves, 0)
    if set(tops) != {_COLLECTION}:
        highest = max((one.level for one in growing.nodes.values()), default=0)
        joined = {slot: one for group in sorted(tops) for slot, one in tops[group].items()}
        growing.climbed({_COLLECTION: joined}, highest)
    nodes = sorted(growing.nodes.values(), key=lambda one: (one.level, one.key))
    summaries = [
        Summary(f"{SUMMARY_PREFIX}{one.key}", one.text, one.level, tuple(ids[row] for row in sorted(one.leaves)))
        for one in nodes
    ]
    stacked = np.array([one.vector for one in nodes], dtype=np.float32).reshape(-1, vectors.shape[1])
    stacked.setflags(write=False)
    return replace(
        before, passages=ids, texts=words, documents=groups, embeddings=vectors, summaries=tuple(summaries),
        vectors=stacked, clusterings=growing.clusterings, parents=growing.parents,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class SummarySource:
    """A source that searches passages together with the summaries over them (RAPTOR's collapsed tree).

    Parameters
    ----------
    tree : SummaryTree
        The tree with the passages and their summaries.
    embedder : callable
        A function ``embedder(query) -> (d,) vector``.
    name : str, default "summaries"
        Name of the source in rankings and reports.
    resolve : {"leaves", "summaries"}, default "leaves"
        ``leaves`` ranks only passages. If the best summary above a passage has a higher cosine than the passage, the
        score is the mean of both cosines. ``summaries`` ranks passages and summaries by their own cosines.

    Notes
    -----
    The payload of a passage is the :class:`Summary` that raised its score, if there is such a summary. The payload of a
    summary is the summary itself. A source that :meth:`within` returns has no summary that covers a hidden passage,
    because the summary's text could reveal this passage.

    References
    ----------
    Sarthi et al. (2024), RAPTOR, arXiv:2401.18059.

    Examples
    --------
    >>> passages = [{"id": name, "text": f"{name} is a {'bird' if name < 'c' else 'boat'}."} for name in "abcd"]
    >>> tree = SummaryTree.build(passages, [[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]])
    >>> source = SummarySource(tree, lambda query: [0.05, 1.0], resolve="summaries")
    >>> [one[:8] for one in source.search("boats", 3, {}).ids]
    ['summary:', 'c', 'd']
    """

    tree: SummaryTree
    embedder: Embedder
    name: str = "summaries"
    resolve: Resolve = "leaves"

    __reduce__ = by_fields

    def __post_init__(self) -> None:
        check_kind("tree", self.tree, SummaryTree)
        check_source_name(self.name)
        check_choice("resolve", self.resolve, ("leaves", "summaries"))
        check_embedder(self)

    def passage_ids(self) -> tuple[str, ...]:
        """Return the ids of all passages; :meth:`within` accepts these ids."""
        return self.tree.passages

    def within(self, allowed: Collection[str]) -> Any:
        """Return a source over the allowed passages; see :meth:`SummaryTree.within`."""
        part = self.tree.within(allowed)
        return NoPassages(self.name) if part is None else replace(self, tree=part)

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        """Rank passages for `query`, and also summaries with ``resolve="summaries"``.

        Parameters and result are described at :meth:`phasegraph.sources.Source.search`.
        """
        tree = self.tree
        limit = None if limit is None else check_count("limit", limit, minimum=1)
        vector = unit_vector(self.embedder(check_query(query)), tree.embeddings.shape[1])
        own = times_vector(tree.embeddings, vector).astype(np.float64)
        over = times_vector(tree.vectors, vector).astype(np.float64)
        if self.resolve == "summaries":
            ids = (*tree.passages, *(one.id for one in tree.summaries))
            scores = np.concatenate([own, over])
            lifting = np.concatenate([np.full(len(own), -1), np.arange(len(over))])
        else:
            ids, (best, lifting) = tree.passages, _best_above(tree.above, over)
            lifted = best > own
            scores = np.where(lifted, (own + np.where(lifted, best, 0.0)) / 2, own)
            lifting = np.where(lifted, lifting, -1)
        order = top_order(scores, ids, limit)
        payloads = {ids[row]: tree.summaries[lifting[row]] for row in order.tolist() if lifting[row] >= 0}
        return Ranking(
            self.name, tuple(ids[row] for row in order.tolist()), scores[order], size=len(ids), payloads=payloads
        )


def summaries_in(ranking: Ranking) -> dict[str, Summary]:
    """Return the summaries that a ranking contains as hits, by id."""
    named = (one for one in ranking.ids if one.startswith(SUMMARY_PREFIX))
    return {one: found for one in named if isinstance(found := ranking.payloads.get(one), Summary)}


def _best_above(above: Any, scores: FloatArray) -> tuple[FloatArray, Any]:
    """Return, for each passage, the best score among the summaries above it, and the position of this summary.

    `above` is the matrix :attr:`SummaryTree.above`, and `scores` are the scores of the summaries. A passage without a
    summary has the score -inf and the position -1.
    """
    best, place = np.full(above.shape[0], -np.inf), np.full(above.shape[0], -1)
    rows = np.repeat(np.arange(above.shape[0]), np.diff(above.indptr))
    columns = above.indices
    order = np.lexsort((-columns, scores[columns]))  # the best summary is written last
    best[rows[order]], place[rows[order]] = scores[columns[order]], columns[order]
    return best, place
