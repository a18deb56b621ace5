"""Judged questions from words of a user's passages, for ``try --compare``."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from phasegraph.evaluation.corpus_files import Passage
from phasegraph.evaluation.judgements import Judgement
from phasegraph.evaluation.query_files import Query
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.lexical import TOKENIZERS

WORDS, CHARACTERS = 6, 18
"""The length of a known-item question: in words, or in characters if the passage is Chinese or Japanese."""
_CJK = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_COMMON = 0.02
"""Maximum share of passages that may contain a name used for a question (five passages are always allowed)."""


def known_item(text: str, rng: np.random.Generator) -> str | None:
    """Draw six words of a text in their order, or 18 consecutive characters of a Chinese or Japanese text.

    Parameters
    ----------
    text : str
        The text of a passage.
    rng : numpy.random.Generator
        The generator that chooses the words or the position.

    Returns
    -------
    str or None
        The question. None if the text has fewer than 18 words, or no 18 consecutive characters without punctuation.

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
    """Generate known-item questions; a question consists of words of a single passage, which is its answer.

    Parameters
    ----------
    passages : sequence of Passage
        The passages from which the questions are drawn.
    count : int
        Maximum number of questions; the result is shorter if too few passages are long enough.
    seed : int, default 0
        Seed of the sampling.

    Returns
    -------
    list of Query
        Each query has ``extra["kind"] == "known-item"``.
    """
    rng, made = np.random.default_rng(seed), list[Query]()
    for row in rng.permutation(len(passages)).tolist():
        text = known_item(passages[row].text, rng) if len(made) < count else None
        if text is not None:
            made.append(_query(f"known-{len(made) + 1}", text, "known-item", [passages[row].id]))
    return made


def two_part(passages: Sequence[Passage], graph: EntityGraph, count: int, seed: int = 0) -> list[Query]:
    """Generate two-part questions; a question consists of three words of one passage and three words of another.

    The two passages share a rare name, which the question does not contain. Both passages together answer the question.
    `graph` is the entity graph of the passages. The other parameters and the result are as in :func:`known_items`.
    """
    rng, made, used = np.random.default_rng(seed), list[Query](), set[str]()
    by_id = {passage.id: passage for passage in passages}
    for column in rare_names(graph, rng):
        if len(made) == count:
            break
        held = (by_id[graph.passages[row]] for row in holders(graph, column))
        pair = apart([passage for passage in held if passage.id not in used])
        if len(pair) < 2:
            continue
        hidden = set(graph.entities[column].split())
        halves = [_words(passage.text, hidden, rng) for passage in pair]
        if all(halves):
            used.update(passage.id for passage in pair)
            text = " ".join(word for half in halves for word in half)
            made.append(_query(f"two-part-{len(made) + 1}", text, "two-part", [passage.id for passage in pair]))
    return made


def _query(name: str, text: str, kind: str, hops: list[str]) -> Query:
    judgement = Judgement(name, tuple((hop,) for hop in hops), last_hop_known=False)
    return Query(name, text, judgement, {"kind": kind})


def _counts(graph: EntityGraph) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Count the passages that mention each entity, as an array of shape (E,)."""
    return np.bincount(graph.mentions.indices, minlength=len(graph.entities))


def rare_names(graph: EntityGraph, rng: np.random.Generator) -> list[int]:
    """Return the entities that only a few passages (but at least two) mention, in random order, as column numbers.

    Entities with names of several words come first.
    """
    counts = _counts(graph)
    rows = np.flatnonzero((counts >= 2) & (counts <= max(5, _COMMON * len(graph.passages))))
    several = np.array([" " in graph.entities[row] for row in rows.tolist()], dtype=bool)
    shuffled = rng.permutation(len(rows))
    order = np.concatenate([shuffled[several[shuffled]], shuffled[~several[shuffled]]]) if len(rows) else shuffled
    return [int(row) for row in rows[order]]


def holders(graph: EntityGraph, column: int) -> list[int]:
    """Return the row numbers of the passages that mention an entity; `column` is the entity's column number."""
    return [int(row) for row in np.unique(graph.mentions[:, [column]].tocoo().row)]


def _words(text: str, hidden: set[str], rng: np.random.Generator) -> list[str]:
    """Draw three words of a text in their order, except words in `hidden`; empty if the text has too few words."""
    words = [word for word in dict.fromkeys(TOKENIZERS["english"](text)) if word not in hidden]
    if len(words) < WORDS:
        return []
    return [words[place] for place in np.sort(rng.choice(len(words), WORDS // 2, replace=False)).tolist()]


def apart(passages: list[Passage]) -> list[Passage]:
    """Return two of the given passages, from different documents if possible; all if fewer than two are given."""
    first = passages[0].extra.get("source") if passages else None
    other = next((one for one in passages[1:] if one.extra.get("source") != first), None)
    return [*passages[:1], other] if other is not None else passages[:2]
