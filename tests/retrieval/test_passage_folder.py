"""Passages in a folder, without a framework."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasegraph._support.files import building_place
from phasegraph.embedding.identity import EmbeddingModel
from phasegraph.errors import InvalidInputError, InvalidTypeError, PhasegraphWarning, StoreError
from phasegraph.graph.corpus.change import Change
from phasegraph.graph.corpus.folder import check_new
from phasegraph.retrieval.indexing import BuildPlan
from phasegraph.retrieval.passage_folder import PassageFolder, _plain

FOLDERS = Path(__file__).parents[1] / "folders"
QUESTIONS = ["Who met Bo?", "Letter 3", "Cy sang"]


def model(name: str = "plain", size: int = 8) -> EmbeddingModel:
    """A model whose vectors are its own."""
    turn = sum(name.encode())

    def vector(text: str) -> list[float]:
        return np.random.default_rng((turn, *text.encode(errors="surrogatepass"))).standard_normal(size).tolist()

    return EmbeddingModel(
        SimpleNamespace(model_name=name), vector, lambda records: [vector(one.content) for one in records]
    )


def pages(*numbers: int, said: str = "met") -> list[dict[str, Any]]:
    return [
        {"id": f"p{n}", "title": f"Letter {n}", "text": f"Ada {said} Bo {n}.", "metadata": {"source": f"{n % 4}.md"}}
        for n in numbers
    ]


class CoreFolder:
    """What ``tests/folders/write.py`` keeps for later versions."""

    def write_folder(self, path: Path) -> None:
        """A folder with changes beside its index."""
        folder = PassageFolder.create(path, pages(*range(6)), model(), progress=False)
        folder.delete(["p2"])
        folder.sync(pages(8, said="saw"), progress=False)

    def opened(self, path: Path) -> PassageFolder:
        """Open the folder."""
        return PassageFolder.open(path, model())

    def answers(self, folder: PassageFolder) -> list[list[str]]:
        """What the walk finds."""
        source = folder.corpus.source("graph")
        return [list(source.search(question, 5, {}).ids) for question in QUESTIONS]

    def names_of(self, answers: Sequence[Any]) -> list[Any]:
        """The answers themselves."""
        return list(answers)


def test_the_error_of_a_blank_passage_leaves_out_the_keys_of_a_framework(tmp_path: Path) -> None:
    blank = {"id": "a", "text": " ", "metadata": {"page": 3, "_node_content": "x" * 500}}
    with pytest.raises(InvalidInputError, match=r"leave out passages of blank pages \(metadata: \{'page': 3\}\)"):
        PassageFolder.create(tmp_path / "folder", [blank])


def test_a_folder_that_a_version_before_this_one_wrote_opens_and_changes(tmp_path: Path) -> None:
    archives, suite = sorted(FOLDERS.glob("core-*.zip")), CoreFolder()
    assert "core-0.1.0.zip" in {one.name for one in archives}
    for archive in archives:
        place = tmp_path / archive.stem
        shutil.unpack_archive(archive, place)
        expected = json.loads((place / "expected.json").read_text())
        folder = suite.opened(place / "corpus")
        assert folder.ids() == expected["ids"]
        assert suite.answers(folder) == expected["answers"]
        folder.sync(pages(9), progress=False)
        folder.delete(["p3"])
        assert set(suite.opened(place / "corpus").ids()) == set(folder.ids()) != set(expected["ids"])


def test_a_changed_title_is_seen_and_embedded_beside_a_title_in_the_metadata(tmp_path: Path) -> None:
    embedded = list[str]()

    def passages(records: Sequence[Any]) -> Any:
        embedded.extend(one.content for one in records)
        return model().passages(records)

    def letter(title: str) -> list[dict[str, Any]]:
        return [{"id": "p", "title": title, "text": "Ada met Bo.", "metadata": {"source": "a.md", "title": "Z"}}]

    counting = EmbeddingModel(model().model, model().query, passages)
    folder = PassageFolder.create(tmp_path / "folder", letter("First"), counting, progress=False)
    embedded.clear()
    counts = folder.sync(letter("Second"), progress=False)
    assert (counts.changed, counts.embedded, embedded) == (1, 1, ["Second\nAda met Bo."])
    assert folder.sync(letter("Second"), progress=False).unchanged == 1
    assert folder.ids({"title": "Second"}) == folder.ids()
    folder.sync(letter(""), progress=False)
    assert folder.ids({"title": "Z"}) == folder.ids()


@pytest.mark.parametrize(("title", "stored"), [("T", {"title": "T"}), ("", {})])
def test_a_title_outside_the_metadata_keeps_the_digest_of_former_versions(title: str, stored: dict[str, str]) -> None:
    given = {"id": "p", "title": title, "text": "Ada met Bo.", "metadata": {"source": "a.md"}}
    assert _plain(given)["metadata"] == {"source": "a.md", **stored}


def test_another_model_is_refused_with_both_names(tmp_path: Path) -> None:
    PassageFolder.create(tmp_path / "folder", pages(1, 2, 3), model(), progress=False)
    with pytest.raises(InvalidInputError, match=r"SimpleNamespace plain.*SimpleNamespace other.*cosine"):
        PassageFolder.open(tmp_path / "folder", model("other"))
    with pytest.raises(InvalidTypeError, match="EmbeddingModel"):
        PassageFolder.create(tmp_path / "other", pages(1), "minilm", progress=False)  # type: ignore[arg-type]


def test_reembedding_that_is_cut_short_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasegraph.graph.corpus.reembedding.BATCH", 2)
    monkeypatch.setattr("phasegraph.graph.corpus.reembedding.PART", 2)
    folder = PassageFolder.create(tmp_path / "folder", pages(*range(8)), model(), progress=False)
    ids, made = folder.ids(), list[str]()

    def counting(stops: int | None) -> EmbeddingModel:
        fresh = model("fresh", 12)

        def passages(records: Sequence[Any]) -> Any:
            if stops is not None and len(made) >= stops:
                raise KeyboardInterrupt
            made.extend(one.id for one in records)
            return fresh.passages(records)

        return EmbeddingModel(fresh.model, fresh.query, passages)

    with pytest.raises(KeyboardInterrupt):
        folder.reembed(counting(4), progress=False)
    assert PassageFolder.open(tmp_path / "folder", model()).ids() == ids
    made.clear()
    again = PassageFolder.open(tmp_path / "folder")
    again.reembed(counting(None), progress=False)
    assert len(made) <= 5  # four that were not there, and perhaps the first again, to see that it is the same model
    assert np.asarray(again.corpus.index.graph.embeddings).shape == (8, 12)
    assert PassageFolder.open(tmp_path / "folder", model("fresh", 12)).ids() == ids


def test_a_read_only_folder_opens_and_refuses_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PassageFolder.create(tmp_path / "folder", pages(1, 2, 3), model(), progress=False)

    def refused(*given: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("phasegraph._support.files._lock", refused)  # a superuser may write where the bits forbid it
    folder = PassageFolder.open(tmp_path / "folder", model())
    assert folder.documents() == {"1.md": 1, "2.md": 1, "3.md": 1}
    assert len(folder.corpus.source("graph").search("Who met Bo?", 5, {})) == 3
    with pytest.raises(StoreError, match="Read-only file system"):
        folder.delete(["p1"])


def test_bad_input_is_named(tmp_path: Path) -> None:
    folder = PassageFolder.create(tmp_path / "folder", pages(1, 2, 3), progress=False)
    with pytest.warns(PhasegraphWarning, match="no passage matches .*; 0 deleted"):
        assert folder.delete(where={"source": "9.md"}) == 0
    with pytest.warns(PhasegraphWarning) as said:
        assert folder.ids(where={"sorce": "1.md"}) == []  # codespell:ignore sorce
    assert "did you mean 'source'" in str(said[0].message)
    with pytest.raises(InvalidInputError, match="allow_empty=True"):
        folder.sync([], full=True)
    with pytest.raises(InvalidInputError, match=r"where\['source'\]"):
        folder.delete(where={"source": None})
    with pytest.raises(InvalidInputError, match="either ids or where"):
        folder.delete()
    assert len(folder.ids()) == 3


def test_a_sync_that_is_refused_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = PassageFolder.create(tmp_path / "folder", pages(1, 2, 3), model(), progress=False)

    def full(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Change, "write", full)
    with pytest.raises(StoreError, match=r"nothing was changed.*No space left"):
        folder.sync(pages(1, 2, 7), full=True, progress=False)
    assert folder.ids() == PassageFolder.open(tmp_path / "folder", model()).ids() == ["p1", "p2", "p3"]


def test_near_duplicates_of_a_folder(tmp_path: Path) -> None:
    text = "Ada met Bo in Oslo in the year in which the engine was made, and Cy sang of it."
    rows = [{"id": str(n), "text": text + " Dee." * n, "metadata": {"source": f"{n}.md"}} for n in range(2)]
    folder = PassageFolder.create(tmp_path / "folder", rows, progress=False)
    (pair,) = folder.near_duplicates(0.7)
    assert (pair.first, pair.second) == ("0.md", "1.md")


@pytest.mark.parametrize("embeds", [True, False])
def test_a_folder_that_memory_cannot_hold_is_built_in_shards_to_the_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embeds: bool
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("phasegraph.retrieval.new_folder.EMBEDDED", 3)
    monkeypatch.setattr("phasegraph._support.serialization.MAPPED_BYTES", 200)  # so that documents have a table
    used, made = model() if embeds else None, {}
    rows = pages(*range(8))
    rows[2]["text"] += " The \ud800 lone Surrogate of İstanbul."
    rows[3]["metadata"]["deep"] = {"list": [1, None, 0.5, "é"]}
    for name, free in (("whole", 10**12), ("shards", 1000)):
        monkeypatch.setattr("phasegraph._support.memory.free_memory", lambda free=free: free)
        made[name] = PassageFolder.create(tmp_path / name, rows, used, progress=False)
    assert {one.name for one in tmp_path.iterdir()} == set(made)
    for bundle in ("graph", "graph/documents"):
        manifests = [(tmp_path / name / bundle / "manifest.json").read_bytes() for name in made]
        assert manifests[0] == manifests[1]
    whole, shards = made.values()
    for folder in (whole, shards):
        folder.sync(pages(1, said="saw"), progress=False)
        folder.delete(["p2"])
    assert whole.ids() == shards.ids()
    assert whole.documents() == shards.documents()
    assert CoreFolder().answers(whole) == CoreFolder().answers(PassageFolder.open(tmp_path / "shards", used))


@pytest.mark.parametrize(("text", "vectors", "said"), [(1000, 0, "in memory"), (10, 10**6, "in memory"), (10, 10, "")])
def test_vectors_count_as_needed_memory(monkeypatch: pytest.MonkeyPatch, text: int, vectors: int, said: str) -> None:
    monkeypatch.setattr("phasegraph._support.memory.free_memory", lambda: 1000)
    monkeypatch.setattr("phasegraph.retrieval.indexing.find_spec", lambda name: None)
    assert said in BuildPlan.of(text, vectors).message
    assert bool(BuildPlan.of(text, vectors).message) == bool(said)


def test_vectors_that_do_not_fit_beside_the_texts_are_written_to_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    free = 13 * sum(len(one["title"]) + len(one["text"]) for one in pages(*range(8))) / 0.8 + 100
    monkeypatch.setattr("phasegraph._support.memory.free_memory", lambda: int(free))
    logged: list[str] = []
    monkeypatch.setattr("phasegraph.retrieval.new_folder._logger.info", lambda form, one: logged.append(form % one))
    PassageFolder.create(tmp_path / "folder", pages(*range(8)), model(), progress=False)
    assert "the index is built in shards" in logged[0]
    assert len(PassageFolder.open(tmp_path / "folder", model()).ids()) == 8
    zeros = EmbeddingModel(
        SimpleNamespace(model_name="zeros"), lambda text: [0.0, 0.0], lambda some: [[0.0, 0.0]] * len(some)
    )
    monkeypatch.setattr("phasegraph._support.memory.free_memory", lambda: 1000)
    folder = PassageFolder.create(tmp_path / "zeros", pages(1, 2), zeros, progress=False)
    assert not np.any(folder.corpus.index.graph.embeddings)


def test_wrong_vectors_and_a_failing_model_raise_their_own_errors_and_leave_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("phasegraph.retrieval.new_folder.EMBEDDED", 2)
    monkeypatch.setattr("phasegraph._support.memory.free_memory", lambda: 1000)

    def fails(records: Sequence[Any]) -> Any:
        raise ConnectionError("no route to host")

    def grows(records: Sequence[Any]) -> Any:
        return [[1.0] * (2 if records[0].id == "p1" else 3)] * len(records)

    for embed, error, said in (
        (fails, ConnectionError, "no route"),
        (grows, InvalidInputError, "rows of 2 and of 3 numbers"),
        (lambda records: [[1.0]], InvalidInputError, "must have 2 rows"),
    ):
        with pytest.raises(error, match=said):
            PassageFolder.create(
                tmp_path / "folder", pages(1, 2, 3, 4), EmbeddingModel("m", lambda text: [1.0], embed), progress=False
            )
        assert not list(tmp_path.iterdir())


def test_a_mounted_folder_holds_its_own_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mount").mkdir()
    with building_place(tmp_path / "new" / "deep") as place:
        assert place.parent == tmp_path
    with building_place(tmp_path / "mount") as place:
        assert place.parent == tmp_path
    monkeypatch.setattr("os.access", lambda *_: False)
    with building_place(tmp_path / "mount") as place:
        assert place.parent == tmp_path / "mount"
        check_new(tmp_path / "mount")
    assert not list((tmp_path / "mount").iterdir())
