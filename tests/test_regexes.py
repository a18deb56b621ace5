"""No regular expression of the product takes more than linear time, whatever text it is given.

Every expression is found in the source, parsed by Python's own parser and matched by a small backtracking matcher that
counts its steps, as Python's does them, over texts that repeat what the expression is made of. Twice the text may cost
about twice the steps.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import re
import re._constants as sre
import re._parser as parser
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
TREES = [
    ROOT / "src",
    ROOT / "integrations" / "langchain-phasegraph",
    ROOT / "integrations" / "llama-index-retrievers-phasegraph",
]
FUNCTIONS = {"compile", "search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn"}
LENGTH, MOST, ENOUGH = 20, 2.9, 50_000
# Expressions made at run time, and what they are like: `file:function` to a sample.
MADE = {
    "tokenizers.py:places_of": ["東京"],
    "tokenizers.py:_with_marks": ["\\w[\\w\u0301\u093f]+"],
    "routing.py:__init__": [r"(?<!\w)who\ is(?!\w)"],
    "routing.py:_named": [r"(?<!\w)graph(?!\w)"],
    "own_questions.py:_written": [r"(?<!\w)victoria[ -]falls(?!\w)"],
    "_support/text.py:_many_marks": ["[\u0301\u0316]{30}(?=[\u0301\u0316])"],
}


def expressions() -> Iterator[tuple[str, str, int, bool]]:
    """Where each expression stands, itself, its flags, and whether it is tried at one place alone."""
    for tree in TREES:
        for file in sorted(tree.rglob("*.py")):
            if {"tests", ".venv", "build"} & set(file.relative_to(tree).parts) or file.stem.endswith("_suite"):
                continue
            text = file.read_text(encoding="utf-8")
            if "import re\n" not in text:
                continue
            name = ".".join(file.relative_to(tree).with_suffix("").parts).removesuffix(".__init__")
            module = importlib.import_module(name)
            tree_of_file = ast.parse(text)
            for function, call in calls(tree_of_file):
                anchored = is_anchored(call, tree_of_file, text)
                made = f"{file.name}:{function}"
                try:
                    yield f"{name}:{call.lineno}", *evaluated(call, module), anchored
                except NameError:
                    assert made in MADE, f"{made}: {ast.unparse(call)} is made at run time; add samples of it to MADE"
                    for number, sample in enumerate(MADE[made]):
                        yield f"{name}:{call.lineno}.{number}", sample, 0, anchored


def is_anchored(call: ast.Call, tree: ast.AST, text: str) -> bool:
    """Whether the expression is only ever matched from one place, by `match` or `fullmatch`."""
    assert isinstance(call.func, ast.Attribute)
    used = {call.func.attr}
    for node in ast.walk(tree) if used == {"compile"} else ():
        if isinstance(node, ast.Assign) and node.value is call and isinstance(node.targets[0], ast.Name):
            used = set(re.findall(rf"\b{node.targets[0].id}\.(\w+)", text))
    return bool(used) and used <= {"match", "fullmatch"}


def calls(tree: ast.AST, function: str = "") -> Iterator[tuple[str, ast.Call]]:
    """Calls of `re`, with the function they stand in."""
    for node in ast.iter_child_nodes(tree):
        inside = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in FUNCTIONS
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
        ):
            yield function, node
        yield from calls(node, inside)


def evaluated(call: ast.Call, module: ModuleType) -> tuple[str, int]:
    """The expression as the module's own names make it, and its flags."""

    def value(node: ast.expr) -> Any:
        return eval(compile(ast.Expression(node), "<expression>", "eval"), vars(module))  # noqa: S307 - our own source

    pattern = value(call.args[0])
    rest = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
    flags = [value(one) for one in rest if ast.unparse(one).startswith("re.")]
    return pattern, int(flags[0]) if flags else 0


FOUND = sorted(set(expressions()))


