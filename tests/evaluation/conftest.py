"""The small data set on disk, as a fixture."""

import pytest
from tiny import write_dataset


@pytest.fixture
def folder(tmp_path):
    return write_dataset(tmp_path / "tiny")
