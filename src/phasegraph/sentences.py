"""Explain an answer in plain words: the rank of a passage in each source, its path, and the reason for its position."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from phasegraph._support.text import legible

AGREES = 10
"""Maximum rank, counted from 1, at which a source counts as agreeing that a passage belongs in the answer."""
LABEL = 60
"""Maximum number of characters of a label that is made from a passage's text, because the passage has no title."""
_SPOKEN = MappingProxyType({"vector": "vectors", "graph": "the graph", "lexical": "words", "bm25": "words"})
_PLURAL = frozenset({"vectors", "words"})
_ABSENT = MappingProxyType({"words": "do not match it", "the graph": "does not reach it"})
ReadPassage = Callable[[str], tuple[str, str]]
"""A function from the id of a passage to its title and text; an unknown title or text is ""."""


def ordinal(rank: float) -> str:
    """Return a rank as an ordinal; a mean rank of ties is rounded up.

    >>> [ordinal(rank) for rank in (1, 2, 3, 11, 16, 22, 2.5)]
    ['1st', '2nd', '3rd', '11th', '16th', '22nd', '3rd']
    """
    number = int(rank + 0.5)
    endings = {1: "st", 2: "nd", 3: "rd"}  # codespell:ignore
    ending = "th" if number % 100 in (11, 12, 13) else endings.get(number % 10, "th")
    return f"{number}{ending}"


def label_of(name: str, title: str, text: str) -> str:
    """Return a label for the passage with id `name`: its title, else the first words of its text, else its id.

    >>> label_of("p1", "", "Ada met Bo.  She sang."), label_of("p1", "Ada", "Ada met Bo."), label_of("p1", "", "")
    ('Ada met Bo. She sang.', 'Ada', 'p1')
    """
    line = " ".join((title or text).split()) or name
    return line if title or len(line) <= LABEL else f"{line[: LABEL - 1].rstrip()}…"


def written(name: str, text: str) -> str:
    """Return a normalized entity name as a text spells it; "" if the text does not contain the name.

    Case does not matter, and a hyphen may replace a space.

    >>> written("victoria falls", "To the Victoria-Falls."), written("ada", "Adam met Eve.")
    ('Victoria-Falls', '')
    """
    found = re.search(rf"(?<!\w){r'[ -]'.join(map(re.escape, name.split()))}(?!\w)", text, re.IGNORECASE)
    return found[0] if found else ""


def path_labels(path: Sequence[Sequence[str]], read: ReadPassage) -> list[str]:
    """Return a label for each step (kind, name) of a graph path; entity names are spelled as in its passages.

    ``read(id)`` returns the title and the text of a passage.

    >>> texts = {"a": ("Bubye River", "It flows through Zimbabwe."), "b": ("Victoria Falls", "A waterfall.")}
    >>> path_labels([("entity", "bubye river"), ("passage", "a"), ("entity", "zimbabwe")], texts.__getitem__)
    ['Bubye River', 'Bubye River', 'Zimbabwe']
    """
    held = [read(name) for kind, name in path if kind == "passage"]
    text = "\n".join(part for pair in held for part in pair)
    return [label_of(name, *read(name)) if kind == "passage" else written(name, text) or name for kind, name in path]


def way_of(path: Sequence[Sequence[str]], labels: Sequence[str]) -> list[str]:
    """Return the labels of the first step and of the entities of a graph path; the final passage is left out.

    A path without entities, such as in a graph of chunks, keeps all passages except the final passage.

    >>> path = [("entity", "bubye river"), ("passage", "a"), ("entity", "zimbabwe"), ("passage", "b")]
    >>> way_of(path, ["Bubye River", "Bubye River", "Zimbabwe", "Victoria Falls"])
    ['Bubye River', 'Zimbabwe']
    >>> way_of(path[3:], ["Victoria Falls"]), way_of(path[:2], ["Bubye River", "Bubye River"])
    ([], [])
    """
    named = any(kind == "entity" for kind, _ in path)
    steps = [
        label
        for place, ((kind, _), label) in enumerate(zip(path[:-1], labels, strict=False))
        if kind == "entity" or place == 0 or not named
    ]
    steps = [one for place, one in enumerate(steps) if place == 0 or one.casefold() != steps[place - 1].casefold()]
    return [] if [one.casefold() for one in steps] == [one.casefold() for one in labels[-1:]] else steps


def standings(ranks: Mapping[str, float | None]) -> list[str]:
    """Return a text for each source that ranks a passage: the name of the source and the rank, best rank first.

    `ranks` maps source names to ranks; a source with rank None is left out.

    >>> standings({"vector": 16.0, "graph": 2.0, "bm25": None})
    ['graph 2nd', 'vector 16th']
    """
    known = sorted((rank, name) for name, rank in ranks.items() if rank is not None)
    return [f"{name} {ordinal(rank)}" for rank, name in known]


