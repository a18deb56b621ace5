"""Vectors for a selection: the nodes' embeddings, or the first source's model, which must answer in time."""

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import NodeWithScore, TextNode
from llamaindex_stores import Listed, TextModel

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever
from phasegraph import DegradedError, FusionPipeline
from phasegraph.selection import SelectionPolicy

APART = SelectionPolicy(mu=5.0)
SCORES = {"a": 9.0, "aa": 8.9, "b": 5.0, "c": 1.0}


def letters(text):
    return [float(text.count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"]


class Plain(TextModel):
    def _get_text_embedding(self, text):
        return letters(text)


def source(*with_vector):
    return Listed(
        [
            NodeWithScore(
                node=TextNode(id_=name, text=name, embedding=letters(name) if name in with_vector else None),
                score=score,
            )
            for name, score in SCORES.items()
        ]
    )


def apart(embed_model=None, *with_vector, **more):
    vector = source(*with_vector)
    vector._embed_model = embed_model
    return CalibratedFusionRetriever(vector=vector, k=2, selection=APART, **more)


def test_the_model_of_an_index_embeds_its_candidates():
    index = VectorStoreIndex([TextNode(id_=name, text=name) for name in ("ab", "abb", "bc")], embed_model=Plain())
    for given in (index, index.as_retriever()):
        assert CalibratedFusionRetriever(vector=given, k=2).explain("ab").ids == ("ab", "abb")
        result = CalibratedFusionRetriever(vector=given, k=2, selection=APART).explain("ab")
        assert result.warnings == ()
        assert result.ids == ("ab", "bc")


def test_vectors_that_all_nodes_carry_are_used_and_nothing_is_embedded():
    class Never(Plain):
        def _get_text_embedding(self, text):
            raise AssertionError("all nodes carry a vector")

    assert apart(None, *SCORES).explain("q").ids == ("a", "b")
    assert apart(Never(), *SCORES).explain("q").warnings == ()
    assert apart(Plain(), "a").explain("q").ids == ("a", "b")


async def test_without_a_vector_or_an_embedder_the_answer_is_the_fused_one_and_says_so():
    for result in (apart().explain("q"), await apart().aexplain("q")):
        assert result.ids == ("a", "aa")
        assert "no source has an embedding model, and some hits have no embedding" in result.warnings[-1]


def test_a_selection_without_embeddings_degrades_the_answer():
    strict = CalibratedFusionRetriever(vector=source(), selection="mmr", strict=True)
    strict.calibrate([f"question {n}" for n in range(24)], progress=False)
    with pytest.raises(DegradedError, match="no source has an embedding model"):
        strict.explain("q")


def test_a_number_of_nodes_that_was_assigned_is_saved_and_wins_over_a_file(tmp_path):
    path = tmp_path / "pipeline.json"
    retriever = CalibratedFusionRetriever(vector=source())
    retriever.similarity_top_k = 2
    retriever.save(path)
    assert FusionPipeline.load(path).k == 2
    FusionPipeline(k=5).save(path)
    assert len(retriever.load_pipeline(path).retrieve("q")) == 2
    assert CalibratedFusionRetriever(vector=source()).load_pipeline(path).similarity_top_k == 5
