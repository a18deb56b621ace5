"""Fusion of existing lists."""

import pytest
from llama_index.core.schema import NodeWithScore, TextNode
from llamaindex_stores import hits, ids_of

from llama_index.retrievers.phasegraph import PhaseGraphPostprocessor
from phasegraph import FusionPipeline, InvalidInputError, InvalidTypeError, PhasegraphWarning

ONE = {f"p{i}": 1.0 - i / 10 for i in range(8)}
OTHER = {f"p{i}": float(i) for i in range(7, 1, -1)}


def lists():
    return {"graph": hits(**OTHER), "vector": hits(**ONE)}


def test_as_a_postprocessor_it_groups_by_a_metadata_key():
    nodes = []
    for name, found in lists().items():
        for hit in found:
            hit.node.metadata["source"] = name
            nodes.append(hit)
    fused = PhaseGraphPostprocessor(top_n=3).postprocess_nodes(nodes, query_str="who?")
    assert ids_of(fused) == ids_of(PhaseGraphPostprocessor(top_n=3).fuse(lists()))
    assert PhaseGraphPostprocessor().postprocess_nodes([]) == []


async def test_it_works_async_and_names_its_class():
    nodes = [NodeWithScore(node=TextNode(id_="a", text="a", metadata={"leg": "x"}), score=1.0)]
    processor = PhaseGraphPostprocessor(group_by="leg")
    assert ids_of(await processor.apostprocess_nodes(nodes)) == ["a"]
    assert processor.class_name() == "PhaseGraphPostprocessor"
    assert processor.to_dict()["top_n"] == 10


def test_a_key_that_names_files_instead_of_searches_is_warned_of_once():
    found = hits(**ONE)
    for row, hit in enumerate(found):
        hit.node.metadata["source"] = f"{row // 2 if row < 2 else row}.md"
    processor = PhaseGraphPostprocessor(top_n=3)
    with pytest.warns(PhasegraphWarning, match=r"group_by='source': 8 nodes have 7 values") as seen:
        processor.postprocess_nodes(found)
    processor.postprocess_nodes(found)
    assert len(seen) == 1


@pytest.mark.parametrize("names", [("a", "b", "c"), ("a", "a", "b", "c", "d")])
def test_short_lists_of_several_searches_are_not_warned_of(names):
    found = hits(**ONE)[:3] + hits(**ONE)[:2]
    for name, hit in zip(names, found, strict=False):
        hit.node.metadata["source"] = name
    given = found[: len(names)]  # a warning would raise an error here
    assert len(PhaseGraphPostprocessor().postprocess_nodes(given)) == 3


def test_the_pipelines_own_k_is_top_n():
    assert PhaseGraphPostprocessor(pipeline=FusionPipeline(k=2)).top_n == 2


def test_what_is_wrong_is_named():
    processor = PhaseGraphPostprocessor()
    with pytest.raises(InvalidInputError, match=r"metadata\['source'\]"):
        processor.postprocess_nodes(hits(a=1.0))
    with pytest.raises(InvalidInputError, match="at least one list"):
        processor.fuse({})
    with pytest.raises(InvalidTypeError, match="lists must be a mapping"):
        processor.fuse(hits(a=1.0))
    with pytest.raises(InvalidTypeError, match=r"lists\['x'\]"):
        processor.fuse({"x": [3]})
    with pytest.raises(InvalidTypeError, match=r"lists\['x'\] must be a list of nodes; got a text"):
        processor.fuse({"x": "text"})
    for bad, name in (({"top_n": -1}, "top_n"), ({"group_by": ""}, "group_by"), ({"evidence_key": 1}, "evidence_key"),
                      ({"pipeline": {}}, "pipeline"), ({"fields": {"x": 3}}, "fields")):  # fmt: skip
        with pytest.raises((InvalidInputError, InvalidTypeError), match=name):
            PhaseGraphPostprocessor(**bad)
    with pytest.raises(InvalidTypeError, match="unexpected argument 'topn'; did you mean 'top_n'"):
        PhaseGraphPostprocessor(topn=3)
