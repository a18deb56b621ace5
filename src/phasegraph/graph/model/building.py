"""Build an entity graph from a corpus: validate passages, extract names, read triples, and count mentions."""

from __future__ import annotations

import json
import os
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from phasegraph._support.renamed import accepts_old_names
from phasegraph._support.validation import check_names, check_rows, nearest_key
from phasegraph.errors import InvalidInputError, InvalidTypeError, warn
from phasegraph.graph.model.entity_graph import (
    EdgeWeights,
    EntityGraph,
    Extraction,
    Extractor,
    Synonyms,
    Triple,
    check_kind,
    graph_from_extractions,
    grouped,
)
from phasegraph.graph.model.rules import RuleExtractor
from phasegraph.graph.model.words import normalise_name
from phasegraph.lexical import Tokenizer

Triples = Mapping[str, Sequence[Any]] | Iterable[Extraction]


@accepts_old_names
def build_graph(
    passages: Iterable[Any],
    *,
    triples: Triples | None = None,
    embeddings: Any = None,
    extractor: Extractor | None = None,
    known_names: Iterable[str] = (),
    synonyms: Synonyms | None = None,
    weights: EdgeWeights | None = None,
    tokenizer: Tokenizer = "english",
) -> EntityGraph:
    """Build the entity graph of a corpus, in time linear in its length.

    Parameters
    ----------
    passages : iterable of mapping or object
        Passages with ``id``, ``text`` and optionally ``title``, as keys or as attributes.
    triples : mapping of str to sequence of triples, or iterable of Extraction, optional
        Facts (subject, predicate, object) and entities that other tools found, by passage id, with names as written.
        They are added to the names that the extractor finds.
    embeddings : (P, d) array_like of float, optional
        Embeddings of the passages, one row per passage; the walk then prefers passages near the query.
    extractor : callable, optional
        A function ``extractor(id, title, text) -> Extraction``. The default extractor finds names with rules.
    known_names : iterable of str
        Names that the rules look for, in addition to the titles of the corpus.
    synonyms : mapping of (name, name) to float, or callable, optional
        Similarities of names; see :func:`graph_from_extractions`. For embedded names, use
        ``phasegraph.graph.NameSynonyms.of(embeddings, threshold=...)``.
    weights : EdgeWeights, optional
        Parameters that convert counts to edge weights.
    tokenizer : {"english", "german", "plain", "snowball:LANGUAGE"} or callable, default "english"
        Splits passages and queries into words, which affect the walk. ``english`` and ``german`` leave out stop words,
        and ``plain`` returns all words. ``snowball:LANGUAGE`` removes the endings of words (``phasegraph[stemming]``).
        All split Chinese and Japanese into pairs of characters. A callable is ``tokenizer(text) -> list of str``.

    Returns
    -------
    EntityGraph

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the corpus is empty, an id repeats or is missing, or a passage has no text. If a triple does not have three
        parts or belongs to no passage. If the embeddings have a wrong shape. The error names the row or the passage.

    Examples
    --------
    >>> passages = [{"id": "1", "text": "Ada Lovelace met Charles Babbage."}]
    >>> graph = build_graph(passages, triples={"1": [("Ada Lovelace", "met", "Charles Babbage")]})
    >>> graph.entities, graph.facts.nnz
    (('ada lovelace', 'charles babbage'), 2)
    """
    rows = read_passages(passages)
    if extractor is None:
        rules = RuleExtractor(check_names("known_names", known_names), titles=[title for _, title, _ in rows if title])
        found = [rules(*row) for row in rows]
    else:
        found = [in_normal_form(extractor(*row)) for row in rows]
    if triples is not None:
        found += as_extractions(triples)
    ids = [row[0] for row in rows]
    return graph_from_extractions(
        ids, found, embeddings=embeddings, synonyms=synonyms, weights=weights, texts=texts_of(rows), tokenizer=tokenizer
    )


def texts_of(rows: Iterable[tuple[str, str, str]]) -> list[str]:
    """Return the title and text of each passage as a single text; a text that starts with its title is unchanged."""
    return [f"{title}\n{text}" if title and not text.startswith(f"{title}\n") else text for _, title, text in rows]


