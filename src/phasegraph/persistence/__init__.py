"""The one container for what is saved: versioned, checksummed, size-capped; JSON and npy, never pickle.

A *document* is one JSON file (a pipeline). A *bundle* is a directory (a graph): one JSON manifest that names npy
files by their content. The manifest is replaced in one step after everything it names is on disk, so that a process
killed in the middle of saving leaves the old content whole.
"""

from phasegraph.persistence.bundle import read_bundle, write_bundle
from phasegraph.persistence.document import decode_document, encode_document, read_document, write_document

__all__ = [
    "decode_document",
    "encode_document",
    "read_bundle",
    "read_document",
    "write_bundle",
    "write_document",
]
