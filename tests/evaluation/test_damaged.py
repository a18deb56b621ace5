"""Files that a fuzzer damaged: what had escaped as a foreign error."""

from __future__ import annotations

import numpy as np
import pytest

from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.datasets import read_vectors
from phasegraph.evaluation.runs import read_qrels


def test_a_grade_beyond_every_float_is_refused(tmp_path):
    (tmp_path / "a.qrels").write_text(f"q1 0 p1 {'9' * 400}\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="a grade must be a whole number"):
        read_qrels(tmp_path / "a.qrels")


def test_a_header_that_is_no_python_is_refused(tmp_path):
    file = tmp_path / "passages.npy"
    np.save(file, np.ones((3, 2), dtype=np.float16))
    file.write_bytes(file.read_bytes().replace(b"'shape': (3, 2), }", b"'shape': (3, 2  {"))
    with pytest.raises(InvalidInputError, match=r"must be a complete \.npy array"):
        read_vectors(file, 3, "corpus.jsonl")