def read_passages(passages: Iterable[Any]) -> list[tuple[str, str, str]]:
    """Validate passages (see :func:`build_graph`) and return a list of (id, title, text)."""
    rows: list[tuple[str, str, str]] = []
    seen: dict[str, int] = {}
    for number, passage in enumerate(check_rows("passages", passages)):
        identity, title, text = (passage_field(passage, name) for name in ("id", "title", "text"))
        title = "" if title is None else title
        if not isinstance(identity, str) or not identity:
            raise InvalidTypeError(
                f"passage {number} must have an id that is a non-empty string; got {identity!r}{right_form(passage)}"
            )
        if identity in seen:
            raise InvalidInputError(
                f"passage ids must be unique; {identity!r} is the id of rows {seen[identity]} and {number}: "
                "give each passage its own id"
            )
        if not isinstance(title, str):
            raise InvalidTypeError(f"title of passage {number} ({identity!r}) must be a string; got {title!r}")
        if not isinstance(text, str) or not (text.strip() or title.strip()):
            raise InvalidInputError(
                f"passage {number} ({identity!r}) must have text; got {text!r}{right_form(passage)}"
            )
        seen[identity] = number
        rows.append((identity, title, text))
    if not rows:
        raise InvalidInputError("passages is empty: give at least one passage")
    return rows


def right_form(passage: object) -> str:
    """Return a hint about the form of a passage if `passage` is a text or an object without a text, else ""."""
    if isinstance(passage, Mapping) or hasattr(passage, "text"):
        return ""
    return f" (the passage is a {type(passage).__name__}: give {{'id': ..., 'title': ..., 'text': ...}})"


def passage_field(passage: Any, name: str) -> Any:
    """Return the value of a mapping's key or of an object's attribute; None if it is missing."""
    return passage.get(name) if isinstance(passage, Mapping) else getattr(passage, name, None)


def as_extractions(triples: Triples) -> list[Extraction]:
    """Convert the argument `triples` of :func:`build_graph` to extractions; names in triples stay unchanged."""
    if isinstance(triples, Mapping):
        return [Extraction(name, triples=each) for name, each in triples.items()]
    return [in_normal_form(_extraction(record, triples)) for record in check_rows("triples", triples)]


def _extraction(record: object, triples: object) -> Extraction:
    if isinstance(record, Extraction):
        return record
    raise InvalidTypeError(
        "triples must be {'PASSAGE ID': [(subject, predicate, object)]} or a list of Extraction; got "
        f"{type(triples).__name__} of {type(record).__name__}"
    )


def by_passage(triples: Triples | None, known: Mapping[str, object]) -> dict[str, tuple[Extraction, ...]]:
    """Convert the argument `triples` of :func:`build_graph` to a list of extractions for each passage id.

    `known` contains the ids of the corpus; another id raises InvalidInputError.
    """
    given = () if triples is None else as_extractions(triples)
    return {name: tuple(each) for name, each in grouped(given, known).items()}


def in_normal_form(record: Extraction) -> Extraction:
    """Normalize the entities, titles and lead of an extraction; names without a letter or digit are dropped.

    Names in triples stay unchanged.

    >>> in_normal_form(Extraction("1", ["Ada Lovelace", "!"], lead="Ada L.")).entities
    ('ada lovelace',)
    """
    check_kind("an extraction", record, Extraction)
    both = record.entities, record.titles
    entities, titles = ([form for name in names if (form := normalise_name(name))] for names in both)
    return Extraction(record.passage_id, entities, record.triples, titles, normalise_name(record.lead))


@dataclass(frozen=True, slots=True)
class OpenieFile:
    """The extractions that :func:`read_openie` read from a file, and the numbers of invalid items that it left out.

    `malformed_triples` is the number of triples that are not three strings, or whose subject or object is not a name.
    `malformed_entities` is the number of entities that are not names.
    """

    extractions: tuple[Extraction, ...]
    malformed_triples: int = 0
    malformed_entities: int = 0


