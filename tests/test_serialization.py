from __future__ import annotations

import hashlib
import json
import os
import random
from pathlib import Path

import numpy as np
import pytest

from phasegraph import FusionPipeline, IntegrityError, InvalidInputError, PhasegraphError, fit_reference_ecdf
from phasegraph._support import serialization
from phasegraph._support.serialization import (
    MANIFEST,
    decode_document,
    encode_document,
    read_bundle,
    write_bundle,
    write_document,
)


def _fitted() -> FusionPipeline:
    ecdf = fit_reference_ecdf(np.random.default_rng(0).normal(size=300), normal_scores=True, fraction=5e-5)
    return FusionPipeline(calibrators={"vector": ecdf}, weights={"vector": 0.1, "graph": 0.7}, k=7)


def test_a_saved_pipeline_comes_back_bit_equal(tmp_path: Path) -> None:
    _fitted().save(tmp_path / "p.json")
    assert FusionPipeline.load(tmp_path / "p.json").to_dict() == _fitted().to_dict()


def test_saving_replaces_the_file_in_one_step_and_leaves_nothing_behind(tmp_path: Path) -> None:
    for k in (1, 2):
        FusionPipeline(k=k).save(tmp_path / "p.json")
    assert FusionPipeline.load(tmp_path / "p.json").k == 2
    assert [file.name for file in tmp_path.iterdir()] == ["p.json"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format="pickle"), "did not write this file"),
        (lambda d: d.update(kind="graph"), "kind"),
        (lambda d: d.update(version=2), "newer"),
        (lambda d: d.update(version=True), "version"),
        (lambda d: d.update(version=0), "version"),
        (lambda d: d["body"].update(k=8), "checksum"),
        (lambda d: d.pop("body"), "body"),
        (lambda d: d.update(sha256="0"), "checksum"),
    ],
)
def test_a_file_that_was_changed_is_refused_and_named(tmp_path: Path, change: object, message: str) -> None:
    file = tmp_path / "p.json"
    _fitted().save(file)
    document = json.loads(file.read_text())
    change(document)  # type: ignore[operator]
    file.write_text(json.dumps(document))
    with pytest.raises(IntegrityError, match=message) as caught:
        FusionPipeline.load(file)
    assert "p.json" in str(caught.value)


def test_a_body_with_an_intact_checksum_but_a_wrong_field_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="fields"):
        FusionPipeline.from_dict({"colour": 1})


@pytest.mark.parametrize("data", [b"", b"\x80\x04\x95", b"[" * 100_000, b'{"format": "phasegraph"}', b"null", b"NaN"])
def test_foreign_bytes_are_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "p.json").write_bytes(data)
    with pytest.raises(IntegrityError):
        FusionPipeline.load(tmp_path / "p.json")


def test_a_file_over_the_size_cap_is_refused_before_it_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phasegraph._support.serialization.MAX_DOCUMENT_BYTES", 100)
    FusionPipeline().save(tmp_path / "p.json")
    with pytest.raises(IntegrityError, match="at most 100 bytes"):
        FusionPipeline.load(tmp_path / "p.json")


def test_two_thousand_mutated_files_give_a_library_error_or_the_same_pipeline() -> None:
    original = encode_document("pipeline", 1, _fitted().to_dict())
    rng = random.Random(5)
    for _ in range(2000):
        data = bytearray(original)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(data))
            if rng.random() < 0.3:
                del data[place : place + rng.randint(1, 40)]
            else:
                data[place] = rng.randrange(256)
        try:
            body = decode_document(bytes(data), "pipeline", 1)
        except PhasegraphError:
            continue
        assert FusionPipeline.from_dict(body).to_dict() == _fitted().to_dict()


def test_a_document_cannot_hold_nan() -> None:
    with pytest.raises(InvalidInputError, match="finite"):
        encode_document("pipeline", 1, {"k": float("nan")})


def _arrays() -> dict[str, np.ndarray]:
    return {"weights": np.arange(300_000, dtype=np.float32), "ids": np.arange(10, dtype=np.int32)}


def test_a_bundle_comes_back_mapped_and_read_only(tmp_path: Path) -> None:
    write_bundle(tmp_path / "g", "graph", 1, {"n": 5}, _arrays())
    body, arrays = read_bundle(tmp_path / "g", "graph", 1)
    assert body == {"n": 5}
    np.testing.assert_array_equal(arrays["weights"], _arrays()["weights"])
    assert isinstance(arrays["weights"], np.memmap)
    assert not arrays["ids"].flags.writeable


