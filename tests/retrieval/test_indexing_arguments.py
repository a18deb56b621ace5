"""The arguments of constructors from passages are checked before anything is read."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from phasegraph.errors import InvalidTypeError
from phasegraph.graph import Extraction
from phasegraph.retrieval.indexing import Indexing


@pytest.mark.parametrize("record", [("a", "b", "c"), SimpleNamespace(nodes=[]), {"id": "a"}])
def test_triples_in_another_form_are_refused_with_the_right_form(record: object) -> None:
    said = rf"list contains a {type(record).__name__}\. For LangChain's graph documents, use langchain_phasegraph\.extr"
    with pytest.raises(InvalidTypeError, match=said):
        Indexing(triples=[Extraction("a"), record])


def test_triples_by_passage_and_extractions_are_taken_as_they_are() -> None:
    for triples in ({"a": [("x", "y", "z")]}, [Extraction("a")], None):
        assert Indexing(triples=triples).triples is triples
