"""Products of a matrix with a vector: the blocks, and what they add up to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phasegraph._support.products import times_vector


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "columns"), [(0, 4), (1, 9216), (3, 384), (24, 384), (25, 384), (97, 384), (9, 5000)])
def test_it_is_the_product(rows: int, columns: int, dtype: Any) -> None:
    draw = np.random.default_rng(rows + columns)
    matrix, vector = draw.normal(size=(rows, columns)).astype(dtype), draw.normal(size=columns).astype(dtype)
    found = times_vector(matrix, vector)
    assert (found.dtype, found.shape) == (dtype, (rows,))
    np.testing.assert_allclose(found, matrix @ vector, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(times_vector(np.asfortranarray(matrix), vector), found, rtol=1e-4, atol=1e-4)


def test_no_block_is_large_enough_for_helper_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: list[tuple[int, ...]] = []
    multiply = np.matmul

    def counted(matrix: Any, vector: Any, out: Any) -> Any:
        shapes.append(matrix.shape[-2:])
        return multiply(matrix, vector, out=out)

    monkeypatch.setattr(np, "matmul", counted)
    for columns in (4, 384, 2303, 2304, 5000, 9216):
        times_vector(np.ones((3000, columns), dtype=np.float32), np.ones(columns, dtype=np.float32))
    assert len(shapes) == 12
    for rows, columns in shapes:
        assert rows * columns < 9216 or rows == 1