class Counting:
    """A backtracking matcher over a parsed expression, which counts the characters it looks at."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.tree = parser.parse(pattern, flags)
        self.flags = self.tree.state.flags
        self.steps = 0
        self.units: dict[tuple[int, str, Any], bool] = {}

    def run(self, text: str, anchored: bool) -> int:
        """Steps of finding every match in the text, from left to right; or one from its start on."""
        self.text, self.steps, start = text, 0, 0
        while start <= (0 if anchored else len(text)) and self.steps < ENOUGH:
            self.steps += 1
            end = self.match(list(self.tree), start, lambda place: place)
            start = start + 1 if end is None else max(end, start + 1)
        return self.steps

    def match(self, items: list[Any], place: int, then: Callable[[int], int | None]) -> int | None:
        if not items:
            return then(place)
        (kind, value), rest = items[0], items[1:]
        self.steps += 1
        if self.steps > ENOUGH:
            return None

        def go(here: int) -> int | None:
            return self.match(rest, here, then)

        if kind in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN, sre.CATEGORY):
            return go(place + 1) if self.one(kind, value, place) else None
        if kind is sre.SUBPATTERN:
            return self.match(list(value[-1]), place, go)
        if kind is sre.BRANCH:
            for branch in value[1]:
                end = self.match(list(branch), place, go)
                if end is not None:
                    return end
            return None
        if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            least, most, body = value
            return self.repeat(list(body), int(least), int(most), place, go, lazy=kind is sre.MIN_REPEAT)
        if kind in (sre.ASSERT, sre.ASSERT_NOT):
            direction, body = value
            here = place if direction > 0 else place - 1  # those that look behind are one character wide
            found = here >= 0 and self.match(list(body), here, lambda end: end) is not None
            return go(place) if found == (kind is sre.ASSERT) else None
        assert kind is sre.AT, f"{kind} is not known here"
        return go(place) if self.at(value, place) else None

    def one(self, kind: Any, value: Any, place: int) -> bool:
        if place >= len(self.text):
            return False
        key = (value if isinstance(value, int) else id(value)), self.text[place], kind
        if key not in self.units:
            tree = parser.SubPattern(self.tree.state, [(kind, value)])
            self.units[key] = compiled(tree, self.flags).match(self.text[place]) is not None
        return self.units[key]

    def at(self, value: Any, place: int) -> bool:
        text = self.text
        if value in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING):
            return place == 0
        if value is sre.AT_END:
            return place == len(text) or (place == len(text) - 1 and text[-1] == "\n")
        if value is sre.AT_END_STRING:
            return place == len(text)
        assert value in (sre.AT_BOUNDARY, sre.AT_NON_BOUNDARY)
        sides = [0 <= here < len(text) and (text[here].isalnum() or text[here] == "_") for here in (place - 1, place)]
        return (sides[0] != sides[1]) == (value is sre.AT_BOUNDARY)

    def repeat(
        self, body: list[Any], least: int, most: int, place: int, go: Callable[[int], int | None], *, lazy: bool
    ) -> int | None:
        """As Python does it: a single character is counted first and given back, anything else goes by recursion."""
        if len(body) == 1 and body[0][0] in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            end = place
            while end - place < most and self.one(*body[0], end):
                end += 1
                self.steps += 1
            places = range(end, place + least - 1, -1)
            for here in reversed(places) if lazy else places:
                self.steps += 1
                found = go(here)
                if found is not None:
                    return found
            return None

        def again(count: int, here: int) -> int | None:
            def more(end: int) -> int | None:
                return None if end == here else again(count + 1, end)

            ways = [lambda: self.match(body, here, more) if count < most else None]
            if count >= least:
                ways.append(lambda: go(here))
            for way in reversed(ways) if lazy and len(ways) > 1 else ways:
                found = way()
                if found is not None:
                    return found
            return None

        return again(0, place)


def compiled(tree: Any, flags: int) -> re.Pattern[str]:
    import re._compiler as compiler

    made: re.Pattern[str] = compiler.compile(tree, flags)
    return made


def alphabet(items: Any) -> Iterator[str]:
    """A character that each part of the expression takes, and the words it spells."""
    word = ""
    for kind, value in items:
        if kind is sre.LITERAL:
            word += chr(value)
            yield chr(value)
            continue
        if len(word) > 1:
            yield word
        word = ""
        if kind is sre.IN:
            for sort, one in value:
                if sort is sre.LITERAL:
                    yield chr(one)
                elif sort is sre.RANGE:
                    yield chr(one[0])
                elif sort is sre.CATEGORY:
                    yield {"DIGIT": "7", "SPACE": " ", "WORD": "w"}.get(str(one).rpartition("_")[2], "w")
        elif kind is sre.BRANCH:
            for branch in value[1]:
                yield from alphabet(branch)
        elif kind in (sre.SUBPATTERN, sre.MAX_REPEAT, sre.MIN_REPEAT, sre.ASSERT, sre.ASSERT_NOT):
            yield from alphabet(value[-1])
    if len(word) > 1:
        yield word


def attacks(tree: Any) -> list[tuple[str, str, str]]:
    """What comes first, what is repeated, and what comes last."""
    parts = list(dict.fromkeys([*alphabet(tree), " ", "a", "!"]))[:8]
    pumps = [*parts, *map("".join, itertools.permutations(parts, 2))]
    heads = ["", *(one for one in parts if not one.isalnum() or len(one) > 1)][:2]
    return [(head, pump, tail) for pump in pumps for head in heads for tail in ("", "\x00")]


@pytest.mark.parametrize(("where", "pattern", "flags", "anchored"), FOUND, ids=[one[0] for one in FOUND])
def test_twice_the_text_takes_twice_the_steps(where: str, pattern: str, flags: int, anchored: bool) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        counting = Counting(pattern, flags)
        for head, pump, tail in attacks(counting.tree):
            once, twice = (counting.run(head + pump * count + tail, anchored) for count in (LENGTH, 2 * LENGTH))
            assert twice <= min(MOST * once + 40, ENOUGH), (
                f"{once} and {twice} steps for {head!r} + {pump!r} repeated + {tail!r}"
            )
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize("pattern", [r"\s*\([^()]*\)\s*$", r"<think>.*?</think>", r"“([^”]+)”", r"(a+)+$", r"\d+\.\d+"])
def test_what_is_not_linear_is_found(pattern: str) -> None:
    with pytest.raises(AssertionError, match="steps for"):
        test_twice_the_text_takes_twice_the_steps("", pattern, int(re.DOTALL), False)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [(r"a*b|c+", "aaabcc aab"), (r"(?<!\w)x+?y(?!\w)", "xxy zxy xy"), (r"\bw{2,3}\b", "ww wwww www")],
)
def test_the_counting_matcher_finds_what_python_finds(pattern: str, text: str) -> None:
    counting = Counting(pattern, 0)
    counting.text = text
    ends = {start: counting.match(list(counting.tree), start, lambda place: place) for start in range(len(text))}
    expected = {
        start: found and found.end() for start in range(len(text)) for found in [re.compile(pattern).match(text, start)]
    }
    assert ends == expected


def test_the_expressions_of_all_rooms_are_found() -> None:
    assert len(FOUND) > 30
