"""Results are written in one step: what stood there stays until all of the new is there."""

import os
import threading

import pytest

from phasegraph.evaluation.runs import Run, write_run, write_text
from phasegraph.ranking import Ranking


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch):
    path = tmp_path / "out.run"
    path.write_text("old", encoding="utf-8")

    def full(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        write_run(Run("r", {"q": Ranking("r", ["a"], [1.0])}), path)
    assert path.read_text(encoding="utf-8") == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["out.run"]


def test_a_link_is_followed(tmp_path):
    (tmp_path / "there").write_text("old", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there").read_text(encoding="utf-8") == "new"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe_takes_the_text_and_stays_a_pipe(tmp_path):
    path, got = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: got.append(path.read_text(encoding="utf-8")), daemon=True)
    reader.start()
    write_text(path, "new")
    reader.join(10)
    assert got == ["new"]
    assert path.is_fifo()


def test_a_new_file_can_be_read_by_whom_the_system_lets(tmp_path):
    (tmp_path / "plain").touch()
    write_text(tmp_path / "written", "x")
    assert (tmp_path / "written").stat().st_mode == (tmp_path / "plain").stat().st_mode
