"""Shared set-up of the matrix: its helper modules by name, the slice, and what rows make on the servers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


from matrix_servers import Servers
from matrix_slice import real_slice


@pytest.fixture(scope="module")
def servers(real_servers):
    """Closed after each module, so that other tests find the databases empty."""
    with Servers(real_servers) as shared:
        yield shared


@pytest.fixture(scope="session")
def data():
    return real_slice()
