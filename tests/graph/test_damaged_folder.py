"""Folders that a fuzzer damaged and sealed again: what had escaped as a foreign error."""

from __future__ import annotations

import pytest

from phasegraph._support.serialization import read_document, write_document
from phasegraph.errors import IntegrityError
from phasegraph.graph import GraphIndex
from phasegraph.graph.corpus import change, folder
from phasegraph.graph.corpus.folder import Folder
from phasegraph.graph.model import storage

KINDS = {"graph/manifest.json": (storage.KIND, storage.VERSION), folder.STATE: (folder.KIND, change.VERSION)}


@pytest.mark.parametrize(("file", "lost"), [("graph/manifest.json", "content"), (folder.STATE, "settings")])
def test_a_folder_whose_documents_lack_a_part_is_refused(tmp_path, file, lost):
    folder = Folder.create(tmp_path / "folder", GraphIndex.build([{"id": "a", "text": "Ada met Bo."}]), {})
    body = read_document(folder.path / file, *KINDS[file])
    write_document(folder.path / file, *KINDS[file], {name: one for name, one in body.items() if name != lost})
    opened = Folder(folder.path)
    with pytest.raises(IntegrityError):
        print(opened.settings, opened.load())


def test_a_folder_without_the_manifest_of_its_graph_is_refused(tmp_path):
    folder = Folder.create(tmp_path / "folder", GraphIndex.build([{"id": "a", "text": "Ada met Bo."}]), {})
    (folder.path / "graph" / "manifest.json").unlink()
    with pytest.raises(IntegrityError, match=r"manifest\.json is missing"):
        Folder(folder.path).load()


@pytest.mark.parametrize(
    ("files", "advice"),
    [
        (["graph/arrays.bin", ".lock"], "if the creation of the folder was interrupted, delete the folder"),
        (["graph/arrays.bin", "thesis.md"], "check the path"),
        (["thesis.md"], "check the path"),
        ([], "check the path"),
        (["manifest.json"], "it contains an index that phasegraph index wrote without --sync"),
    ],
)
def test_only_the_remains_of_a_creation_may_be_deleted(tmp_path, files, advice):
    for one in files:
        (tmp_path / one).parent.mkdir(exist_ok=True)
        (tmp_path / one).touch()
    with pytest.raises(IntegrityError, match=advice) as raised:
        print(Folder(tmp_path).settings)
    assert ("delete" in str(raised.value)) == ("delete" in advice)
