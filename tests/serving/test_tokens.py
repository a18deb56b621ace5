"""The tokens of a running server follow their file; if in doubt, a token is refused."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from phasegraph.apps.cli import serve

OLD, NEW = "old-" + "o" * 40, "new-" + "n" * 40


class Looks:
    """A server that looks at its file when the test says so."""

    def __init__(self, path: Path) -> None:
        self.path, self.renewed = path, list[dict[str, str]]()

    def follow(self, read: Callable[[], Any] | None = None, tenants: bool = False) -> None:
        def clients() -> Any:
            return serve._clients(*((self.path, None) if tenants else (None, self.path)), None)

        self._file = serve.TokenFile(self.path, read or clients, clients(), self.renewed.append)

    def look(self, times: int = 2) -> list[dict[str, str]]:
        for _ in range(times):
            self._file.look()
        return self.renewed


@pytest.fixture
def looks(tmp_path):
    return Looks(tmp_path / "tokens")


def tenants(**of: object) -> str:
    return json.dumps({name: {"token": NEW, "filter": only} for name, only in of.items()})


@pytest.mark.parametrize(("before", "after"), [({"team": "red"}, {"team": "blue"}), ({"n": 1}, {"n": True})])
def test_a_tenant_with_another_filter_is_refused_instead_of_served_by_the_old_filter(looks, caplog, before, after):
    looks.path.write_text(tenants(red=before).replace(NEW, OLD))
    looks.follow(tenants=True)
    looks.path.write_text(tenants(red=after))
    assert looks.look() == [{}]
    assert "refused until then: red" in caplog.text
    looks.path.write_text(tenants(red=before))
    assert looks.look()[1:] == [{NEW: "red"}]


TEXTS = {"empty": b"", "short": OLD[:10].encode(), "no text": b"\xff" + OLD.encode()}


@pytest.mark.parametrize("damage", ["removed", "unreadable", *TEXTS])
def test_without_a_readable_file_every_token_is_refused(looks, caplog, damage):
    caplog.set_level(logging.INFO, "phasegraph")
    looks.path.write_text(OLD)
    looks.follow()
    assert looks.look() == []
    if damage in ("removed", "unreadable"):
        looks.path.unlink()
    if damage == "unreadable":
        looks.path.mkdir()  # permissions would not stop the user root
    if damage in TEXTS:
        looks.path.write_bytes(TEXTS[damage])
    assert looks.look(6) == [{}]
    assert [one.levelname for one in caplog.records] == ["ERROR"]
    assert "every token is refused: " in caplog.text
    assert "tokens" in caplog.records[0].getMessage().partition("refused: ")[2]  # the path of the file
    assert OLD[:10] not in caplog.text
    assert "0xff" not in caplog.text
    if damage == "unreadable":
        looks.path.rmdir()
    looks.path.write_text(OLD)
    assert looks.look() == [{}, {OLD: "all"}]


def test_a_file_that_is_being_written_is_not_read(looks):
    looks.path.write_text(OLD)
    looks.follow()
    looks.look()
    for written in (b"", NEW[:20].encode(), NEW[:30].encode()):
        looks.path.write_bytes(written)
        assert looks.look(1) == []
    looks.path.write_text(NEW)
    assert looks.look() == [{NEW: "all"}]


def test_a_file_that_was_replaced_within_the_time_of_one_look_is_no_fault(looks, caplog):
    looks.path.write_text(OLD)
    looks.follow()
    looks.look()
    looks.path.unlink()
    looks.look(1)
    looks.path.write_text(NEW)
    assert looks.look() == [{NEW: "all"}]
    assert "ERROR" not in {one.levelname for one in caplog.records}


def test_a_file_that_cannot_be_read_once_is_read_again(looks):
    faults: list[BaseException] = [OSError("Too many open files"), MemoryError()]

    def read() -> Any:
        if faults:
            raise faults.pop()
        return serve._clients(None, looks.path, None)

    looks.path.write_text(OLD)
    looks.follow(read)
    assert looks.look(2) == [{}]
    looks.look(5)
    assert looks.renewed[-1] == {OLD: "all"}


def test_a_change_that_keeps_the_size_and_the_time_of_the_file_is_seen(looks):
    looks.path.write_text(OLD)
    looks.follow()
    looks.look()
    then = looks.path.stat()
    with looks.path.open("r+") as file:
        file.write(NEW)
    os.utime(looks.path, ns=(then.st_atime_ns, then.st_mtime_ns))
    assert looks.look() == [{NEW: "all"}]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no /dev/fd")
def test_a_pipe_is_read_once(monkeypatch):
    """A shell passes `--token-file <(…)` as a pipe, which is empty after the first look."""
    monkeypatch.setattr(serve, "Thread", lambda **_: pytest.fail("a thread was started"))
    reads, writes = os.pipe()
    os.close(writes)
    try:
        serve.TokenFile(Path(f"/dev/fd/{reads}"), dict, ({OLD: "all"}, {"all": None}), print).follow()
    finally:
        os.close(reads)
