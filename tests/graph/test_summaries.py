"""Summary trees: planted mixtures are found, what is added changes its own branch alone, and nothing leaks."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from repeats import repeats

from phasegraph import IntegrityError, InvalidInputError, InvalidTypeError, MissingDependencyError, PhasegraphWarning
from phasegraph._support.serialization import read_bundle, write_bundle
from phasegraph.graph import ClusterSettings, SummarySource, SummaryTree, extractive
from phasegraph.graph.model.storage import packed
from phasegraph.graph.summaries.clusters import fit_clusters

PCA = ClusterSettings(reducer="pca")


def planted(
    topics: int, each: int, noise: float = 0.05, seed: int = 0, size: int = 48
) -> tuple[list[dict[str, str]], Any, list[int]]:
    """Passages of some topics around as many directions."""
    draw = np.random.default_rng(seed)
    centres = draw.normal(size=(topics, size))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    labels = [topic for topic in range(topics) for _ in range(each)]
    vectors = centres[labels] + noise * draw.normal(size=(len(labels), size))
    passages = [
        {
            "id": f"p{row:03}",
            "text": f"Passage {row} tells of topic{topic}. It has the number {row}.",
            "doc": f"d{topic}",
        }
        for row, topic in enumerate(labels)
    ]
    return passages, vectors / np.linalg.norm(vectors, axis=1, keepdims=True), labels


class Counting:
    """A summariser that counts its calls, and may give out."""

    def __init__(self, most: int = 10**9) -> None:
        self.calls: list[list[str]] = []
        self.most = most

    def __call__(self, texts: list[str]) -> str:
        if len(self.calls) >= self.most:
            raise RuntimeError("out of tokens")
        self.calls.append(texts)
        return extractive(texts)


def built(passages: Any, vectors: Any, summarise: Any = extractive, **options: Any) -> SummaryTree:
    return SummaryTree.build(passages, vectors, summarise, **{"clusters": PCA, **options})


@pytest.mark.parametrize(
    ("topics", "each", "noise"), [(2, 6, 0.05), (3, 8, 0.05), (5, 12, 0.05), (8, 20, 0.1), (12, 15, 0.05)]
)
def test_planted_mixtures_are_recovered(topics: int, each: int, noise: float) -> None:
    passages, vectors, labels = planted(topics, each, noise)
    for seed in repeats((0, 1, 2), (0,)):
        tree = built(passages, vectors, clusters=ClusterSettings(reducer="pca", seed=seed))
        wanted = {
            tuple(one["id"] for one, label in zip(passages, labels, strict=True) if label == topic)
            for topic in range(topics)
        }
        assert {one.passages for one in tree.summaries if one.level == 1} == wanted


def test_one_topic_is_one_cluster() -> None:
    passages, vectors, _ = planted(1, 20)
    assert [(one.level, len(one.passages)) for one in built(passages, vectors).summaries] == [(1, 20)]


def test_a_passage_between_two_topics_belongs_to_both() -> None:
    draw = np.random.default_rng(0)
    left, right = np.eye(16)[:2]
    vectors = np.concatenate([left + 0.2 * draw.normal(size=(12, 16)), right + 0.2 * draw.normal(size=(12, 16))])
    found = fit_clusters(vectors, ClusterSettings(reducer="pca", dimensions=2))
    assert found.count == 2
    middle = (vectors[:12].mean(axis=0) + vectors[12:].mean(axis=0))[None] / 2
    shares = found.mixtures[0].responsibilities(middle)[0]
    assert shares.sum() == pytest.approx(1.0)
    assert found.assign(middle) == [tuple(np.flatnonzero(shares >= 0.1).tolist())]
    line = np.linspace(0, 1, 201)[:, None] * (vectors[12:].mean(axis=0) - vectors[:12].mean(axis=0)) + vectors[
        :12
    ].mean(axis=0)
    belongs = found.assign(line)
    assert {(0,), (0, 1), (1,)} == set(belongs)


def test_large_clusters_are_divided_and_none_is_lost() -> None:
    passages, vectors, _ = planted(4, 60, 0.3)
    tree = built(passages, vectors, clusters=ClusterSettings(reducer="pca", largest=12))
    first = [one.passages for one in tree.summaries if one.level == 1]
    assert max(map(len, first)) <= 12
    assert set().union(*map(set, first)) | {
        one["id"] for one in passages if not any(one["id"] in each for each in first)
    } == {one["id"] for one in passages}
    assert max(one.level for one in tree.summaries) == 3 == tree.levels


def test_the_order_of_the_input_does_not_matter() -> None:
    passages, vectors, _ = planted(4, 15, 0.2)
    order = np.random.default_rng(5).permutation(len(passages))
    one, other = built(passages, vectors), built([passages[row] for row in order], vectors[order], workers=1)
    assert one.summaries == other.summaries
    assert one.vectors.tobytes() == other.vectors.tobytes()


def test_hash_seeds_do_not_matter() -> None:
    program = (
        "import numpy as np; from phasegraph.graph import *; d = np.random.default_rng(0); "
        "v = np.repeat(np.eye(12)[:5], 8, axis=0) + 0.05 * d.normal(size=(40, 12)); "
        "p = [{'id': str(i), 'text': f'Text {i} on {i // 8}. And more.'} for i in range(40)]; "
        "t = SummaryTree.build(p, v, clusters=ClusterSettings(reducer='pca')); "
        "print([(s.id, s.text) for s in t.summaries], t.vectors.tobytes().hex()[:400])"
    )
    said = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                       env={**os.environ, "PYTHONHASHSEED": seed}).stdout
        for seed in repeats(("0", "77"), ("77",))
    }  # fmt: skip
    with redirect_stdout(io.StringIO()) as here:  # with the seed of this process
        exec(program, {})  # noqa: S102
    said.add(here.getvalue())
    assert len(said) == 1
    assert next(iter(said)).count("summary:") > 1


def test_an_added_passage_changes_only_its_branch() -> None:
    passages, vectors, labels = planted(6, 14, 0.1)
    counting = Counting()
    tree = built(passages, vectors, counting, summariser="counting")
    new, place = {"id": "new", "text": "A new passage on topic2."}, vectors[labels.index(2)]
    grown = tree.add([new], place[None], counting, summariser="counting")
    before, after = {one.id for one in tree.summaries}, {one.id for one in grown.summaries}
    branch = [one for one in grown.summaries if "new" in one.passages]
    assert branch
    assert {one.id for one in branch} == after - before
    assert {frozenset(one.passages) - {"new"} for one in branch} == {
        frozenset(one.passages) for one in tree.summaries if one.id in before - after
    }
    kept = {one.id: tree.vectors[row].tobytes() for row, one in enumerate(tree.summaries)}
    assert all(
        kept[one.id] == grown.vectors[row].tobytes() for row, one in enumerate(grown.summaries) if one.id in kept
    )
    assert len(counting.calls) == len(before) + len(branch)
    back = grown.remove(["new"], counting, summariser="counting")
    assert back.summaries == tree.summaries
    assert back.vectors.tobytes() == tree.vectors.tobytes()


def test_the_order_in_which_passages_are_added_does_not_matter() -> None:
    passages, vectors, _ = planted(5, 12, 0.15)
    tree = built(passages[::2], vectors[::2])
    rest = list(range(1, len(passages), 2))
    at_once = tree.add([passages[row] for row in rest], vectors[rest])
    one_by_one = tree
    for row in reversed(rest):
        one_by_one = one_by_one.add([passages[row]], vectors[[row]])
    assert at_once.summaries == one_by_one.summaries


def test_a_passage_given_anew_takes_the_place_of_the_old() -> None:
    passages, vectors, _ = planted(2, 6)
    tree = built(passages, vectors)
    changed = tree.add([{"id": "p000", "text": "Something else."}], vectors[[0]])
    assert changed.passages == tree.passages
    assert changed.texts[0] == "Something else."
    assert {one.id for one in tree.summaries if "p000" not in one.passages} <= {one.id for one in changed.summaries}
    assert not {one.id for one in tree.summaries if "p000" in one.passages} & {one.id for one in changed.summaries}


def test_too_many_newcomers_are_warned_about() -> None:
    passages, vectors, _ = planted(2, 12)
    tree = built(passages[::4], vectors[::4])
    with pytest.warns(PhasegraphWarning, match="build the summary tree again"):
        tree.add(passages, vectors)


def test_documents_get_trees_of_their_own_and_one_above() -> None:
    passages, vectors, _ = planted(6, 10, 0.3)
    tree = built(passages, vectors, document="doc")
    within = [one for one in tree.summaries if len({passages[int(name[1:])]["doc"] for name in one.passages}) == 1]
    across = [one for one in tree.summaries if one not in within]
    assert within
    assert across
    assert min(one.level for one in across) > max(one.level for one in within)
    other = [{"id": f"x{row}", "text": f"Other text {row}.", "doc": "dx"} for row in range(5)]
    grown = tree.add(other, np.random.default_rng(1).normal(size=(5, 48)), document="doc")
    assert set(within) <= set(grown.summaries)
    changed = [one for one in grown.summaries if one not in tree.summaries]
    assert all(any(name.startswith("x") for name in one.passages) for one in changed)


def test_a_killed_build_keeps_the_finished_summaries(tmp_path: Path) -> None:
    passages, vectors, _ = planted(6, 10)
    whole = Counting()
    tree = built(passages, vectors, whole, summariser="s")
    first = Counting(most=3)
    with pytest.raises(RuntimeError, match="out of tokens") as raised:
        built(passages, vectors, first, summariser="s", cache=tmp_path, workers=1)
    assert "3 of 6 summaries" in raised.value.__notes__[0]
    second = Counting()
    again = built(passages, vectors, second, summariser="s", cache=tmp_path)
    assert again.summaries == tree.summaries
    assert len(second.calls) == len(whole.calls) - 3
    third = Counting(most=0)
    assert built(passages, vectors, third, summariser="s", cache=tmp_path).summaries == tree.summaries
    one = next(tmp_path.rglob("*.json"))
    one.write_bytes(b"{")
    assert built(passages, vectors, fourth := Counting(), summariser="s", cache=tmp_path).summaries == tree.summaries
    assert len(fourth.calls) == 1


def test_a_coroutine_may_write_the_summaries() -> None:
    async def summarise(texts: list[str]) -> str:
        return f"{len(texts)} texts"

    passages, vectors, _ = planted(3, 6)
    assert {one.text for one in built(passages, vectors, summarise).summaries if one.level == 1} == {"6 texts"}


def test_summaries_may_be_embedded_by_the_model() -> None:
    passages, vectors, _ = planted(3, 6)
    asked: list[list[str]] = []

    def embed(texts: list[str]) -> Any:
        asked.append(texts)
        return np.eye(48)[: len(texts)] * 2

    tree = built(passages, vectors, embed=embed)
    assert sum(map(len, asked)) == len(tree.summaries)
    assert np.allclose(np.linalg.norm(tree.vectors, axis=1), 1)
    with pytest.raises(InvalidInputError, match="embed= is missing"):
        tree.add([{"id": "n", "text": "New."}], vectors[:1])


def test_saved_and_mapped_it_is_the_same(tmp_path: Path) -> None:
    passages, vectors, _ = planted(5, 14, 0.3)
    for document in (None, "doc"):
        tree = built(passages, vectors, document=document)
        tree.save(tmp_path / "tree")
        read = SummaryTree.load(tmp_path / "tree")
        np.testing.assert_array_equal(read.embeddings, tree.embeddings)
        assert read.summaries == tree.summaries
        assert read.texts == tree.texts
        assert read.settings == tree.settings
        for resolve in ("leaves", "summaries"):
            one, other = (
                each.source(lambda _: vectors[3], resolve=resolve).search("q", 20, {}) for each in (tree, read)
            )
            assert one.ids == other.ids
            assert one.scores.tobytes() == other.scores.tobytes()
        new = [{"id": "z", "text": "New one.", "doc": "d0"}]
        options = {"document": document}
        assert read.add(new, vectors[:1], **options).summaries == tree.add(new, vectors[:1], **options).summaries
    damaged = next((tmp_path / "tree").glob("vectors*.npy"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(IntegrityError, match="vectors"):
        SummaryTree.load(tmp_path / "tree")


@cache
def _honest() -> SummaryTree:
    vectors = np.random.default_rng(1).standard_normal((14, 6))
    passages = [{"id": f"p{row:02}", "text": f"Text {row}."} for row in range(14)]
    return SummaryTree.build(passages, vectors, clusters=ClusterSettings(reducer="pca", largest=3))


def _forged(change: Any, target: Path) -> None:
    """A saved tree with parts of its manifest's body or of its arrays changed, sealed as ours are."""
    _honest().save(target)
    body, arrays = read_bundle(target, "summary-tree", 1, mmap=False)
    made = {name: np.array(one) for name, one in arrays.items()}
    made |= change(body, made) or {}
    write_bundle(target, "summary-tree", 1, body, made)


