"""Judged questions over a user's files: read from a file, or made from the files where the user has none yet."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from phasegraph.evaluation.datasets import Judgement, Passage, Query, id_list, objects_of, queries_of, wrong
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.lexical import TOKENIZERS

WORDS, CHARACTERS = 6, 18
"""Words of a known-item question; characters where a passage is Chinese or Japanese."""
_CJK = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_COMMON = 0.02
"""A name in more than this share of the passages (and in more than five) says too little to ask about."""


def known_item(text: str, rng: np.random.Generator) -> str | None:
    """Six words of a text in their order, or 18 characters in a row of a Chinese or Japanese text.

    Parameters
    ----------
    text : str
    rng : numpy.random.Generator

    Returns
    -------
    str or None
        None where the text has fewer than 18 words, or no such run of characters.

    Examples
    --------
    >>> text = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen " * 2
    >>> len(known_item(text, np.random.default_rng(0)).split())
    6
    """
    if len(_CJK.findall(text)) > len(text) / 4:
        runs = re.findall(rf"[^。、\s]{{{CHARACTERS},}}", text)
        if not runs:
            return None
        run = runs[int(rng.integers(len(runs)))]
        start = int(rng.integers(len(run) - CHARACTERS + 1))
        return str(run[start : start + CHARACTERS])
    words = TOKENIZERS["english"](text)
    if len(words) < 3 * WORDS:
        return None
    places = np.sort(rng.choice(len(words), WORDS, replace=False))
    return " ".join(words[place] for place in places.tolist())


def known_items(passages: Sequence[Passage], count: int, seed: int = 0) -> list[Query]:
    """Known-item questions: each is some words of one passage, and that passage is the answer.

    Parameters
    ----------
    passages : sequence of Passage
    count : int
        At most so many; fewer where too few passages are long enough.
    seed : int, default 0

    Returns
    -------
    list of Query
        Under ``extra``: ``kind``, here ``"known-item"``.
    """
    rng, made = np.random.default_rng(seed), list[Query]()
    for row in rng.permutation(len(passages)).tolist():
        text = known_item(passages[row].text, rng) if len(made) < count else None
        if text is not None:
            made.append(_query(f"known-{len(made) + 1}", text, "known-item", [passages[row].id]))
    return made


def two_part(passages: Sequence[Passage], graph: EntityGraph, count: int, seed: int = 0) -> list[Query]:
    """Two-part questions: three words of each of two passages that share a rare name; both passages are the answer.

    The name itself is not in the question. Parameters and result are those of :func:`known_items`, and `graph` is the
    entity graph of the passages.
    """
    rng, made, used = np.random.default_rng(seed), list[Query](), set[str]()
    by_id = {passage.id: passage for passage in passages}
    for column in _rare(graph, rng):
        if len(made) == count:
            break
        holders = (by_id[graph.passages[row]] for row in _holders(graph, column))
        pair = _apart([passage for passage in holders if passage.id not in used])
        if len(pair) < 2:
            continue
        hidden = set(graph.entities[column].split())
        halves = [_words(passage.text, hidden, rng) for passage in pair]
        if all(halves):
            used.update(passage.id for passage in pair)
            text = " ".join(word for half in halves for word in half)
            made.append(_query(f"two-part-{len(made) + 1}", text, "two-part", [passage.id for passage in pair]))
    return made


def starters(passages: Sequence[Passage], graph: EntityGraph, count: int = 8, seed: int = 0) -> list[str]:
    """Readable questions to begin with: about a name, and about two names that a third one connects.

    They have no judged answer.

    Parameters
    ----------
    passages : sequence of Passage
    graph : EntityGraph
        The entity graph of the passages.
    count : int, default 8
    seed : int, default 0

    Returns
    -------
    list of str
    """
    rng = np.random.default_rng(seed)
    by_id = {passage.id: passage for passage in passages}
    seen, made = set[str](), list[str]()
    for column in _rare(graph, rng):
        if len(made) >= count:
            break
        pair = _apart([by_id[graph.passages[row]] for row in _holders(graph, column)])
        one = _name_beside(graph, pair[0], pair[1], seen)
        other = _name_beside(graph, pair[1], pair[0], seen)
        if one and other and len(made) % 2 == 0:
            made.append(f"What has {one} to do with {other}?")
            seen.update((one.lower(), other.lower()))
            continue
        name = _written(graph.entities[column], pair[0].content)
        if name and name.lower() not in seen:
            made.append(f"What is {name}?")
            seen.add(name.lower())
    return made


QUOTES, PAGES = "quotes", "pages"
_BY_IDS = ("relevant", "grades", "hops", "spans", "gold_spans")


def read_questions(path: str | Path, passages: Sequence[Passage]) -> tuple[Query, ...]:
    """Read the questions of a user, each judged by passage ids, by quotes, or by whole files.

    Parameters
    ----------
    path : path
        A JSONL file: per line ``question``, and ``quotes`` (sentences of the files that answer it), ``pages`` (names of
        files, each of which answers it by any passage), or ids as :func:`phasegraph.evaluation.evaluate` reads them
        (``relevant``, ``hops``).
    passages : sequence of Passage

    Returns
    -------
    tuple of Query

    Raises
    ------
    InvalidInputError
        If a line has none of these fields, no passage has a quote, or no file or passage has a name.
    """
    file = Path(path)
    texts = {passage.id: _plain(passage.content) for passage in passages}
    by_page: dict[str, list[str]] = {}
    for passage in passages:
        by_page.setdefault(str(passage.extra.get("source", "")), []).append(passage.id)
    rows = []
    for line, row in objects_of(file):
        if not any(key in row for key in _BY_IDS):
            hops = _hops_of(file, line, row, texts, by_page)
            named = {"hops": [hop[0] for hop in hops], "hop_alternatives": hops, "last_hop_known": False}
            row = {key: value for key, value in row.items() if key not in (QUOTES, PAGES)} | named
        rows.append((line, row))
    return tuple(query for query in queries_of(file, rows, passages) if query.judgement.hops)


def _hops_of(
    file: Path, line: int, row: Mapping[str, object], texts: Mapping[str, str], by_page: Mapping[str, list[str]]
) -> list[list[str]]:
    """For each quote and each file of a line: the ids of its passages."""
    hops = []
    quoted, pages = row.get(QUOTES), row.get(PAGES)
    listed = [quoted] if isinstance(quoted, str) else quoted
    for quote in [] if listed is None else id_list(file, line, listed, QUOTES):
        held = [name for name, text in texts.items() if _plain(quote) in text]
        if not held:
            raise wrong(file, line, f"no passage holds the quote {quote!r:.80}; give a sentence as the file has it")
        hops.append(held)
    for page in [] if pages is None else id_list(file, line, pages, PAGES):
        if page not in by_page:
            raise wrong(file, line, f"no file that was read is named {page!r}")
        hops.append(by_page[page])
    if not hops:
        fields = ", ".join(map(repr, (QUOTES, PAGES, "relevant", "hops")))
        raise wrong(file, line, f"a question needs one of {fields}, which say where its answer is")
    return hops


def _plain(text: str) -> str:
    """Lower case, and single spaces between words."""
    return " ".join(text.lower().split())


def _query(name: str, text: str, kind: str, hops: list[str]) -> Query:
    judgement = Judgement(name, tuple((hop,) for hop in hops), last_hop_known=False)
    return Query(name, text, judgement, {"kind": kind})


def _counts(graph: EntityGraph) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """(E,) array: how many passages mention each entity."""
    return np.bincount(graph.mentions.indices, minlength=len(graph.entities))


def _rare(graph: EntityGraph, rng: np.random.Generator) -> list[int]:
    """Columns of names in at least two passages and not in many, in random order; names of several words first."""
    counts = _counts(graph)
    rows = np.flatnonzero((counts >= 2) & (counts <= max(5, _COMMON * len(graph.passages))))
    several = np.array([" " in graph.entities[row] for row in rows.tolist()], dtype=bool)
    shuffled = rng.permutation(len(rows))
    order = np.concatenate([shuffled[several[shuffled]], shuffled[~several[shuffled]]]) if len(rows) else shuffled
    return [int(row) for row in rows[order]]


def _holders(graph: EntityGraph, column: int) -> list[int]:
    """Rows of the passages that mention an entity."""
    return [int(row) for row in np.unique(graph.mentions[:, [column]].tocoo().row)]


def _words(text: str, hidden: set[str], rng: np.random.Generator) -> list[str]:
    """Three words of a text in their order, none of them hidden; none where there are too few."""
    words = [word for word in dict.fromkeys(TOKENIZERS["english"](text)) if word not in hidden]
    if len(words) < WORDS:
        return []
    return [words[place] for place in np.sort(rng.choice(len(words), WORDS // 2, replace=False)).tolist()]


def _apart(passages: list[Passage]) -> list[Passage]:
    """Two of the passages, of different documents where there are such; fewer where there are fewer."""
    first = passages[0].extra.get("source") if passages else None
    other = next((one for one in passages[1:] if one.extra.get("source") != first), None)
    return [*passages[:1], other] if other is not None else passages[:2]


def _name_beside(graph: EntityGraph, passage: Passage, other: Passage, seen: set[str]) -> str:
    """A name of several words that one passage mentions and the other does not, as the text writes it; else ""."""
    own, theirs = (set(graph.mentions[[graph.passage_rows[one.id]]].indices.tolist()) for one in (passage, other))
    for column in sorted(own - theirs):
        written = _written(graph.entities[column], passage.content)
        if " " in written and written.lower() not in seen:
            return written
    return ""


def _written(name: str, text: str) -> str:
    """A normalised name as a text writes it; "" where the text breaks it off or writes it in another way."""
    found = re.search(rf"(?<!\w){r'[ -]'.join(map(re.escape, name.split()))}(?!\w)", text, re.IGNORECASE)
    return found[0] if found and len(found[0]) > 3 else ""
