"""A folder that changes while it is served: no restart, no mixture, no loss of a request."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.serving.conftest import TOKENS, corpus, embed, running

from phasegraph import PhasegraphWarning
from phasegraph.apps.server.following import Served
from phasegraph.embedding.identity import EmbeddingModel
from phasegraph.graph import GraphIndex
from phasegraph.graph.corpus.corpus import Corpus
from phasegraph.graph.corpus.folder import Folder

NEW = {"id": "red-new", "title": "Red Nairobi", "text": "Nairobi is where Red Keeper met Zoe.", "metadata": {}}


def written(path: Path) -> Corpus:
    """A folder with vectors, as a writer has it open."""
    rows = corpus()
    index = GraphIndex.build(rows, embeddings=np.stack([embed(f"{one['title']} {one['text']}") for one in rows]))
    Corpus(index).save(path, {"framework": "core", "vectors": True, "vector_store": "flat"})
    folder = Folder(path)
    return Corpus(folder.load()[0], folder=folder)


def change(writer: Corpus, team: str = "red") -> None:
    """A passage leaves, another comes, and a third one moves to a team."""
    moved = next(one for one in corpus() if one["id"] == "blue-1")
    came = [{**NEW, "metadata": {"team": team}}, {**moved, "metadata": {"team": "red"}}]
    writer.replace(["red-2"], came, np.stack([embed(str(one["text"])) for one in came]))


def found(view: Any, query: str = "Where did Red Keeper meet Zoe in Nairobi?") -> set[str]:
    return {one["id"] for one in view.now.search(query, 20)["passages"]}


@pytest.mark.parametrize("model", [None, embed])
def test_a_new_version_is_served_to_every_caller_by_its_own_filter(tmp_path: Path, model: Any) -> None:
    writer = written(tmp_path / "folder")
    filters = {"r": {"team": "red"}, "b": {"team": "blue"}, "a": None}
    served = Served(tmp_path / "folder", model, filters=filters)
    assert not served.refresh()
    assert {name: len(view) for name, view in served.views.items()} == {"r": 8, "b": 8, "a": 16}
    for step in ("changed", "merged"):
        if step == "changed":
            change(writer)
        else:
            Folder(tmp_path / "folder").merge(1)
        assert served.refresh(), step
        assert {name: len(view) for name, view in served.views.items()} == {"r": 9, "b": 7, "a": 16}, step
        assert {"red-new", "blue-1"} <= found(served.views["r"])
        assert "red-2" not in found(served.views["r"])
        assert not found(served.views["b"]) & {"red-new", "blue-1"}
        assert served.views["b"].now.passages(["red-new", "blue-1", "blue-2"])["missing"] == ["red-new", "blue-1"]
        fresh = Served(tmp_path / "folder", model, filters=filters)
        for name in filters:
            answers = [one.views[name].now.search("Who met Zoe in Nairobi?", 9) for one in (served, fresh)]
            assert answers[0] == answers[1]


@pytest.mark.parametrize("model", [None, embed])
def test_a_folder_that_is_emptied_and_filled_again_is_served(tmp_path: Path, model: Any) -> None:
    writer, filters = written(tmp_path / "folder"), {"r": {"team": "red"}, "a": None}
    served = Served(tmp_path / "folder", model, filters=filters)
    writer.replace(list(writer.index.records))
    assert served.refresh()
    for one in (served, Served(tmp_path / "folder", model, filters=filters)):
        for view in one.views.values():
            assert (len(view), found(view), view.now.explain("Who met Zoe?")["passages"]) == (0, set(), [])
    writer.replace([], [{**NEW, "metadata": {"team": "red"}}], np.stack([embed(str(NEW["text"]))]))
    assert served.refresh()
    assert [found(view) for view in served.views.values()] == [{"red-new"}, {"red-new"}]


def test_an_index_that_is_written_anew_is_served(tmp_path: Path) -> None:
    rows = corpus()
    GraphIndex.build(rows).save(tmp_path / "index")
    served = Served(tmp_path / "index", filters={"": None})
    GraphIndex.build([*rows, {**NEW, "metadata": {"team": "red"}}]).save(tmp_path / "index")
    assert served.refresh()
    assert "red-new" in found(served.views[""])


def test_requests_under_way_finish_on_the_version_that_they_began_with(tmp_path: Path) -> None:
    writer = written(tmp_path / "folder")
    served = Served(tmp_path / "folder", filters={"": {"team": "red"}})
    view, plain = served.views[""], served.views[""].now._gatherer.gather
    answers: dict[str, Any] = {}

    def slowly(*given: Any, **more: Any) -> Any:
        change(writer)
        assert served.refresh()
        answers["later"] = view.now.search("Red Keeper in Nairobi", 20)
        return plain(*given, **more)

    old = view.now
    old._gatherer.gather = slowly  # type: ignore[method-assign]
    answers["under way"] = view.now.search("Red Keeper in Nairobi", 20)
    ids = {name: {one["id"] for one in told["passages"]} for name, told in answers.items()}
    assert "red-new" in ids["later"]
    assert "red-2" not in ids["later"]
    assert "red-new" not in ids["under way"]
    assert "red-2" in ids["under way"]
    assert view.now is not old


def test_a_version_that_cannot_be_read_leaves_the_old_one_served(tmp_path: Path) -> None:
    writer = written(tmp_path / "folder")
    served = Served(tmp_path / "folder", embed, filters={"": None})
    change(writer)
    file = next((tmp_path / "folder" / "changes" / "00000001").glob("embeddings*"))
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with pytest.warns(PhasegraphWarning, match="the old version stays: embeddings.*damaged"):
        assert not served.refresh()
    assert not served.refresh()  # said once
    assert "red-2" in found(served.views[""])
    file.write_bytes(whole)
    assert served.refresh()
    assert "red-new" in found(served.views[""])
    other = EmbeddingModel(object(), embed, lambda records: [embed(one.text)[::-1] for one in records])
    writer.reembed(other, [embed(one.text)[::-1].copy() for one in writer.index.records.values()])
    with pytest.warns(PhasegraphWarning, match="embedded again with object"):
        assert not served.refresh()


@pytest.mark.servers
def test_a_server_answers_from_a_change_without_a_restart(tmp_path: Path, tenants: Path) -> None:
    writer = written(tmp_path / "folder")

    def ask(address: str, team: str) -> set[str]:
        body = json.dumps({"query": "Where did Red Keeper meet Zoe in Nairobi?", "k": 20}).encode()
        headers = {"Authorization": f"Bearer {TOKENS[team]}", "Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(f"{address}/search", body, headers), timeout=20) as answer:
            return {one["id"] for one in json.load(answer)["passages"]}

    with running(str(tmp_path / "folder"), "--tenants", str(tenants)) as address:
        assert "red-new" not in ask(address, "red")
        change(writer)
        until = time.monotonic() + 60
        while "red-new" not in ask(address, "red"):
            assert time.monotonic() < until
            time.sleep(0.1)
        assert "blue-1" in ask(address, "red")
        assert not ask(address, "blue") & {"red-new", "blue-1"}