def _put_first(name: str, value: Any) -> Any:
    def change(body: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[name][0] = value

    return change


FORGED = {
    "a flat array of vectors": lambda body, arrays: {"vectors": np.ones(len(arrays["vectors"]), np.float32)},
    "longer vectors": lambda body, arrays: {"vectors": np.ones((len(arrays["vectors"]), 9), np.float32)},
    "vectors of integers": lambda body, arrays: {"vectors": arrays["vectors"].astype(np.int32)},
    "no columns": lambda body, arrays: {
        name: np.empty((len(arrays[name]), 0), np.float32) for name in ("vectors", "embeddings")
    },
    "a cube of embeddings": lambda body, arrays: {"embeddings": arrays["embeddings"][:, :, None]},
    "a text too many": lambda body, arrays: packed("texts", [*"abcdefghijklmno"]),
    "a passage twice": lambda body, arrays: packed("passages", ["p00", *(f"p{row:02}" for row in range(13))]),
    "a mixture within itself": _put_first("clusters_cells", -1),
    "no variance": _put_first("clusters_variances", 0.0),
    "an infinite mean": _put_first("clusters_means", np.inf),
    "mixtures beyond numbers": _put_first("clusters_shapes", [2**32, 2**32, 1]),
    "a word as the levels": lambda body, arrays: body.update(levels="3"),
    "no levels": lambda body, arrays: body.update(levels=0),
    "a slot of two": lambda body, arrays: body.update(parents=[["", 1, [[["", 0], [0]]]]]),
    "words as clusters": lambda body, arrays: body.update(parents=[["", 1, [[["", 1, 0], ["x"]]]]]),
}


@pytest.mark.parametrize("what", sorted(FORGED))
def test_a_tree_whose_parts_do_not_fit_is_refused(tmp_path: Path, what: str) -> None:
    _forged(FORGED[what], tmp_path / "tree")
    for verify in (True, False):
        with pytest.raises(IntegrityError):
            SummaryTree.load(tmp_path / "tree", verify=verify)


@pytest.mark.timeout(60)
def test_levels_beyond_what_there_is_take_no_time(tmp_path: Path) -> None:
    _forged(lambda body, arrays: body.update(levels=10**15), tmp_path / "tree")
    tree = SummaryTree.load(tmp_path / "tree")
    assert len(tree.add([{"id": "q", "text": "More."}], [np.ones(6)]).passages) == 15


def test_leaves_are_lifted_by_the_summaries_over_them() -> None:
    passages = [{"id": name, "text": f"Text {name}."} for name in "abcd"]
    vectors = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.28, 0.96]])
    tree = built(passages, vectors)
    query = np.array([0.15, 0.99]) / np.linalg.norm([0.15, 0.99])
    own = vectors @ query
    over = {
        name: max([tree.vectors[row] @ query for row, one in enumerate(tree.summaries) if name in one.passages])
        for name in "abcd"
    }
    wanted = {name: (own[row] + max(over[name], own[row])) / 2 for row, name in enumerate("abcd")}
    found = tree.source(lambda _: query).search("q", None, {})
    assert dict(zip(found.ids, found.scores, strict=True)) == pytest.approx(wanted, abs=1e-6)
    assert {name for name, one in found.payloads.items()} == {
        name for row, name in enumerate("abcd") if over[name] > own[row]
    }
    both = tree.source(lambda _: query, resolve="summaries").search("q", None, {})
    assert set(both.ids) == {*"abcd", *(one.id for one in tree.summaries)}


