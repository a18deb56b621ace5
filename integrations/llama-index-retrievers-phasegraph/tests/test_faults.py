"""Faults of sources: the report names the source, and the answer is the answer without this source."""

from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters
from llamaindex_stores import ids_of

from llama_index.retrievers.phasegraph import (
    CalibratedFusionRetriever,
    EntityGraphRetriever,
)
from phasegraph import Ranking

GOOD = {f"p{i}": 1.0 - i / 10 for i in range(8)}


def test_passages_that_a_narrowed_graph_must_not_name_are_no_answer():
    """A custom source that ignores its filter causes an error, not an unfiltered answer."""

    class Careless:
        depends_on = ()

        def search(self, query, limit, upstream):
            return Ranking("graph", ["blue", "red"], [2.0, 1.0])

        def within(self, allowed):
            return self

        def passage_ids(self):
            return ("blue", "red")

    nodes = [TextNode(id_=name, text=name, metadata={"colour": name}) for name in ("blue", "red")]
    red = MetadataFilters(filters=[MetadataFilter(key="colour", value="red")])
    walk = EntityGraphRetriever(Careless(), nodes)
    retriever = CalibratedFusionRetriever(vector=lambda query, filters: [(nodes[1], 1.0)], graph=walk, filters=red)
    report, _ = retriever.explain("who?").reports
    assert (report.status, "do not match the filters" in report.reason) == ("error", True)
    assert ids_of(retriever.retrieve("who?")) == ["red"]