def read_openie(
    path: str | os.PathLike[str], passages: Iterable[Any], *, entities: bool = True, strict: bool = False
) -> OpenieFile:
    """Read entities and triples from a model's output file, for the passages of a corpus.

    Parameters
    ----------
    path : path
        A file of JSON lines ``{"id", "entities", "triples"}``, or of one JSON object as HippoRAG writes it:
        ``{"docs": [{"idx", "passage", "extracted_entities", "extracted_triples"}, …]}``. The lists of entities and
        triples are optional.
    passages : iterable of mapping or object
        The corpus, as for :func:`~phasegraph.graph.build_graph`.
    entities : bool, default True
        If True, use the entities and the names in triples; if False, only the names in triples.
    strict : bool, default False
        If True, raise an error for a triple that is not three strings; if False, leave it out.

    Returns
    -------
    OpenieFile
        Use it in ``build_graph(passages, triples=read_openie(path, passages).extractions)``.

    Raises
    ------
    InvalidInputError
        If the file is not JSON in one of these formats, an id repeats, or an entry belongs to no passage. The error
        names the file, and the line or entry.

    Notes
    -----
    An entry in HippoRAG's format belongs to the passage whose id is its ``idx``. If there is no such passage, the entry
    belongs to every passage whose text, or title and text, equals its ``passage`` except for white space.

    References
    ----------
    Gutiérrez, B. J. et al. (2024). HippoRAG. arXiv:2405.14831

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = Path(folder.name) / "triples.jsonl"
    >>> _ = file.write_text('{"id": "1", "triples": [["Ada", "met", "Bo"], ["Ada", "sang"]]}')
    >>> found = read_openie(file, [{"id": "1", "text": "Ada met Bo. Ada sang."}])
    >>> found.extractions[0].triples, found.malformed_triples
    ((('Ada', 'met', 'Bo'),), 1)
    >>> folder.cleanup()
    """
    file = Path(path)
    rows = read_passages(passages)
    if not file.is_file():
        raise InvalidInputError(f"{file}: the file does not exist")
    data = file.read_bytes().removeprefix(BOM_UTF8)
    docs = openie_docs(file, data)
    records: list[Extraction] = []
    bad_triples = bad_entities = 0
    known = {name for name, _, _ in rows}
    entries = by_line(file, data.split(b"\n"), known) if docs is None else by_entry(file, docs, rows, known)
    prefix = "" if docs is None else EXTRACTED
    for ids, _, where, entry in entries:
        names, lost_names = entity_names(stated_in(where, entry, f"{prefix}entities") if entities else [])
        stated = stated_in(where, entry, f"{prefix}triples")
        wrong = [item for item in stated if not isinstance(item, list) or list(map(type, item)) != [str] * 3]
        if strict and wrong:
            raise InvalidInputError(
                f"{where}: a triple must be three texts [subject, predicate, object]; got {wrong[0]!r}"
            )
        triples, lost_triples = sound_triples(stated)
        bad_entities, bad_triples = bad_entities + lost_names, bad_triples + lost_triples
        records += [Extraction(name, names, triples) for name in ids]
    return OpenieFile(tuple(records), bad_triples, bad_entities)


def sound_triples(given: Iterable[object]) -> tuple[list[Triple], int]:
    """Return the valid triples, and the number of other items.

    A valid triple is a list of three strings whose subject and object contain a letter or digit.

    >>> sound_triples([["Ada", "met", "Bo"], ["Ada"], ["?", "met", "Bo"], "Ada met Bo"])
    ([('Ada', 'met', 'Bo')], 3)
    """
    kept: list[Triple] = []
    lost = 0
    for item in given:
        match item:
            case [str(subject), str(predicate), str(obj)] if normalise_name(subject) and normalise_name(obj):
                kept.append((subject, predicate, obj))
            case _:
                lost += 1
    return kept, lost


def entity_names(given: Iterable[object]) -> tuple[list[str], int]:
    """Return the distinct normalized names in a list, in order, and the number of items that are not names.

    An item is a name if it is a string with a letter or digit.

    >>> entity_names(["Ada Lovelace", "ada lovelace", "", None])
    (['ada lovelace'], 2)
    """
    names = [normalise_name(item) if isinstance(item, str) else "" for item in given]
    return list(dict.fromkeys(name for name in names if name)), names.count("")


EXTRACTED = "extracted_"
"""The prefix of the keys "entities" and "triples" in HippoRAG's format."""
OpenieEntry: TypeAlias = tuple[tuple[str, ...], int, str, Mapping[str, object]]
"""An entry of a file: the ids of its passages, its number, its file and number for messages, and its content."""


def by_line(file: Path, lines: Iterable[bytes], known: Container[str], first: int = 1) -> Iterator[OpenieEntry]:
    """Yield the entries of a file with one JSON object ``{"id", "entities", "triples"}`` per line.

    `first` is the number of the first line, for messages. `known` contains the ids of the corpus; another id is an
    error.
    """
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=first):
        if not line.strip():
            continue
        where = f"{file}:{number}"
        entry = _parsed(where, line)
        if not isinstance(entry, dict):
            raise InvalidInputError(f"{where}: the line must be one JSON object; got {type(entry).__name__}")
        name = entry.get("id")
        if not isinstance(name, str) or not name:
            raise InvalidInputError(f"{where}: 'id' must be text that is not blank; got {name!r}")
        if name in seen:
            raise InvalidInputError(f"{where}: id {name!r} is already on line {seen[name]}: merge both lines")
        if name not in known:
            raise InvalidInputError(
                f"{where}: passage {name!r} is not in the corpus: add the passage, or remove the line"
            )
        seen[name] = number
        yield (name,), number, where, entry


