"""The facts of a data set: packed embeddings, and every damaged file named."""

import json

import numpy as np
import pytest

from phasegraph._support.vector_files import read_packed
from phasegraph.errors import InsufficientDataError, InvalidInputError
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.triple_facts import load_facts


@pytest.fixture
def packed(folder):
    row = {"id": "p00", "triples": [["Ada Lovelace", "daughter of", "Lord Byron"], ["Ada", "met", "Charles Babbage"]]}
    (folder / "triples.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    width = np.load(folder / "queries.f16.npy").shape[1]
    np.save(folder / "facts.i8.npy", np.full((2, width), 127, dtype=np.int8))
    np.save(folder / "facts.scale.f16.npy", np.full((2, 1), 1 / 127 / width**0.5, dtype=np.float16))
    return folder


def test_packed_facts_are_whole_numbers_times_scale(packed):
    found = load_facts(load_dataset(packed)).vectors
    assert np.linalg.norm(found, axis=1) == pytest.approx([1.0, 1.0], abs=0.01)
    again = read_packed(packed / "facts.i8.npy", packed / "facts.scale.f16.npy", 2, "facts")
    assert np.array_equal(found, again)


@pytest.mark.parametrize("name", ["facts.i8.npy", "facts.scale.f16.npy"])
@pytest.mark.parametrize("damage", ["cut", "text", "short", "other kind"])
def test_a_damaged_file_of_facts_is_named(packed, name, damage):
    path = packed / name
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-1])
    elif damage == "text":
        path.write_text("no array", encoding="utf-8")
    elif damage == "short":
        np.save(path, np.load(path)[:1])
    else:
        np.save(path, np.array(["a", "b"]))
    with pytest.raises(InvalidInputError, match=name):
        load_facts(load_dataset(packed))


def test_facts_without_scales_or_with_scales_that_are_no_numbers_are_named(packed):
    np.save(packed / "facts.scale.f16.npy", np.array([[1.0], [np.nan]], dtype=np.float16))
    with pytest.raises(InvalidInputError, match=r"facts.scale.f16.npy: scales must be finite; row 1"):
        load_facts(load_dataset(packed))
    (packed / "facts.scale.f16.npy").unlink()
    with pytest.raises(InvalidInputError, match=r"facts.scale.f16.npy: the file does not exist"):
        load_facts(load_dataset(packed))


@pytest.mark.parametrize("name", ["facts.i8.npy", "facts.f16.npy"])
def test_facts_of_another_width_than_the_queries_are_refused(packed, name):
    np.save(packed / name, np.ones((2, 3), dtype=np.int8 if name == "facts.i8.npy" else np.float16))
    with pytest.raises(InvalidInputError, match=rf"{name}: the file must have as many columns as queries.f16.npy"):
        load_facts(load_dataset(packed))


def test_triples_that_join_nothing_are_too_little_to_walk_on(packed):
    (packed / "triples.jsonl").write_text('{"id": "p00", "triples": [["?", "met", ""]]}\n', encoding="utf-8")
    with pytest.raises(InsufficientDataError, match="a subject and an object"):
        load_facts(load_dataset(packed))
