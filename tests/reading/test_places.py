"""Folders and archives: which files are read, which are skipped and why, and that no archive reaches beyond itself."""

from __future__ import annotations

import io
import os
import socket
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tiny import write_dataset

from phasegraph import InvalidInputError
from phasegraph.reading import archives, read_files
from phasegraph.reading.files import FolderReader


def zipped(path, **members: str):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def tarred(path, mode="w:gz", links=(), **members: str):
    with tarfile.open(path, mode) as archive:
        for name, target in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


def refuse(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let the system refuse to list a folder, also for the superuser."""
    plain = os.scandir

    def scandir(path):
        if Path(path) == folder:
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return plain(path)

    monkeypatch.setattr(os, "scandir", scandir)


LINK = "a link"
MEMBERS = {"docs/a.md": "# Ada\nShe met Bo.", "docs/.hidden.md": "no", "docs/pic.png": "no"}


def test_a_notebook_and_a_parquet_file_are_skipped_with_the_command_that_reads_them(tmp_path) -> None:
    (tmp_path / "a.ipynb").write_text("{}")
    (tmp_path / "b.md").write_text("Ada met Bo.")
    (tmp_path / "c.parquet").write_bytes(b"PAR1")
    notebook, parquet = read_files(tmp_path).notes()
    assert "jupyter nbconvert --to markdown" in notebook
    assert "phasegraph index FILE --engine local" in parquet


def test_a_folder_is_read_in_order_without_hidden_files_and_links(tmp_path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.md").write_text("no")
    (tmp_path / "b" / "two.txt").write_text("Bo left.")
    (tmp_path / "one.txt").write_text("Ada met Bo.")
    (tmp_path / "pic.png").write_bytes(b"\0")
    os.symlink("/etc/hostname", tmp_path / "link.txt")
    os.symlink(tmp_path / "b", tmp_path / "linked")
    found = read_files(tmp_path)
    assert [one.id for one in found.passages] == ["one.txt#1", "b/two.txt#1"]
    assert str(found) == "2 files (2 text), 2 passages"
    assert found.notes() == [
        "skipped 2 files: links are not followed (linked, link.txt)",
        "skipped 1 file: no reader for this kind of file (pic.png)",
    ]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe_and_a_socket_are_skipped_and_not_opened(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.txt").write_text("Ada met Bo.")
    os.mkfifo(tmp_path / "pipe.txt")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("s.txt")  # macOS limits the length of the path
        found = read_files(tmp_path)
    assert found.notes() == ["skipped 2 files: it is not a regular file (pipe.txt, s.txt)"]
    with pytest.raises(InvalidInputError, match=r"pipe\.txt: it is not a regular file"):
        read_files(tmp_path / "pipe.txt")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse a file name that is not UTF-8")
def test_a_file_whose_name_cannot_be_decoded_is_read(tmp_path) -> None:
    path = os.fsencode(tmp_path) + b"/bad\xff.txt"
    with open(path, "w") as file:
        file.write("Ada met Bo.")
    for place in (tmp_path, Path(os.fsdecode(path))):
        (passage,) = read_files(place).passages
        assert (passage.id, passage.title) == (r"bad\udcff.txt#1", r"bad\udcff")


def test_a_folder_that_cannot_be_opened_is_named(tmp_path, monkeypatch) -> None:
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "sub" / "deep" / "b.txt").write_text("Bo left.")
    (tmp_path / "one.txt").write_text("Ada met Bo.")
    refuse(monkeypatch, tmp_path / "sub")
    found = read_files(tmp_path)
    assert found.notes() == ["skipped 1 folder: the folder cannot be opened: Permission denied (sub/)"]
    refuse(monkeypatch, tmp_path)
    with pytest.raises(InvalidInputError, match="the folder cannot be opened: Permission denied"):
        read_files(tmp_path)


def test_a_file_in_a_folder_that_may_only_be_listed_is_skipped(tmp_path, monkeypatch) -> None:
    (tmp_path / "one.txt").write_text("Ada met Bo.")
    (tmp_path / "two.txt").write_text("Bo left.")
    plain = Path.lstat

    def lstat(path):
        if path.name == "two.txt":
            raise PermissionError(13, "Permission denied", path)
        return plain(path)

    monkeypatch.setattr(Path, "lstat", lstat)
    assert read_files(tmp_path).notes() == ["skipped 1 file: the file cannot be opened: Permission denied (two.txt)"]


def test_a_file_that_could_not_be_opened_is_opened_again_and_a_damaged_archive_is_not(tmp_path, monkeypatch) -> None:
    (tmp_path / "a.txt").write_text("Ada met Bo.")
    (tmp_path / "b.zip").write_bytes(b"not an archive")
    (tmp_path / "c.txt").write_text("Cy sang.")
    plain, opened = Path.open, []

    def refused(path, *args, **options):
        opened.append(path.name)
        if opened == ["a.txt"]:
            raise PermissionError(13, "Permission denied", path)
        return plain(path, *args, **options)

    monkeypatch.setattr(Path, "open", refused)
    monkeypatch.setattr(
        "phasegraph.reading.files.members_of", lambda path: opened.append(path.name) or archives.members_of(path)
    )
    reader = FolderReader(tmp_path)
    assert reader.read().skipped["a.txt"] == "the file cannot be opened: Permission denied"
    assert reader.read().skipped.keys() == {"b.zip"}
    assert opened == ["a.txt", "b.zip", "c.txt", "a.txt"]


@pytest.mark.parametrize(
    "make", [lambda path: zipped(path / "a.zip", **MEMBERS), lambda path: tarred(path / "a.tgz", **MEMBERS)]
)
def test_an_archive_is_read_as_the_folder_that_it_holds(tmp_path, make) -> None:
    path = make(tmp_path)
    found = read_files(path)
    assert [one.id for one in found.passages] == [f"{path.name}/docs/a.md#1"]
    assert list(found.skipped) == [f"{path.name}/docs/pic.png"]
    assert sorted(os.listdir(tmp_path)) == [path.name]
    assert [one.id for one in read_files(tmp_path).passages] == [f"{path.name}/docs/a.md#1"]


@pytest.mark.parametrize("name", ["../../evil.md", "/etc/evil.md", "a/../../evil.md", "..\\evil.md", "C:\\evil.md"])
@pytest.mark.parametrize("make", [zipped, tarred])
def test_a_member_that_leads_out_of_the_archive_is_skipped_and_named(tmp_path, make, name) -> None:
    suffix = ".zip" if make is zipped else ".tar.gz"
    path = make(tmp_path / f"a{suffix}", **{name: "evil", "good.md": "Ada met Bo."})
    found = read_files(path)
    assert [one.text for one in found.passages] == ["Ada met Bo."]
    assert set(found.skipped.values()) == {"its path leads out of the archive"}


def test_links_in_an_archive_are_not_followed(tmp_path) -> None:
    path = tarred(tmp_path / "a.tar", "w", links=[("l.txt", "/etc/hostname")], **{"a.txt": "Ada met Bo."})
    found = read_files(path)
    assert [one.id for one in found.passages] == ["a.tar/a.txt#1"]
    assert found.skipped == {"a.tar/l.txt": "the entry is a link or a device"}


@pytest.mark.parametrize(("limit", "value"), [("MOST_BYTES", 1000), ("MOST_FILES", 1)])
@pytest.mark.parametrize("make", [zipped, tarred])
def test_what_an_archive_unpacks_to_is_bounded(tmp_path, monkeypatch, make, limit, value) -> None:
    monkeypatch.setattr(archives, limit, value)
    path = make(tmp_path / ("a.zip" if make is zipped else "a.tar.gz"), **{"a.txt": "a " * 300, "b.txt": "b " * 300})
    with pytest.raises(InvalidInputError, match=r"the archive contains more than .* unpack the part that you want"):
        read_files(path)


def test_a_zip_that_lies_about_a_size_is_refused_and_reads_no_more_than_it_said(tmp_path) -> None:
    path = zipped(tmp_path / "a.zip", **{"a.txt": "a" * 100_000})
    data = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = data.find(mark) + place
        data[at : at + 4] = (10).to_bytes(4, "little")
    path.write_bytes(bytes(data))
    with pytest.raises(InvalidInputError, match=r"a\.zip: the archive cannot be read: Bad CRC-32"):
        read_files(path)


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_a_damaged_archive_says_so(tmp_path, name) -> None:
    (tmp_path / name).write_bytes(b"not an archive")
    with pytest.raises(InvalidInputError, match=f"{name}: the archive cannot be read"):
        read_files(tmp_path / name)


def test_a_damaged_archive_in_a_folder_is_skipped_as_a_whole(tmp_path, monkeypatch) -> None:
    (tmp_path / "b.txt").write_text("Bo left.")
    tarred(tmp_path / "c.tar", "w", **{"c.txt": "Cy sang.", "d.txt": "Di slept."})
    monkeypatch.setattr(archives, "MOST_FILES", 1)
    (tmp_path / "a.zip").write_bytes(b"not an archive")
    found = read_files(tmp_path)
    assert [one.id for one in found.passages] == ["b.txt#1"]
    assert list(found.unread) == ["a.zip", "c.tar"]
    assert [note.partition(": ")[2].partition(": ")[0] for note in found.notes()] == ["a.zip", "c.tar"]


def test_an_archive_in_an_archive_is_skipped_with_the_reason(tmp_path) -> None:
    inner = zipped(tmp_path / "inner.zip", **{"a.txt": "Ada"}).read_bytes()
    (tmp_path / "inner.zip").unlink()
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("inner.zip", inner)
        archive.writestr("b.txt", "Bo left.")
    assert read_files(tmp_path).skipped == {
        "a.zip/inner.zip": "the archive is inside another archive: unpack the outer archive"
    }


def test_a_data_set_is_read_without_its_questions(tmp_path) -> None:
    found = read_files(write_dataset(tmp_path / "tiny"))
    assert len(found.passages) == 12
    assert found.passages[0].id == "p00"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "the folder contains no files; phasegraph reads text"),
        ({"a.md": LINK, "b.md": LINK}, r"no readable file: skipped 2 files: links are not followed \(a\.md, b\.md\)"),
        ({"a.png": "x", "b.docx": "x"}, r"no readable file: skipped 2 files: no reader for this .*a\.png, b\.docx"),
        (dict.fromkeys(("a.jsonl", "b.jsonl"), '{"id": "x", "text": "a"}'), "id 'x' in a.jsonl and b.jsonl; give each"),
    ],
)  # fmt: skip
def test_a_folder_without_passages_says_what_can_be_read(tmp_path, files, said) -> None:
    for name, text in files.items():
        if text == LINK:
            (tmp_path / name).symlink_to(__file__)
        else:
            (tmp_path / name).write_text(text)
    with pytest.raises(InvalidInputError, match=said):
        read_files(tmp_path)


def test_a_path_that_is_not_there_is_named(tmp_path) -> None:
    with pytest.raises(InvalidInputError, match=r"nope: there is no such file or folder"):
        read_files(tmp_path / "nope")