def test_a_filter_lets_no_word_of_others_through() -> None:
    passages, vectors, _ = planted(4, 10)
    tree = built(passages, vectors)
    query = vectors[:10].mean(axis=0)
    mine = [one["id"] for one in passages[:25]]
    for resolve in ("leaves", "summaries"):
        part = tree.source(lambda _: query, resolve=resolve).within(mine)
        found = part.search("q", None, {})
        shown = list(found.payloads.values())
        assert shown
        assert all(set(one.passages) <= set(mine) for one in shown)
        assert set(found.ids) - {one.id for one in shown} <= set(mine)
        hidden = [one["text"] for one in passages[25:]]
        assert not any(sentence in one.text for one in shown for text in hidden for sentence in text.split(". ")[:1])
        assert len(found) < len(tree.passages) + len(tree.summaries)
    nothing = tree.source(lambda _: vectors[2]).within([]).search("q", 5, {})
    assert nothing.ids == ()
    assert nothing.reason
    assert tree.source(lambda _: vectors[2]).within(tree.passages).tree is tree


def test_without_scikit_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.mixture", None)
    passages, vectors, _ = planted(2, 6)
    with pytest.raises(MissingDependencyError, match=r"phasegraph\[summaries\]"):
        built(passages, vectors)


def test_umap_asked_for_by_name_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    passages, vectors, _ = planted(2, 12)
    with pytest.raises(MissingDependencyError, match="umap-learn"):
        built(passages, vectors, clusters=ClusterSettings(reducer="umap"))
    assert built(passages, vectors, clusters=ClusterSettings()).summaries == built(passages, vectors).summaries


