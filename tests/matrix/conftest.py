"""Shared set-up of the matrix: its helper modules by name, the slice, and the servers that some stores need."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

pytest.importorskip("langchain_core", reason="LangChain is not installed")
pytest.importorskip("llama_index.core", reason="LlamaIndex is not installed")

from matrix_servers import Servers
from matrix_slice import real_slice


@pytest.fixture(scope="session")
def servers():
    with Servers() as started:
        yield started


@pytest.fixture(scope="session")
def data():
    return real_slice()