def by_entry(
    file: Path, docs: list[object], rows: Iterable[tuple[str, str, str]], known: Container[str], *, part: bool = False
) -> Iterator[OpenieEntry]:
    """Yield the entries of a file in HippoRAG's format, with the ids of the passages to which each entry belongs.

    `rows` are (id, title, text) of the passages, and `known` contains all ids of the corpus. Entries of passages that
    are not in `rows` are an error. If the rows are only a part of the corpus (`part`), such entries are left out.
    """
    own: set[str] = set()
    by_text: dict[str, list[str]] = {}
    for name, title, text in rows:
        own.add(name)
        for form in dict.fromkeys((_squeezed(text), _squeezed(f"{title}\n{text}"))):
            by_text.setdefault(form, []).append(name)
    seen: dict[str, int] = {}
    for number, entry in enumerate(docs):
        where = f"{file}: docs[{number}]"
        if not isinstance(entry, dict):
            raise InvalidInputError(f"{where}: an entry must be an object; got {type(entry).__name__}")
        idx, passage = entry.get("idx"), entry.get("passage")
        text = _squeezed(passage) if isinstance(passage, str) else ""
        if isinstance(idx, str) and idx in known:
            ids: tuple[str, ...] = (idx,) if idx in own else ()
        else:
            ids = tuple(by_text.get(text, ()) if text else ())
        if not ids and not part:
            raise unplaced(where, entry)
        twice = next((name for name in ids if name in seen), None)
        if twice is not None:
            raise InvalidInputError(f"{where}: passage {twice!r} is already in docs[{seen[twice]}]: merge both entries")
        seen.update(dict.fromkeys(ids, number))
        if ids:
            yield ids, number, where, entry


def unplaced(where: str, entry: Mapping[str, object]) -> InvalidInputError:
    """Create the error for an entry that belongs to no passage; `where` is the entry's place in its file."""
    idx, passage = entry.get("idx"), entry.get("passage")
    return InvalidInputError(
        f"{where}: the entry belongs to no passage of the corpus: no passage has the id {idx!r:.80} (idx) or the text "
        f"{passage!r:.80} (passage)"
    )


def openie_docs(file: Path, data: bytes) -> list[object] | None:
    """Return the entries of a file in HippoRAG's format; None for a file with one JSON object per passage and line."""
    first = next((line for line in data.split(b"\n") if line.strip()), b"")
    if not first:
        raise InvalidInputError(f"{file}: the file is empty; give a file with triples")
    try:
        whole = json.loads(first)
    except (ValueError, RecursionError):
        if b'"docs"' not in data:
            return None
        whole = _parsed(f"{file}", data)
    if not isinstance(whole, dict) or "docs" not in whole:
        return None
    docs = whole["docs"]
    if not isinstance(docs, list) or not docs:
        raise InvalidInputError(f"{file}: 'docs' must be a list of at least one entry; got {docs!r:.80}")
    return docs


def _parsed(where: str, data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{where}: the content must be JSON in UTF-8; {error}") from error


def stated_in(where: str, entry: Mapping[str, object], name: str) -> list[object]:
    """Return the list under the key `name` of an entry, or an empty list if the key is missing.

    Raises InvalidInputError for any other value; the message contains `where`, the entry's place in its file.
    """
    value = entry.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidInputError(f"{where}: {name!r} must be a list; got {value!r:.80}")
    return value


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def check_title_key(title_key: str, metadata: Collection[Mapping[str, Any]], /) -> None:
    """Warn if no passage has a title under the chosen metadata key, and suggest the nearest existing key.

    There is no warning for the default key ``"title"``, because passages need no title.

    >>> check_title_key("title", [{"source": "a.md"}])
    """
    if title_key == "title" or not metadata or any(one.get(title_key) for one in metadata):
        return
    hint = nearest_key(title_key, metadata)
    warn(f"title_key {title_key!r} is in no passage's metadata, so no passage has a title; {hint}")


def graph_of_documents(
    documents: Iterable[tuple[str, Mapping[str, Any], str]],
    /,
    *,
    title_key: str = "title",
    embed: Callable[[list[str]], Sequence[Any]] | None = None,
    vectors: Any = None,
    **options: Any,
) -> EntityGraph:
    """Build the entity graph of a framework's documents, given as tuples (id, metadata, text).

    The title of a document is ``metadata[title_key]``. The embeddings are `vectors` if given, otherwise the result of
    ``embed(texts)``. The other options are the options of :func:`build_graph`.

    >>> graph = graph_of_documents([("1", {"title": "Ada"}, "She met Bo.")], embed=lambda texts: [[0.6, 0.8]])
    >>> graph.entities, graph.embeddings.shape
    (('ada', 'bo'), (1, 2))
    """
    held = list(documents)
    check_title_key(title_key, [metadata for _, metadata, _ in held])
    rows = [{"id": name, "title": str(metadata.get(title_key) or ""), "text": text} for name, metadata, text in held]
    if vectors is None and embed is not None:
        vectors = embed([row["text"] for row in rows])
    return build_graph(rows, embeddings=vectors, **options)
