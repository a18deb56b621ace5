"""A corpus to a graph: read the passages, extract, build."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.checks import check_names, check_rows
from phasegraph.graph.entity_graph import EdgeWeights, EntityGraph, Extraction, graph_from_extractions
from phasegraph.graph.entity_graph.build import Synonyms
from phasegraph.graph.entity_graph.records import Extractor
from phasegraph.graph.entity_graph.words import normalise_name
from phasegraph.graph.extraction.rules import RuleExtractor

Triples = Mapping[str, Sequence[Any]] | Iterable[Extraction]


def build_graph(
    passages: Iterable[Any],
    *,
    triples: Triples | None = None,
    embeddings: Any = None,
    extractor: Extractor | None = None,
    gazetteer: Iterable[str] = (),
    synonyms: Synonyms | None = None,
    weights: EdgeWeights | None = None,
) -> EntityGraph:
    """Build the entity graph of a corpus.

    Parameters
    ----------
    passages : iterable of mapping or object
        Each with ``id``, ``text`` and optionally ``title``, as keys or as attributes.
    triples : mapping of str to sequence of triples, or iterable of Extraction, optional
        Facts (and entities) found by other means, by passage id; names as written. Added to what the rules find.
    embeddings : (P, d) array_like of float, optional
        One row per passage; kept with the graph so that the walk can follow the query's meaning.
    extractor : callable, optional
        ``extractor(id, title, text) -> Extraction``; default: the rules.
    gazetteer : iterable of str
        Names the rules should know besides the corpus' own titles.
    synonyms : mapping of (name, name) to float, or callable, optional
        As for :func:`graph_from_extractions`; with embedded names
        ``phasegraph.graph.NameSynonyms.of(embeddings, threshold=...)``.
    weights : EdgeWeights, optional

    Returns
    -------
    EntityGraph

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Naming the row or the passage: for an empty corpus, ids that repeat or are missing, passages without
        text, triples that do not have three parts or belong to no passage, embeddings that do not fit.

    Notes
    -----
    Linear in the length of the corpus. The order of the passages decides their rows and nothing else.

    References
    ----------
    Gutiérrez, B. J. et al. (2025). From RAG to memory (HippoRAG 2). arXiv:2502.14802

    Examples
    --------
    >>> graph = build_graph(
    ...     [{"id": "1", "text": "Ada Lovelace met Charles Babbage."}],
    ...     triples={"1": [("Ada Lovelace", "met", "Charles Babbage")]},
    ... )
    >>> graph.entities, graph.facts.nnz
    (('ada lovelace', 'charles babbage'), 2)
    """
    rows = read_passages(passages)
    if extractor is None:
        rules = RuleExtractor(check_names("gazetteer", gazetteer), titles=[title for _, title, _ in rows if title])
        found = [rules(*row) for row in rows]
    else:
        found = [in_normal_form(extractor(*row)) for row in rows]
    if triples is not None:
        found += as_extractions(triples)
    ids = [row[0] for row in rows]
    return graph_from_extractions(ids, found, embeddings=embeddings, synonyms=synonyms, weights=weights)


def read_passages(passages: Iterable[Any]) -> list[tuple[str, str, str]]:
    """Check passages.

    Parameters
    ----------
    passages : iterable of mapping or object
        As for :func:`build_graph`.

    Returns
    -------
    list of (id, title, text)

    Raises
    ------
    InvalidInputError, InvalidTypeError
        As for :func:`build_graph`.
    """
    rows: list[tuple[str, str, str]] = []
    seen: dict[str, int] = {}
    for number, passage in enumerate(check_rows("passages", passages)):
        identity, title, text = (_field(passage, name) for name in ("id", "title", "text"))
        title = "" if title is None else title
        if not isinstance(identity, str) or not identity:
            raise InvalidTypeError(f"passage {number} must have an id that is a non-empty string; got {identity!r}")
        if identity in seen:
            raise InvalidInputError(
                f"passage ids must be unique; {identity!r} is that of rows {seen[identity]} and {number}"
            )
        if not isinstance(title, str):
            raise InvalidTypeError(f"title of passage {number} ({identity!r}) must be a string; got {title!r}")
        if not isinstance(text, str) or not (text.strip() or title.strip()):
            raise InvalidInputError(f"passage {number} ({identity!r}) must have text; got {text!r}")
        seen[identity] = number
        rows.append((identity, title, text))
    if not rows:
        raise InvalidInputError("passages must hold at least one; got none")
    return rows


def _field(passage: Any, name: str) -> Any:
    return passage.get(name) if isinstance(passage, Mapping) else getattr(passage, name, None)


def as_extractions(triples: Triples) -> list[Extraction]:
    """What was handed over, as records in normal form."""
    if isinstance(triples, Mapping):
        return [Extraction(name, triples=each) for name, each in triples.items()]
    return [in_normal_form(record) for record in check_rows("triples", triples)]


def by_passage(triples: Triples | None, known: Mapping[str, object]) -> dict[str, tuple[Extraction, ...]]:
    """Records handed over, by the passage they belong to; `known` holds the ids there are."""
    out: dict[str, tuple[Extraction, ...]] = {}
    for record in as_extractions(triples) if triples is not None else ():
        if record.passage_id not in known:
            raise InvalidInputError(
                f"an extraction must belong to a passage; {record.passage_id!r} is not in the corpus"
            )
        out[record.passage_id] = (*out.get(record.passage_id, ()), record)
    return out


def in_normal_form(record: Extraction) -> Extraction:
    """A record from elsewhere with its names as the graph compares them; those without a letter or digit left out.

    Examples
    --------
    >>> in_normal_form(Extraction("1", ["Ada Lovelace", "!"], lead="Ada L.")).entities
    ('ada lovelace',)
    """
    if not isinstance(record, Extraction):
        raise InvalidTypeError(f"an extraction must be an Extraction; got {type(record).__name__}")
    both = record.entities, record.titles
    entities, titles = ([form for name in names if (form := normalise_name(name))] for names in both)
    return Extraction(record.passage_id, entities, record.triples, titles, normalise_name(record.lead))
