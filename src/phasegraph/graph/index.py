"""A corpus with its graph: passages come and go, and only what they touch is read again."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from phasegraph._validation import check_names
from phasegraph.errors import IntegrityError, InvalidInputError
from phasegraph.graph.building import Triples, by_passage, read_passages, texts_of
from phasegraph.graph.entity_graph import (
    EdgeWeights,
    EntityGraph,
    Extraction,
    checked_embeddings,
    graph_from_extractions,
    replace_passages,
)
from phasegraph.graph.rules import RuleExtractor, title_names
from phasegraph.graph.storage import KIND, VERSION, graph_from_parts, graph_parts, packed, unpacked
from phasegraph.graph.synonyms import NameSynonyms, NameVectors, synonym_parts, synonyms_from_parts
from phasegraph.graph.words import Gazetteer, normalise_name, split_words
from phasegraph.lexical import Tokenizer
from phasegraph.ranking import by_fields
from phasegraph.serialization import read_bundle, write_bundle

Row = tuple[str, str, str]
_FIELDS = ("entities", "triples", "titles", "lead")


@dataclass(frozen=True, eq=False)
class GraphIndex:
    """Passages, what was found in each, and the entity graph of it all; made by :meth:`build`.

    Parameters
    ----------
    rows : tuple of (id, title, text)
    found : mapping of str to Extraction
        What the rules found, by passage id.
    given : mapping of str to sequence of Extraction
        What was handed over (triples of a language model, say), by passage id.
    gazetteer : frozenset of str
        The user's own names, normalised.
    graph : EntityGraph
    synonyms : NameSynonyms, optional
        Embedded names of the entities, from which the graph's synonym edges follow.

    Notes
    -----
    What the rules find in a passage depends on its text and on the known names in it: the titles of the corpus and the
    user's names. A new title is therefore looked up in all passages, and only those in which it stands are read again.

    Examples
    --------
    >>> index = GraphIndex.build([{"id": "a", "title": "Ada", "text": "Ada met Bo."}])
    >>> index = index.add([{"id": "b", "title": "Bo", "text": "Bo sang to Cy."}])
    >>> index.graph.passages, index.graph.entities
    (('a', 'b'), ('ada', 'bo', 'cy'))
    >>> index.remove(["a"]).graph.entities
    ('bo', 'cy')
    """

    rows: tuple[Row, ...]
    found: Mapping[str, Extraction] = field(repr=False)
    given: Mapping[str, tuple[Extraction, ...]] = field(repr=False)
    gazetteer: frozenset[str] = field(repr=False)
    graph: EntityGraph = field(repr=False)
    synonyms: NameSynonyms | None = field(default=None, repr=False)

    __reduce__ = by_fields

    @classmethod
    def build(
        cls,
        passages: Iterable[Any],
        *,
        triples: Triples | None = None,
        embeddings: Any = None,
        gazetteer: Iterable[str] = (),
        synonyms: NameSynonyms | None = None,
        weights: EdgeWeights | None = None,
        tokenizer: Tokenizer = "english",
    ) -> GraphIndex:
        """Read a corpus and build its graph; parameters and errors as in :func:`phasegraph.graph.build_graph`.

        `synonyms` is kept, with the names' embeddings, so that updates embed and compare new names only.
        """
        rows = tuple(read_passages(passages))
        names = frozenset(name for name in map(normalise_name, check_names("gazetteer", gazetteer)) if name)
        extract = RuleExtractor(names, titles=[title for _, title, _ in rows if title])
        found = {row[0]: extract(*row) for row in rows}
        given = by_passage(triples, found)
        ids = [row[0] for row in rows]
        records = [one for name in ids for one in (found[name], *given.get(name, ()))]
        graph = graph_from_extractions(
            ids, records, embeddings=embeddings, weights=weights, texts=texts_of(rows), tokenizer=tokenizer
        )
        if synonyms is not None:
            synonyms = synonyms.knowing(graph.entities)
            graph = replace(graph, synonyms=synonyms.edges(graph.entities))
        return cls(rows, found, given, names, graph, synonyms)

    def add(
        self,
        passages: Iterable[Any],
        *,
        triples: Triples | None = None,
        embeddings: Any = None,
        name_embeddings: NameVectors | None = None,
    ) -> GraphIndex:
        """A new index with passages added at the end, its graph equal to the bit to that of all passages built at once.

        The ids must be new, `triples` and `embeddings` are of the new passages; the latter are needed exactly where the
        index has embeddings. `name_embeddings` of new names are as for :meth:`NameSynonyms.of`, where the index has
        synonyms: one that was built with a callable goes on with that; after loading, it has to be given again once.
        """
        new = tuple(read_passages(passages))
        clash = next((name for name, _, _ in new if name in self.found), None)
        if clash is not None:
            raise InvalidInputError(f"passage {clash!r} is already in the index")
        given = by_passage(triples, {name: None for name, _, _ in new})
        vectors = self._joined(embeddings, len(new))
        return self._changed((*self.rows, *new), new, (), {**self.given, **given}, vectors, name_embeddings)

    def remove(self, ids: Iterable[str], *, name_embeddings: NameVectors | None = None) -> GraphIndex:
        """A new index without these passages, its graph equal to the bit to that of the others built at once.

        At least one passage stays. `name_embeddings` as for :meth:`add`: without a title, other names may be found
        where it stood.
        """
        gone = dict.fromkeys(check_names("ids", ids))
        unknown = next((name for name in gone if name not in self.found), None)
        if unknown is not None:
            raise InvalidInputError(f"passage {unknown!r} is not in the index")
        rows = tuple(row for row in self.rows if row[0] not in gone)
        if not rows:
            raise InvalidInputError("an index keeps at least one passage: not all of them can be removed")
        vectors = self.graph.embeddings
        if vectors is not None:
            vectors = vectors[[row for row, one in enumerate(self.rows) if one[0] not in gone]]
        given = {name: records for name, records in self.given.items() if name not in gone}
        went = [row for row in self.rows if row[0] in gone]
        return self._changed(rows, (), went, given, vectors, name_embeddings)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Save graph, passages and records in one step; :func:`~phasegraph.graph.load_graph` reads the graph of it."""
        body, arrays = graph_parts(self.graph)
        lines = [json.dumps(self._line(row), ensure_ascii=True) for row in self.rows]
        arrays |= packed("records", lines)
        body["gazetteer"] = sorted(self.gazetteer)
        if self.synonyms is not None:
            body["synonyms"], vectors = synonym_parts(self.synonyms)
            arrays |= vectors
        write_bundle(directory, KIND, VERSION, body, arrays)

    @classmethod
    def load(cls, directory: str | os.PathLike[str], *, mmap: bool = True) -> GraphIndex:
        """Load what :meth:`save` wrote; IntegrityError where it is damaged, or a graph without its passages."""
        body, arrays = read_bundle(directory, KIND, VERSION, mmap=mmap)
        name = Path(directory).name
        if "records_text" not in arrays:
            raise IntegrityError(f"{name}: this is a graph alone, saved without the passages that an index needs")
        graph = graph_from_parts(body, arrays, name)
        try:
            lines = [json.loads(line) for line in unpacked("records", arrays)]
            rows = tuple((one["id"], one["title"], one["text"]) for one in lines)
            found = {one["id"]: _record(one["id"], one["found"]) for one in lines}
            given = {
                one["id"]: tuple(_record(one["id"], each) for each in one["given"]) for one in lines if one["given"]
            }
            names = frozenset(map(str, body["gazetteer"]))  # type: ignore[call-overload]
            return cls(rows, found, given, names, graph, synonyms_from_parts(body.get("synonyms"), arrays))
        except (KeyError, TypeError, ValueError) as error:
            raise IntegrityError(f"{name}: the records of the saved index do not fit: {error}") from error

    def _line(self, row: Row) -> dict[str, object]:
        name, title, text = row
        found, *given = ({key: getattr(one, key) for key in _FIELDS} for one in self._records_of(name))
        return {"id": name, "title": title, "text": text, "found": found, "given": given}

    def _records_of(self, name: str) -> tuple[Extraction, ...]:
        return (self.found[name], *self.given.get(name, ()))

    @cached_property
    def _forms(self) -> Counter[str]:
        """How many titles give each name."""
        return Counter(form for _, title, _ in self.rows if title for form in title_names(title))

    @cached_property
    def _words(self) -> dict[str, list[str]]:
        """Each passage's words, in lower case."""
        return _split(self.rows)

    def _changed(
        self,
        rows: tuple[Row, ...],
        came: Sequence[Row],
        gone: Sequence[Row],
        given: Mapping[str, tuple[Extraction, ...]],
        vectors: Any,
        name_embeddings: NameVectors | None,
    ) -> GraphIndex:
        if self.synonyms is None and name_embeddings is not None:
            raise InvalidInputError("name_embeddings= is for an index with synonyms; this one has none")
        forms = self._forms.copy()
        forms.update(form for _, title, _ in came if title for form in title_names(title))
        forms.subtract(form for _, title, _ in gone if title for form in title_names(title))
        forms += Counter()
        left = {name for name, _, _ in gone}
        # Passages in which a name that came or went stands as words are read again.
        wanted = Gazetteer((set(forms) ^ set(self._forms)) - self.gazetteer, normalised=True)
        touched = [name for name, texts in self._words.items() if name not in left and wanted.stands_in(texts)]
        again = [*came, *(row for row in self.rows if row[0] in touched)]
        known = {name: texts for name, texts in self._words.items() if name not in left} | _split(came)
        words = {word for name, _, _ in again for word in known[name]}
        extract = RuleExtractor(name for name in {*self.gazetteer, *forms} if name.partition(" ")[0] in words)
        fresh = {row[0]: extract(*row) for row in again}
        found = {name: fresh.get(name) or self.found[name] for name, _, _ in rows}
        dropped = [*touched, *(name for name, _, _ in gone)]
        graph = replace_passages(
            self.graph if self.synonyms is None else replace(self.graph, synonyms=None),
            [name for name, _, _ in rows],
            before={name: self._records_of(name) for name in dropped},
            after={name: (record, *given.get(name, ())) for name, record in fresh.items()},
            embeddings=vectors,
            texts=dict(zip((name for name, _, _ in came), texts_of(came), strict=True)),
        )
        synonyms = self.synonyms
        if self.synonyms is not None:
            synonyms = self.synonyms.knowing(graph.entities, name_embeddings)
            graph = replace(graph, synonyms=synonyms.edges(graph.entities, graph=self.graph, earlier=self.synonyms))
        changed = GraphIndex(rows, found, given, self.gazetteer, graph, synonyms)
        object.__setattr__(changed, "_words", known)
        object.__setattr__(changed, "_forms", forms)
        return changed

    def _joined(self, embeddings: Any, count: int) -> Any:
        old = self.graph.embeddings
        if (old is None) != (embeddings is None):
            said = "has none" if old is None else "has them"
            raise InvalidInputError(f"embeddings= must be given exactly where the index has embeddings; it {said}")
        if old is None:
            return None
        new = np.asarray(embeddings)
        if new.shape != (count, old.shape[1]):
            raise InvalidInputError(f"embeddings must have shape {(count, old.shape[1])}; got {new.shape}")
        return np.concatenate([old, checked_embeddings("embeddings", new, count)])


def _split(rows: Iterable[Row]) -> dict[str, list[str]]:
    """Words of each text, in lower case."""
    return {name: split_words(text).texts for name, _, text in rows}


def _record(name: str, state: Mapping[str, Any]) -> Extraction:
    return Extraction(name, *(state[key] for key in _FIELDS))