def test_bad_input_is_named() -> None:
    passages, vectors, _ = planted(2, 6)
    with pytest.raises(InvalidInputError, match="embeddings must have 12 rows"):
        built(passages, vectors[:3])
    with pytest.raises(InvalidTypeError, match="summarise must be a function"):
        built(passages, vectors, "extractive")
    with pytest.raises(InvalidInputError, match="text that is not blank"):
        built(passages, vectors, lambda texts: " ")
    with pytest.raises(InvalidTypeError, match="chapter of passage 'p000'"):
        built(passages, vectors, document="chapter")
    with pytest.raises(InvalidInputError, match="levels"):
        built(passages, vectors, levels=0)
    tree = built(passages, vectors)
    with pytest.raises(InvalidInputError, match="new summaries would be by 'other'"):
        tree.add([{"id": "n", "text": "New."}], vectors[:1], summariser="other")
    with pytest.raises(InvalidInputError, match="'q' is not in the tree"):
        tree.remove(["q"])
    with pytest.raises(InvalidInputError, match="resolve"):
        SummarySource(tree, len, resolve="roots")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"shape \(48,\)"):
        tree.source(lambda _: [1.0]).search("q", 1, {})


def test_the_extractive_summary_is_of_the_centre() -> None:
    texts = [
        "The harbour of Bergen is old. Cats sleep.",
        "Bergen has a harbour. The harbour is full of ships.",
        "Rain.",
    ]
    said = extractive(texts, sentences=2)
    assert "harbour" in said
    assert "Rain" not in said
    assert extractive(["word " * 500]) == ("word " * 500).strip()[:700]
    assert len(extractive([f"Sentence {row} on the matter at hand." for row in range(300)], characters=200)) <= 200


def test_its_repr_is_short_and_holds_no_passage() -> None:
    passages, vectors, _ = planted(4, 30)
    tree = built(passages, vectors)
    assert len(repr(tree)) < 300
    assert "p001" not in repr(tree)
    assert f"120 passages and {len(tree.summaries)} summaries" in repr(tree)
