"""Embeddings on disk: unit length after reading, and every damaged file named."""

import warnings

import numpy as np
import pytest

from phasegraph._support.vector_files import read_vectors
from phasegraph.errors import InvalidInputError

LINES = "corpus.jsonl"


def test_embeddings_of_any_length_are_scaled_to_one(tmp_path):
    rows = np.array([[3.0, 4.0], [0.6, 0.8], [1e-30, 0.0], [3e30, 4e30]])
    np.save(tmp_path / "v.npy", rows)
    found = read_vectors(tmp_path / "v.npy", 4, LINES)
    assert found == pytest.approx(np.array([[0.6, 0.8], [0.6, 0.8], [1.0, 0.0], [0.6, 0.8]]))
    assert not found.flags.writeable


def test_unit_length_in_half_precision_stays_to_the_bit(tmp_path):
    drawn = np.random.default_rng(0).normal(size=(20, 384))
    half = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float16)
    np.save(tmp_path / "v.npy", half)
    assert np.array_equal(read_vectors(tmp_path / "v.npy", 20, LINES), half.astype(np.float32))


@pytest.mark.parametrize(
    ("value", "message"),
    [(0.0, "must not be all zeros; row 1"), (1e200, r"must be finite; row 1 .* is not finite in float32")],
)
def test_rows_without_a_direction_are_named_and_nothing_is_warned(tmp_path, value, message):
    rows = np.ones((3, 4))
    rows[1] = value
    np.save(tmp_path / "v.npy", rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidInputError, match=rf"v.npy.*{message}"):
            read_vectors(tmp_path / "v.npy", 3, LINES)


def test_a_header_that_is_no_python_is_refused(tmp_path):
    file = tmp_path / "passages.npy"
    np.save(file, np.ones((3, 2), dtype=np.float16))
    file.write_bytes(file.read_bytes().replace(b"'shape': (3, 2), }", b"'shape': (3, 2  {"))
    with pytest.raises(InvalidInputError, match=r"must be a complete \.npy array"):
        read_vectors(file, 3, "corpus.jsonl")
