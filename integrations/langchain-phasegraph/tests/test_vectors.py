"""A selection that needs vectors raises an error in the constructor if there is no embedding model."""

import pytest

from langchain_phasegraph import PhaseGraphRetriever
from phasegraph import FusionPipeline, InvalidInputError
from phasegraph.selection import SelectionPolicy


def test_a_selection_without_embeddings_is_refused_when_the_retriever_is_built(tmp_path):
    needs = "needs embeddings of the candidates, and no source has an embedding model"
    for method in ("log_det", "mmr"):
        with pytest.raises(InvalidInputError, match=f"selection by {method} {needs}"):
            PhaseGraphRetriever(vector=lambda q: [], selection=method)
    FusionPipeline(selection=SelectionPolicy(mu=5.0)).save(tmp_path / "apart.json")
    with pytest.raises(InvalidInputError, match=needs):
        PhaseGraphRetriever(vector=lambda q: [], pipeline=tmp_path / "apart.json")
