"""The shared tests that no hit is lost without a warning, for LlamaIndex."""

import pytest
from llama_index.core.base.response.schema import Response
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import IndexNode, NodeWithScore, TextNode
from tests.suites.losses import LossSuite

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever
from phasegraph import PhasegraphWarning


class Returns(BaseRetriever):
    """A LlamaIndex retriever that returns the value that its constructor received."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def _retrieve(self, query_bundle):
        return self.answer


class Says(CustomQueryEngine):
    """A query engine that returns an answer but has no ``retrieve``."""

    said: object = "the answer"

    def custom_query(self, query_str):
        return self.said


class TestLosses(LossSuite):
    retriever = CalibratedFusionRetriever
    reads_metadata = False

    def document(self, name, text, **metadata):
        return TextNode(id_="" if name is None else name, text=text, metadata=metadata)

    def id_of(self, document):
        return document.node_id

    def asked(self, retriever):
        return [(one.node.node_id, one.node.get_content()) for one in retriever.retrieve("q")]

    @pytest.mark.filterwarnings("ignore:source .* returns hits without an id")
    @pytest.mark.parametrize("answer", [["one", "two"], [("one", 0.9), ("two", 0.3)], [{"text": "one"}, "two"]])
    def test_plain_texts_of_a_retriever_are_hits(self, answer):
        retriever = CalibratedFusionRetriever(retrievers={"f": Returns(answer)})
        assert [text for _, text in self.asked(retriever)] == ["one", "two"]

    @pytest.mark.asyncio
    @pytest.mark.filterwarnings("ignore:source .* returns hits without an id")
    async def test_plain_texts_are_hits_where_they_are_awaited(self):
        async def search(query):
            return ["one", "two"]

        retriever = CalibratedFusionRetriever(retrievers={"f": search})
        assert [one.node.get_content() for one in await retriever.aretrieve("q")] == ["one", "two"]

    def test_of_a_repeated_id_in_a_retriever_the_best_is_kept(self):
        hits = [("a", "low", 0.1), ("b", "x", 0.5), ("a", "best", 0.9), ("c", "y", 0.3)]
        answer = [NodeWithScore(node=TextNode(id_=name, text=text), score=score) for name, text, score in hits]
        with pytest.warns(PhasegraphWarning, match=r"different texts under one id \('a'\)"):
            found = self.asked(
                CalibratedFusionRetriever(retrievers={"f": self.spec(Returns(answer), higher_is_better=True)})
            )
        assert ("a", "best") in found

    def spec(self, retriever, **fields):
        from llama_index.retrievers.phasegraph import HitFields, SourceSpec

        return SourceSpec(retriever=retriever, fields=HitFields(**fields))

    def test_a_node_that_stands_for_a_retriever_is_entered(self):
        inner = Returns([NodeWithScore(node=TextNode(id_="deep", text="deep"), score=0.8)])
        node = IndexNode(id_="i", text="an index", index_id="i", obj=inner)
        outer = Returns(
            [NodeWithScore(node=node, score=0.9), NodeWithScore(node=TextNode(id_="x", text="x"), score=0.2)]
        )
        assert self.asked(CalibratedFusionRetriever(retrievers={"f": outer})) == [("deep", "deep"), ("x", "x")]

    @pytest.mark.filterwarnings("ignore:source .* returns hits without an id")
    def test_a_query_engine_gives_what_its_answer_stands_on_or_its_words(self):
        node = NodeWithScore(node=TextNode(id_="a", text="source"), score=0.5)
        for engine, text in [
            (Says(), "the answer"),
            (Says(said=Response(response="words", source_nodes=[node])), "source"),
            (lambda query: Response(response="words", source_nodes=[node]), "source"),
            (lambda query: Response(response="words"), "words"),
        ]:
            assert [said for _, said in self.asked(CalibratedFusionRetriever(retrievers={"f": engine}))] == [text]

    def test_texts_with_and_without_a_score_in_one_answer_are_an_error_and_not_dropped(self):
        sources = {"f": lambda q: ["one", ("two", 0.4)], "g": lambda q: [(TextNode(id_="a", text="a"), 1.0)]}
        retriever = CalibratedFusionRetriever(retrievers=sources)
        with pytest.warns(PhasegraphWarning, match="some hits are pairs with a score"):
            found = self.asked(retriever)
        assert found == [("a", "a")]