def test_a_second_save_replaces_the_first_and_removes_its_files(tmp_path: Path) -> None:
    write_bundle(tmp_path, "graph", 1, {}, _arrays())
    write_bundle(tmp_path, "graph", 1, {}, {"ids": np.zeros(3, dtype=np.int32)})
    _, arrays = read_bundle(tmp_path, "graph", 1)
    assert sorted(arrays) == ["ids"]
    assert sorted(file.name.split(".")[0] for file in tmp_path.iterdir()) == ["", "ids", "manifest"]  # "": the lock


def test_a_save_that_dies_in_the_middle_leaves_the_old_bundle_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bundle(tmp_path, "graph", 1, {"old": True}, _arrays())

    def die(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("phasegraph._support.serialization.write_document", die)
    with pytest.raises(OSError, match="space"):
        write_bundle(tmp_path, "graph", 1, {"old": False}, {"weights": np.zeros(9, dtype=np.float32)})
    body, arrays = read_bundle(tmp_path, "graph", 1)
    assert body == {"old": True}
    assert arrays["weights"].shape == (300_000,)


def _damage(directory: Path, how: str) -> str:
    file = next(file for file in directory.iterdir() if file.name.startswith("weights"))
    data = bytearray(file.read_bytes())
    if how == "truncated":
        file.write_bytes(data[:-100])
    elif how == "flipped":
        data[-1] ^= 1
        file.write_bytes(data)
    else:
        file.unlink()
    return file.name


@pytest.mark.parametrize("how", ["truncated", "flipped", "missing"])
def test_a_damaged_array_is_named(tmp_path: Path, how: str) -> None:
    write_bundle(tmp_path, "graph", 1, {}, _arrays())
    name = _damage(tmp_path, how)
    with pytest.raises(IntegrityError, match=name):
        read_bundle(tmp_path, "graph", 1)


def test_a_manifest_cannot_point_outside_its_directory(tmp_path: Path) -> None:
    entry = {"file": "../../secret.npy", "sha256": "", "bytes": 1, "shape": [], "dtype": "<f4"}
    data = encode_document("graph", 1, {"arrays": {"w": entry}, "content": {}})
    (tmp_path / "manifest.json").write_bytes(data)
    with pytest.raises(IntegrityError, match="the file name of an array is invalid"):
        read_bundle(tmp_path, "graph", 1)


@pytest.mark.parametrize("arrays", [{"Bad name": np.zeros(1)}, {"o": np.array([{}], dtype=object)}])
def test_names_and_types_of_arrays_must_be_plain(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    with pytest.raises(InvalidInputError):
        write_bundle(tmp_path, "graph", 1, {}, arrays)


def test_a_saved_file_is_as_readable_as_any_other_new_file_and_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    FusionPipeline().save(tmp_path / "p.json")
    assert (tmp_path / "p.json").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "p.json").chmod(0o640)
    FusionPipeline(k=3).save(tmp_path / "p.json")
    assert (tmp_path / "p.json").stat().st_mode & 0o777 == 0o640


def test_a_bundle_has_so_many_arrays_and_no_more_and_is_mapped_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serialization, "MAPPED_BYTES", 64)
    write_bundle(tmp_path, "graph", 1, {}, {"x": np.arange(99), "y": np.ones(99)})
    for most in (1, 2):
        monkeypatch.setattr(serialization, "_MOST_ARRAYS", most)
        if most == 1:
            with pytest.raises(IntegrityError):
                serialization.open_bundle(tmp_path, "graph", 1)
        else:
            found = serialization.open_bundle(tmp_path, "graph", 1).arrays
            assert all(isinstance(one, np.memmap) for one in found.values())


def test_a_sparse_file_in_place_of_an_array_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bomb: a terabyte that takes no space on disk, and that a checksum would read for an hour."""
    write_bundle(tmp_path, "graph", 1, {}, {"x": np.arange(99)})
    (array,) = tmp_path.glob("x.*.npy")
    os.truncate(array, 1 << 40)
    monkeypatch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("the bomb was read"))
    with pytest.raises(IntegrityError, match=f"it has {1 << 40}"):
        read_bundle(tmp_path, "graph", 1)
    manifest = json.loads((tmp_path / MANIFEST).read_bytes())["body"]
    manifest["arrays"]["x"] |= {"bytes": 1 << 40, "shape": [1 << 37]}  # the forged manifest agrees
    write_document(tmp_path / MANIFEST, "graph", 1, manifest)
    with pytest.raises(IntegrityError, match=f"it has {1 << 40}"):
        read_bundle(tmp_path, "graph", 1)