def line_of(position: int, label: str, ranks: Mapping[str, float | None], way: Sequence[str]) -> str:
    """Describe a passage of an answer in one line: its position, label, ranks and path.

    `ranks` maps source names to ranks; a source with rank None is left out. `way` are the labels of the passage's graph
    path, from :func:`way_of`; empty without a path.

    >>> line_of(2, "Victoria Falls", {"vector": 16.0, "graph": 2.0, "bm25": None}, ["Bubye River", "Zimbabwe"])
    '2 Victoria Falls: graph 2nd, vector 16th, by Bubye River → Zimbabwe'
    """
    said = standings(ranks) or ["no source ranks it"]
    said += [f"by {' → '.join(way)}"] if way else []
    return legible(f"{position} {label}: {', '.join(said)}")


def why(ranks: Mapping[str, float | None], contributions: Mapping[str, float | None], way: Sequence[str]) -> str:
    """Explain in one sentence which source found a passage of the answer, and how the other sources rank it.

    `ranks` and `contributions` map source names to numbers, or to None if the source did not return the passage. `way`
    are the labels of the passage's graph path, from :func:`way_of`; empty without a path. Sources that rank the passage
    among their first 10 agree. The agreeing source with the largest contribution counts as the source that found the
    passage.

    >>> why({"graph": 2.0, "vector": 16.0, "bm25": None}, {"graph": 2.1, "vector": 0.3}, ["Bubye River", "Zimbabwe"])
    'The graph found this by Bubye River → Zimbabwe; vectors rank it 16th; words do not match it.'
    >>> why({"graph": 1.0, "vector": 2.0, "bm25": 4.0}, {"graph": 2.1, "vector": 0.3, "bm25": 0.1}, [])
    'The graph found this; vectors and words agree.'
    """
    known = {name: rank for name, rank in ranks.items() if rank is not None}
    if not known:
        return "No source ranks this passage."
    lead = min(known, key=lambda name: (known[name] > AGREES, -(contributions.get(name) or 0.0), known[name], name))
    by = f" by {' → '.join(way)}" if way else ""
    spoken = {name: _SPOKEN.get(name, name) for name in ranks}
    if known[lead] <= AGREES:
        parts = [f"{spoken[lead]} found this{by * (lead == 'graph')}"]
    else:
        nearest = f"{spoken[lead]} {_verb('rank', lead)} it {ordinal(known[lead])}"
        parts = [f"no source has this in its first {AGREES}; {nearest}"]
    others = [name for name in ranks if name != lead]
    agree = [name for name in others if known.get(name, AGREES + 1) <= AGREES]
    if agree:
        sides = [f"{spoken[name]}{f' ({by[1:]})' * bool(by and name == 'graph')}" for name in agree]
        parts.append(f"{' and '.join(sides)} {'agree' if len(agree) > 1 else _verb('agree', agree[0])}")
    far = [name for name in others if name in known and name not in agree]
    if far:
        ranked = [f"{spoken[name]} {ordinal(known[name])}" for name in far[1:]]
        nearest = f"{spoken[far[0]]} {_verb('rank', far[0])} it {ordinal(known[far[0]])}"
        parts.append(" and ".join([nearest, *ranked]))
    parts += [f"{spoken[one]} {_ABSENT.get(spoken[one], 'did not return it')}" for one in others if one not in known]
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _verb(plural: str, source: str) -> str:
    return plural if _SPOKEN.get(source) in _PLURAL else f"{plural}s"


def tell(view: Mapping[str, Any]) -> dict[str, Any]:
    """Add a label and an explanation to each row of the output of :func:`phasegraph.result.view_of`.

    The new keys of a row are ``label``, ``way`` (the shortened path, see :func:`way_of`) and ``why`` (see :func:`why`).
    A row with a graph path also gets ``walk["labels"]``, a label for each step of the path.
    """

    def read(name: str) -> tuple[str, str]:
        held = view["passages"].get(name, {"title": "", "text": ""})
        return held["title"], held["text"]

    rows = []
    for row in view["rows"]:
        labels = [] if row["walk"] is None else path_labels(row["walk"]["path"], read)
        ranks = {one["name"]: row["sources"].get(one["name"], {}).get("rank") for one in view["sources"]}
        parts = {name: one["contribution"] for name, one in row["sources"].items()}
        way = [] if row["walk"] is None else way_of(row["walk"]["path"], labels)
        told = {"label": label_of(row["id"], *read(row["id"])), "way": way, "why": why(ranks, parts, way)}
        rows.append({**row, **told, "walk": row["walk"] and {**row["walk"], "labels": labels}})
    return {**view, "rows": rows}
