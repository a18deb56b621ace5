"""Make a corpus of any size from real passages: names with a Zipf-like distribution, unique titles, real links.

    python tools/scale/corpus.py 1000000 FOLDER [--data DIR ...]

Real passages are repeated with changed names. In each copy, the names in titles get the copy's own ending, in titles
and texts alike; so a passage links to the same passages of its copy as the real passage does. All other names get the
ending of a copy that is drawn by Zipf's law. So a few names occur in very many passages, and most names in few.
Embeddings are those of the real passages, shifted by copy and by passage. Everything is determined by the numbers of
the copy and the passage, so a larger corpus begins with the smaller one.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from phasegraph.graph.model.words import STOP_WORDS

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"
BUNDLED = ROOT / "data" / "musique-openie"
_RUN = re.compile(r"[A-Z][a-z]{2,}(?:[ -][A-Z][a-z]{2,})*")
_WORD = re.compile(r"[A-Z][a-z]{2,}")
COMMON = 0.005
"""Share of the passages from which on a capitalised word is no name of a title's own."""
POWER, OFFSET, NOISE = 1.3, 0.6, 0.5
"""Of Zipf's law, and the lengths of the shifts of a copy and of a passage, those of embeddings being 1."""


def default_data() -> list[Path]:
    """Return folders of real passages: the shared folders if they exist, otherwise those of the repository."""
    shared = [SHARED / name for name in ("2wiki", "musique")]
    return shared if all(one.is_dir() for one in shared) else [BUNDLED]


class ZipfCorpus:
    """The passages, questions and embeddings of a corpus of any size, from real passages with changed names.

    The docstring of the module explains how names are changed.
    """

    def __init__(self, folders: list[Path] | None = None) -> None:
        self.folders = default_data() if folders is None else folders
        self.base = [json.loads(line) for each in self.folders for line in (each / "corpus.jsonl").open()]
        self.queries = [json.loads(line) for each in self.folders for line in (each / "queries.jsonl").open()]

    @cached_property
    def _names(self) -> tuple[frozenset[str], dict[str, int]]:
        """Return the words that occur in titles, and a number for every other sequence of capitalized words."""
        found: Counter[str] = Counter()
        for one in self.base:
            found.update(set(_WORD.findall(one["text"])))
        most = COMMON * len(self.base)
        own = frozenset(
            word
            for one in self.base
            for word in _WORD.findall(one["title"])
            if found[word] <= most and word.lower() not in STOP_WORDS
        )
        runs = dict.fromkeys(run for one in self.base for run in _RUN.findall(one["text"]))
        return own, {run: number for number, run in enumerate(runs)}

    def _renamer(self, copy: int) -> Any:
        own, runs = self._names
        drawn = np.random.default_rng((copy, 1)).zipf(POWER, len(runs)) - 1
        ending = _ending(copy)
        made: dict[str, str] = {}

        def renamed(found: re.Match[str], *, title: bool = False) -> str:
            run = found[0]
            if title or run not in made:
                words = _WORD.findall(run)
                number = copy if title or any(word in own for word in words) else 0
                if not number and run in runs:
                    number = int(drawn[runs[run]]) if drawn[runs[run]] <= copy else 0
                end = _ending(number) if number != copy else ending
                text = _WORD.sub(lambda one: one[0] if one[0].lower() in STOP_WORDS else one[0] + end, run)
                if title:
                    return text
                made[run] = text
            return made[run]

        return renamed

    def rows(self, count: int, first: int = 0) -> Iterator[dict[str, str]]:
        """Yield the passages `first` to `count` - 1."""
        renamed, at = None, -1
        for number in range(first, count):
            copy, place = divmod(number, len(self.base))
            if copy != at:
                renamed, at = self._renamer(copy), copy
            one = self.base[place]
            title, text = one["title"], one["text"]
            if copy:
                title = _RUN.sub(lambda found: renamed(found, title=True), title)  # noqa: B023
                title = title if title != one["title"] else f"{title} {_ending(copy)}"
                text = _RUN.sub(renamed, text)
            yield {"id": f"{copy:04d}-{one['id']}", "title": title, "text": text}

    def vectors(self, count: int, first: int = 0) -> np.ndarray[Any, Any]:
        """Return a (count - first, d) array of float32 with the embeddings of the passages `first` to `count` - 1."""
        base = np.concatenate([np.load(each / "passages.f16.npy") for each in self.folders]).astype(np.float32)
        out = np.empty((count - first, base.shape[1]), dtype=np.float32)
        for copy in range(first // len(base), -(-count // len(base))):
            low, high = max(first, copy * len(base)), min(count, (copy + 1) * len(base))
            shifted = base[low - copy * len(base) : high - copy * len(base)]
            draw = np.random.default_rng((copy, 2))
            noise = draw.standard_normal((len(base), base.shape[1]), dtype=np.float32) / np.sqrt(base.shape[1])
            noise = noise[low - copy * len(base) : high - copy * len(base)]
            out[low - first : high - first] = _unit(shifted + _shift(copy, base.shape[1]) + NOISE * noise * (copy > 0))
        return out

    def questions(self, count: int, number: int) -> tuple[list[str], np.ndarray[Any, Any], list[list[str]]]:
        """Return `number` questions whose gold passages are among the first `count`: texts, embeddings, gold ids."""
        copies = max(count // len(self.base), 1)
        vectors = np.concatenate([np.load(each / "queries.f16.npy") for each in self.folders]).astype(np.float32)
        draw = np.random.default_rng(3)
        known = {one["id"] for one in self.base[:count]}
        open_ones = [place for place, one in enumerate(self.queries) if known.issuperset(one["hops"])]
        picked = draw.permutation(open_ones)[:number]
        texts, found, gold = [], [], []
        for place in picked.tolist():
            copy = int(draw.integers(copies))
            question = self.queries[place]["question"]
            texts.append(_RUN.sub(self._renamer(copy), question) if copy else question)
            found.append(_unit((vectors[place] + _shift(copy, vectors.shape[1]))[None])[0])
            gold.append([f"{copy:04d}-{one}" for one in self.queries[place]["hops"]])
        return texts, np.array(found), gold


def _ending(copy: int) -> str:
    return "".join("aeioubdg"[int(digit)] for digit in oct(copy)[2:]) if copy else ""


def _shift(copy: int, width: int) -> np.ndarray[Any, Any]:
    """Return the vector by which a copy's embeddings are shifted; zero for the first copy, which is the real corpus."""
    drawn = np.random.default_rng((copy, 4)).standard_normal(width, dtype=np.float32)
    return OFFSET * (copy > 0) * drawn / np.linalg.norm(drawn)


def _unit(vectors: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    out: np.ndarray[Any, Any] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return out


def main() -> None:
    """Write a corpus in the format that ``phasegraph index`` reads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("passages", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, nargs="+", help="folders with corpus.jsonl and passages.f16.npy")
    options = parser.parse_args()
    made = ZipfCorpus(options.data)
    options.folder.mkdir(parents=True, exist_ok=True)
    with (options.folder / "corpus.jsonl").open("w") as lines:
        for row in made.rows(options.passages):
            lines.write(json.dumps(row) + "\n")
    np.save(options.folder / "passages.f16.npy", made.vectors(options.passages).astype(np.float16))


if __name__ == "__main__":
    main()
