"""Data sets in phasegraph's folder format: passages, judged queries, embeddings and triples.

A missing or broken file raises ``InvalidInputError``, whose message names the file and the line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from time import time
from typing import Any

import numpy as np

from phasegraph._support.jsonl import objects_of
from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import Float32Array, IntArray
from phasegraph._support.validation import file_error
from phasegraph._support.vector_files import read_vectors, unit_rows
from phasegraph.embedding.identity import EmbeddingModel
from phasegraph.evaluation.corpus_files import Passage, read_corpus
from phasegraph.evaluation.judgements import Judgement
from phasegraph.evaluation.query_files import Query, groups_of, queries_of
from phasegraph.fusion.context import Context
from phasegraph.graph.model.building import read_openie
from phasegraph.graph.model.entity_graph import Triple
from phasegraph.lexical import read_hits
from phasegraph.ranking import Ranking

LEAST_FOR_FIT = 20
"""The least number of questions for which :func:`embeddings_fit` compares embeddings."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A corpus with judged queries.

    Parameters
    ----------
    name : str
        The folder's name.
    passages : tuple of Passage
        The N passages, with unique ids.
    queries : tuple of Query
        The n queries, with unique ids; every judged passage is in the corpus.
    passage_vectors : (N, d) array of float32
        L2-normalized embeddings; row i belongs to passage i.
    query_vectors : (n, d) array of float32
        L2-normalized embeddings; row i belongs to query i.
    triples : mapping of str to tuple of (str, str, str), optional
        Triples by passage id.
    path : Path, optional
        The folder from which the data set was read.
    unjudged : tuple of str
        Ids of the queries left out because no passage covers any of their gold spans.
    """

    name: str
    passages: tuple[Passage, ...]
    queries: tuple[Query, ...]
    passage_vectors: Float32Array
    query_vectors: Float32Array
    triples: Mapping[str, tuple[Triple, ...]] | None = None
    path: Path | None = None
    unjudged: tuple[str, ...] = ()

    @property
    def judgements(self) -> tuple[Judgement, ...]:
        """The judgement of every query, in order."""
        return tuple(query.judgement for query in self.queries)

    @property
    def groups(self) -> tuple[str, ...] | None:
        """The group of every query, such as its collection; None if queries have no groups. See :func:`groups_of`."""
        return groups_of(self.queries)

    def vectors_by_text(self) -> dict[str, Float32Array]:
        """Return the embeddings of all questions and passages, by question text and passage content."""
        known = {query.text: vector for query, vector in zip(self.queries, self.query_vectors, strict=True)}
        passages = zip(self.passages, self.passage_vectors, strict=True)
        return known | {passage.content: vector for passage, vector in passages}

    @lazy_property
    def contents(self) -> Mapping[str, str]:
        """Title and text of each passage, by passage id."""
        return {passage.id: passage.content for passage in self.passages}

    @lazy_property
    def attributes(self) -> Mapping[str, Mapping[str, object]]:
        """The metadata of each passage for the priors, by passage id.

        The metadata are the further fields of the passage's line in the corpus file, and the field ``text``. The field
        ``text`` has the passage's title and text.
        """
        return {passage.id: {**passage.extra, "text": passage.content} for passage in self.passages}

    def context(self, row: int, rankings: Sequence[Ranking]) -> Context:
        """Return the context for fusing the rankings of the query at `row`.

        The context contains the query's text, the fields of the passages, the current time, and the query's words in
        the hits.
        """
        query, contents = self.queries[row].text, self.contents
        words = read_hits(query, rankings, lambda passage: contents.get(passage, ""))
        return Context(query=query, now=time(), attributes=self.attributes, words=words)

    def subset(self, rows: Sequence[int] | IntArray) -> Dataset:
        """Return the data set with the same corpus and only the queries at `rows`."""
        wanted = np.array(rows, dtype=np.intp)
        queries = tuple(self.queries[row] for row in wanted.tolist())
        return replace(self, queries=queries, query_vectors=self.query_vectors[wanted])


class EmbeddedDataset(Dataset):
    """A data set whose contexts also contain the embeddings of the passages, for a pipeline that selects passages."""

    @classmethod
    def of(cls, dataset: Dataset) -> EmbeddedDataset:
        """Create it from a data set, with the same content."""
        return cls(**{one.name: getattr(dataset, one.name) for one in fields(dataset)})

    @lazy_property
    def rows(self) -> Mapping[str, int]:
        """The row of each passage, by passage id."""
        return {passage.id: row for row, passage in enumerate(self.passages)}

    def context(self, row: int, rankings: Sequence[Ranking]) -> Context:
        """Return the context of :meth:`Dataset.context`, with the embeddings of the passages."""

        def embeddings(ids: Sequence[str]) -> Float32Array:
            return self.passage_vectors[[self.rows[one] for one in ids]]

        return replace(super().context(row, rankings), embeddings=embeddings)


def load_dataset(folder: str | Path, *, share: float = 0.5, model: EmbeddingModel | None = None) -> Dataset:
    """Read a data set from a folder in phasegraph's format.

    Parameters
    ----------
    folder : path
        A folder with these files. ``corpus.jsonl`` has ``id, title, text`` and optionally ``source``, the passage's
        page. ``queries.jsonl`` has ``id, question, hops`` and optionally ``hop_order_known``, ``last_hop_known``,
        ``hop_alternatives``, ``grades``, ``answer``, ``pages``, ``collection_id``, ``split``. ``passages.f16.npy`` and
        ``queries.f16.npy`` are embeddings (row i = line i). The optional ``triples.jsonl`` has ``id, triples``, or
        HippoRAG's OpenIE format. A query may be judged by ``spans`` (or HetDocQA's ``gold_spans``), a list of
        ``doc_id`` (or ``document_id``), ``char_start``, ``char_end`` and optionally ``grade``; every passage then has
        the first three of these fields.
    share : float, default 0.5
        The fraction of a gold span that a relevant passage must cover, in (0, 1].
    model : EmbeddingModel, optional
        The model that embeds the passages or questions if the folder has no file of their embeddings.

    Returns
    -------
    Dataset
        The passages, judged queries, embeddings and triples of the folder.

    Raises
    ------
    InvalidInputError
        For a missing or broken file, a repeated id, or a hop that is not in the corpus. Also if embeddings do not have
        one row per line, or differ in width.

    Notes
    -----
    ``hop_alternatives`` gives, for each hop, the ids that satisfy it, and replaces ``hops``. A repeated hop counts
    once, at its last position. ``last_hop_known`` says if the last hop is known; its default is ``hop_order_known``,
    whose default is true. nDCG reads ``grades`` (gain by passage id). If a query has grades but no ``hops``, every
    passage with a gain is a hop, in unknown order. If a query has spans and hops, the spans are used, because they stay
    valid when the documents are split differently. Embeddings are scaled to unit length. Entities outside the triples
    are not read, because names that occur in no triple made the walk worse.
    """
    root = Path(folder)
    if not root.is_dir():
        raise file_error(root, None, "the folder does not exist; a data set must be a folder")
    passages = read_corpus(root / "corpus.jsonl")
    listed = queries_of(root / "queries.jsonl", objects_of(root / "queries.jsonl"), passages, share=share)
    embeds = None if model is None else lambda: model.passages(passages)
    asks = None if model is None else lambda: [model(query.text) for query in listed]
    vectors = _vectors(root / "passages.f16.npy", len(passages), "corpus.jsonl", embeds)
    asked = _vectors(root / "queries.f16.npy", len(listed), "queries.jsonl", asks)
    if vectors.shape[1] != asked.shape[1]:
        message = f"the file must have as many columns as passages.f16.npy ({vectors.shape[1]}); got {asked.shape[1]}"
        raise file_error(root / "queries.f16.npy", None, message)
    rows = [row for row, query in enumerate(listed) if query.judgement.hops]
    if not rows:
        raise file_error(
            root / "queries.jsonl", None,
            "no passage covers any gold span of any query: check that the spans and the passages come from the same "
            "documents",
        )  # fmt: skip
    triples = None
    if (root / "triples.jsonl").is_file():
        read = read_openie(root / "triples.jsonl", passages, entities=False, strict=True)
        triples = {one.passage_id: tuple(one.triples) for one in read.extractions}
    return Dataset(
        name=root.resolve().name,
        passages=passages,
        queries=tuple(listed[row] for row in rows),
        passage_vectors=vectors,
        query_vectors=asked if len(rows) == len(listed) else asked[rows],
        triples=triples,
        path=root,
        unjudged=tuple(query.id for query in listed if not query.judgement.hops),
    )


def embeddings_fit(dataset: Dataset) -> bool:
    """Return False if the questions' embeddings are not near to the embeddings of the passages that answer them.

    The usual reason is that the rows of a file of embeddings have another order than the lines of its JSONL file. On
    each question, the similarity of its own passages is compared with the mean similarity of all passages, so that the
    questions may have one topic. For any twenty consecutive questions of our data sets, the mean of these differences
    is at least 6 standard errors above 0. With shuffled rows, it is below 4 standard errors in more than 99 % of the
    trials. Rows that moved by a few lines can pass, because neighboring passages often come from one document. With
    fewer than twenty questions, the result is True.
    """
    if len(dataset.queries) < LEAST_FOR_FIT:
        return True
    rows = {passage.id: row for row, passage in enumerate(dataset.passages)}
    own = [sorted({rows[one] for one in judged.passages if one in rows}) for judged in dataset.judgements]
    asked, vectors = dataset.query_vectors, dataset.passage_vectors
    mean = vectors.mean(axis=0)
    nearer = np.array([float(asked[row] @ (vectors[near].mean(axis=0) - mean)) for row, near in enumerate(own) if near])
    return bool(nearer.mean() > 4.0 * nearer.std(ddof=1) / np.sqrt(len(nearer)))


def _vectors(file: Path, rows: int, lines_in: str, embed: Callable[[], Any] | None) -> Float32Array:
    """Read the embeddings in a file that has a row for each line of `lines_in`; call `embed` if there is no file."""
    if file.is_file():
        return read_vectors(file, rows, lines_in)
    if embed is None:
        raise file_error(
            file, None,
            "the file does not exist: write the embeddings to it. phasegraph evaluate --embedder MODULE:OBJECT "
            "computes them for its own run; other commands need the file",
        )  # fmt: skip
    return unit_rows(file, np.array(embed(), dtype=np.float32))
