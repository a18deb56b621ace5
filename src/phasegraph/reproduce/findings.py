"""What the figures say, in plain words; read beside the tables they stand under."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

FINDINGS: Mapping[str, str] = MappingProxyType(
    {
        "index": "",
    }
)
