"""The tests that LlamaIndex's own packages run for every retriever.

Unlike LangChain, LlamaIndex has no conformance suite. Its packages check only the base class. The other tests here
check the documented behavior of the base class.
"""

import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llamaindex_stores import ids_of, simple

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever
from phasegraph.graph import build_graph

NODES = [TextNode(id_=f"p{row}", text=f"Ada met Bo in town {row}.") for row in range(9)]
GRAPH = build_graph([{"id": node.node_id, "text": node.text} for node in NODES])
MADE = {
    "CalibratedFusionRetriever": lambda: CalibratedFusionRetriever(vector=simple(), similarity_top_k=2),
    "EntityGraphRetriever": lambda: EntityGraphRetriever(GRAPH, NODES, similarity_top_k=2),
}


@pytest.mark.parametrize("kind", [CalibratedFusionRetriever, EntityGraphRetriever])
def test_class(kind):
    names_of_base_classes = [base.__name__ for base in kind.__mro__]
    assert BaseRetriever.__name__ in names_of_base_classes


@pytest.mark.parametrize("name", MADE)
async def test_a_text_and_a_bundle_give_nodes_with_scores_sync_and_async(name):
    retriever = MADE[name]()
    found = retriever.retrieve("Where did Ada meet Bo?")
    assert len(found) == 2
    assert all(isinstance(hit, NodeWithScore) and isinstance(hit.score, float) for hit in found)
    assert ids_of(retriever.retrieve(QueryBundle("Where did Ada meet Bo?"))) == ids_of(found)
    assert ids_of(await retriever.aretrieve("Where did Ada meet Bo?")) == ids_of(found)


@pytest.mark.parametrize("name", MADE)
def test_the_prompts_of_the_base_class_are_there_and_empty(name):
    assert MADE[name]().get_prompts() == {}


def test_the_namespace_packages_of_the_framework_stay_importable():
    import llama_index.core
    import llama_index.retrievers.bm25

    import llama_index.retrievers

    assert getattr(llama_index.retrievers, "__file__", None) is None
    assert llama_index.core.__version__
