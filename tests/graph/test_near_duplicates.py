"""Documents that say nearly the same are found without comparing all of them."""

from __future__ import annotations

import numpy as np

from phasegraph.graph.corpus.near_duplicates import similar_texts

WORDS = [f"w{number}" for number in range(2000)]


def text(rng: np.random.Generator, count: int = 120) -> list[str]:
    return [WORDS[row] for row in rng.integers(0, len(WORDS), count)]


def changed(words: list[str], places: int, rng: np.random.Generator) -> list[str]:
    out = list(words)
    for place in rng.choice(len(out), places, replace=False).tolist():
        out[place] = "other"
    return out


def exact(one: list[str], other: list[str]) -> float:
    runs = [{tuple(words[row : row + 4]) for row in range(len(words) - 3)} for words in (one, other)]
    return len(runs[0] & runs[1]) / len(runs[0] | runs[1])


def test_every_planted_pair_is_found_with_its_exact_similarity() -> None:
    rng = np.random.default_rng(5)
    documents = {f"d{number}": text(rng) for number in range(300)}
    planted = {f"d{number}": changed(documents[f"d{number}"], 1 + number % 4, rng) for number in range(0, 300, 3)}
    whole = documents | {f"{name}-again": words for name, words in planted.items()}
    found = similar_texts(((name, [" ".join(words)]) for name, words in whole.items()), 0.6)
    expected = {
        (name, f"{name}-again"): exact(documents[name], words)
        for name, words in planted.items()
        if exact(documents[name], words) >= 0.6
    }
    assert len(expected) == 100
    assert {(pair.first, pair.second): pair.similarity for pair in found} == expected
    assert [pair.similarity for pair in found] == sorted((pair.similarity for pair in found), reverse=True)


def test_short_empty_and_equal_texts() -> None:
    documents = [("a", ["One."]), ("b", ["one"]), ("c", [""]), ("d", ["two", "one"]), ("e", [])]
    assert [(pair.first, pair.second, pair.similarity) for pair in similar_texts(documents, 0.5)] == [
        ("a", "b", 1.0), ("a", "d", 0.5), ("b", "d", 0.5),
    ]  # fmt: skip


def test_many_equal_documents_cost_no_square_of_comparisons() -> None:
    found = similar_texts((f"d{number}", ["The same page again."]) for number in range(1000))
    assert len(found) <= 64 * 1000
    assert {name for pair in found for name in (pair.first, pair.second)} == {f"d{number}" for number in range(1000)}
