"""The shared tests of the stages for LlamaIndex, and tests of the stages that only LlamaIndex needs."""

import asyncio

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.base.base_selector import BaseSelector, SelectorResult, SingleSelection
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.callbacks import CallbackManager, LlamaDebugHandler
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.llms import CustomLLM
from llama_index.core.postprocessor import LLMRerank, SimilarityPostprocessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.selectors import LLMMultiSelector
from llama_index.retrievers.bm25 import BM25Retriever
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.event_handlers import BaseEventHandler
from tests.suites.stages import FIRST, SECOND, TEXTS, Letters, StageSuite

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, Corrective, Rerank, SourceSpec, selector_router
from phasegraph import DegradedError, FusionPipeline, InvalidInputError, PhasegraphWarning


class Chat(CustomLLM):
    answer: object

    @property
    def metadata(self):
        return LLMMetadata()

    def complete(self, prompt, formatted=False, **kwargs):
        return CompletionResponse(text=self.answer(prompt))

    def stream_complete(self, prompt, formatted=False, **kwargs):
        yield self.complete(prompt)


class NativeChat(Chat):
    def complete(self, prompt, formatted=False, **kwargs):
        return CompletionResponse(text=self.answer(prompt))

    async def acomplete(self, prompt, formatted=False, **kwargs):
        await asyncio.sleep(0)
        return self.complete(prompt)


class Judge(BaseNodePostprocessor):
    judge: object
    keep: int = 99

    def _postprocess_nodes(self, nodes, query_bundle=None):
        scores = self.judge(query_bundle.query_str, [one.node.get_content() for one in nodes])
        for one, score in zip(nodes, scores, strict=True):
            one.score = score
            one.node.metadata["seen"] = True
        return sorted(nodes, key=lambda one: -one.score)[: self.keep]


class NativeJudge(Judge):
    async def _apostprocess_nodes(self, nodes, query_bundle=None):
        await asyncio.sleep(0)
        return self._postprocess_nodes(nodes, query_bundle)

    def _postprocess_nodes(self, nodes, query_bundle=None):
        return super()._postprocess_nodes(nodes, query_bundle)


class Reorder(BaseNodePostprocessor):
    """A postprocessor that returns an order without scores."""

    judge: object

    def _postprocess_nodes(self, nodes, query_bundle=None):
        scores = self.judge(query_bundle.query_str, [one.node.get_content() for one in nodes])
        return [nodes[row] for row in sorted(range(len(nodes)), key=lambda row: -scores[row])]


class Inventing(BaseNodePostprocessor):
    def _postprocess_nodes(self, nodes, query_bundle=None):
        return [NodeWithScore(node=TextNode(text="a secret of another tenant", id_="z"), score=1.0)]


class TestLlamaIndexStages(StageSuite):
    retriever = CalibratedFusionRetriever

    def hits(self, scores):
        return [
            NodeWithScore(node=TextNode(text=TEXTS.get(name, name), id_=name), score=score)
            for name, score in scores.items()
        ]

    def source(self, scores, seen=None):
        return self.source_of(lambda query: scores, seen)

    def source_of(self, lists, seen=None):
        def search(query, limit=None):
            if seen is not None:
                seen.append(query)
            return sorted(self.hits(lists(query)), key=lambda hit: -hit.score)[:limit]

        return search

    def ask(self, retriever, query="q"):
        return [hit.node_id for hit in retriever.retrieve(query)]

    async def aask(self, retriever, query="q"):
        return [hit.node_id for hit in await retriever.aretrieve(query)]

    def chat(self, answer, *, native=False):
        return (NativeChat if native else Chat)(answer=answer)

    def reranking(self, judge):
        return [Judge(judge=judge), NativeJudge(judge=judge), Reorder(judge=judge)]

    def dropping(self):
        return [Judge(judge=Letters("fedcba"), keep=0)]

    def inventing(self):
        return [Inventing()]

    def in_a_chain(self, retriever, query):
        synthesizer = get_response_synthesizer(llm=self.chat(lambda prompt: "It is so."), response_mode="compact")
        engine = RetrieverQueryEngine(retriever, response_synthesizer=synthesizer)
        found = [hit.node_id for hit in engine.query(query).source_nodes]
        assert [hit.node_id for hit in asyncio.run(engine.aquery(query)).source_nodes] == found
        return found


SUITE = TestLlamaIndexStages()


class Letter(MockEmbedding):
    """An embedding model that embeds a text by its first letter and records the texts."""

    asked: list = []  # noqa: RUF012

    def _get_query_embedding(self, query):
        self.asked.append(query)
        return [float(query.startswith(letter)) for letter in "abcdef"]

    _get_text_embedding = _get_query_embedding

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)


@pytest.mark.parametrize("original", [False, True])
def test_the_texts_that_a_query_transform_wants_embedded_reach_the_index(original):
    model = Letter(embed_dim=6)
    nodes = [TextNode(text=text, id_=name) for name, text in TEXTS.items()]
    index = VectorStoreIndex(nodes, embed_model=model)
    transform = HyDEQueryTransform(llm=SUITE.chat(lambda prompt: "fig, I think"), include_original=original)
    expected = index.as_retriever(similarity_top_k=6).retrieve(transform.run("apple?"))
    model.asked.clear()
    retriever = CalibratedFusionRetriever(vector=SourceSpec(retriever=index, rewrite=transform))
    assert SUITE.both(retriever, "apple?")[0] == expected[0].node_id
    assert set(model.asked) == ({"fig, I think", "apple?"} if original else {"fig, I think"})
    raw = {one.id: one for one in map(retriever.explain("apple?").evidence, [hit.node_id for hit in expected])}
    assert all(raw[hit.node_id].sources[0].raw == pytest.approx(hit.score) for hit in expected)
    both = SourceSpec(retriever=index, rewrite=transform, combine="union", fetch_k=1)
    assert "a" in SUITE.both(CalibratedFusionRetriever(vector=both), "apple?")
    assert original or set(SUITE.both(CalibratedFusionRetriever(vector=both), "apple?")) == {"a", "f"}


def test_a_postprocessor_that_drops_puts_the_rest_behind_and_its_nodes_are_copies():
    nodes = SUITE.hits(FIRST)
    retriever = SUITE.made(vector=lambda query: nodes, rerank=Judge(judge=Letters("fedcba"), keep=2))
    plain = list(SUITE.made().explain("q").ids)
    assert SUITE.both(retriever) == ["f", "e", *(one for one in plain if one not in "ef")]
    assert all("seen" not in hit.node.metadata for hit in nodes)
    assert [hit.score for hit in nodes] == list(FIRST.values())


def test_the_frameworks_own_reranker_over_a_language_model():
    def answer(prompt):
        return "Doc: 2, Relevance: 9\nDoc: 1, Relevance: 4"

    found = SUITE.ask(SUITE.made(rerank=LLMRerank(llm=SUITE.chat(answer), top_n=2)))
    plain = list(SUITE.made().explain("q").ids)
    assert found == [plain[1], plain[0], *plain[2:]]


class Second(BaseSelector):
    def _select(self, choices, query):
        return SelectorResult(selections=[SingleSelection(index=1, reason=choices[1].description)])

    async def _aselect(self, choices, query):
        return self._select(choices, query)

    def _get_prompts(self):
        return {}

    def _update_prompts(self, prompts_dict):
        pass


def test_a_selector_routes():
    described = {"graph": "who knows whom", "vector": "texts"}
    assert set(SUITE.both(SUITE.made(route=selector_router(Second(), described)))) == set(FIRST)
    assert set(SUITE.both(SUITE.made(route=Second()))) == set(FIRST)  # choices are the names: graph, vector
    chosen = SUITE.chat(lambda prompt: '[{"choice": 1, "reason": "people"}]')
    multi = LLMMultiSelector.from_defaults(llm=chosen)
    assert set(SUITE.both(SUITE.made(route=selector_router(multi, described)))) == set(SECOND)


def test_a_model_of_no_kind_is_an_error_that_names_the_argument():
    for argument in ({"rerank": 3}, {"route": 7}, {"corrective": 1}):
        with pytest.raises(TypeError, match=r"rerank|router|corrective"):
            SUITE.made(**argument)
    with pytest.raises(TypeError, match="selector must be"):
        selector_router(Letters("a"), {"vector": "texts"})


def lettered():
    nodes = [TextNode(text=text, id_=name) for name, text in TEXTS.items()]
    return VectorStoreIndex(nodes, embed_model=Letter(embed_dim=6))


def rewriting():
    return HyDEQueryTransform(llm=SUITE.chat(lambda prompt: "fig, I think"), include_original=False)


def stage_of(retriever, query="apple?"):
    async def later():
        return await retriever.aexplain(query)

    results = retriever.explain(query), asyncio.run(later())
    (report,), (other,) = (result.extras["stages"] for result in results)
    assert (report.status, report.reason) == (other.status, other.reason)
    return report, results[0]


@pytest.mark.parametrize("combine", ["single", "union"])
@pytest.mark.parametrize("source", ["function", "BM25Retriever"])
def test_a_transform_over_a_source_that_embeds_nothing_is_unused(source, combine):
    nodes = [TextNode(text=text, id_=name) for name, text in TEXTS.items()]
    given = SUITE.source(FIRST) if source == "function" else BM25Retriever(nodes=nodes, similarity_top_k=6)
    plain = CalibratedFusionRetriever(retrievers={"words": given})
    retriever = CalibratedFusionRetriever(
        retrievers={"words": SourceSpec(retriever=given, rewrite=rewriting(), combine=combine)}
    )
    with pytest.warns(PhasegraphWarning, match=r"'words' is not used \(the source embeds no text\)") as seen:
        report, result = stage_of(retriever)
    assert sum("is not used" in str(one.message) for one in seen) == 1
    assert (report.stage, report.source, report.status) == ("rewrite", "words", "unused")
    assert "embeds no text" in report.reason
    assert any("rewrite of 'words' unused" in one for one in result.warnings)
    assert result.ids == plain.explain("apple?").ids
    strict = CalibratedFusionRetriever(
        retrievers={"words": SourceSpec(retriever=given, rewrite=rewriting(), combine=combine)},
        pipeline=FusionPipeline.reciprocal_rank(),
        strict=True,
    )
    with pytest.raises(DegradedError, match="rewrite unused"):
        strict.retrieve("apple?")


def test_a_transform_is_used_where_a_retriever_within_the_source_embeds_its_texts():
    index = lettered()
    fused = QueryFusionRetriever([index.as_retriever()], llm=SUITE.chat(lambda prompt: ""), num_queries=1)
    for given in (index, fused, index.as_query_engine(llm=SUITE.chat(lambda prompt: ""))):
        retriever = CalibratedFusionRetriever(vector=SourceSpec(retriever=given, rewrite=rewriting()))
        report, result = stage_of(retriever)
        assert (report.status, result.ids[0]) == ("ok", "f")


def test_the_vectors_and_the_walk_of_nodes_embed_the_texts_of_a_transform():
    model = Letter(embed_dim=6)
    nodes = [TextNode(text=text, id_=name) for name, text in TEXTS.items()]
    made = CalibratedFusionRetriever.from_nodes(nodes, embed_model=model, progress=False)
    bundle = rewriting().run("apple?")
    for source in (made.graph, made._whole["vector"].whole):
        model.asked.clear()
        assert "f" in {hit.node_id for hit in source.retrieve(bundle)[:2]}, "the question's own words count, too"
        assert "f" in {hit.node_id for hit in asyncio.run(source.aretrieve(bundle))[:2]}
        assert set(model.asked) == {"fig, I think"}
        report, _ = stage_of(CalibratedFusionRetriever(vector=SourceSpec(retriever=source, rewrite=rewriting())))
        assert report.status == "ok"
    model.asked.clear()
    assert "f" in {hit.node_id for hit in made.retrieve(bundle)[:2]}
    assert set(model.asked) == {"fig, I think"}


def test_a_transform_that_changes_the_query_itself_is_used_by_a_source_that_embeds_nothing():
    class Both(HyDEQueryTransform):
        def _run(self, query_bundle, metadata):
            found = super()._run(query_bundle, metadata)
            return QueryBundle("fig?", custom_embedding_strs=found.custom_embedding_strs)

    seen = []
    spec = SourceSpec(retriever=SUITE.source(FIRST, seen), rewrite=Both(llm=SUITE.chat(lambda prompt: "x")))
    report, _ = stage_of(CalibratedFusionRetriever(vector=spec))
    assert (report.status, seen) == ("ok", ["fig?", "fig?"])


@pytest.mark.filterwarnings("ignore:.*is not used:phasegraph.PhasegraphWarning")
def test_a_correction_whose_new_texts_no_source_embeds_is_unused():
    corrective = Corrective(grade=lambda query, texts: 0, rewrite=rewriting())
    report, result = stage_of(CalibratedFusionRetriever(vector=SUITE.source(FIRST), corrective=corrective))
    assert (report.stage, report.status, report.detail["action"]) == ("correct", "unused", "kept")
    assert set(result.ids) <= set(FIRST)
    report, result = stage_of(CalibratedFusionRetriever(vector=lettered(), corrective=corrective))
    assert (report.status, result.ids[0]) == ("ok", "f")


def test_the_core_has_plain_text_of_a_query_that_a_transform_gave_other_texts_to_embed():
    corrective = Corrective(grade=lambda query, texts: 0, rewrite=rewriting())
    seen = []

    def transformed(query):
        seen.append(query)
        return query

    specs = {"vector": SourceSpec(retriever=lettered(), rewrite=transformed)}
    result = CalibratedFusionRetriever(retrievers=specs, corrective=corrective).explain("apple?")
    report = result.extras["stages"][-1]
    assert (report.stage, report.status, result.ids[0]) == ("correct", "ok", "f")
    assert [type(one) for one in (*seen, *report.detail["texts"])] == [str] * 3


@pytest.mark.filterwarnings("ignore:.*is not used:phasegraph.PhasegraphWarning")
def test_what_listens_to_an_unused_transform_does_not_make_it_used():
    handler = LlamaDebugHandler(print_trace_on_end=False)
    words = SUITE.source(FIRST)
    retriever = CalibratedFusionRetriever(
        retrievers={"words": SourceSpec(retriever=words, rewrite=rewriting())},
        callback_manager=CallbackManager([handler]),
    )
    events = []

    class Listener(BaseEventHandler):
        def handle(self, event, **kwargs):
            events.append(event.model_dump())

    get_dispatcher().add_event_handler(Listener())
    try:
        report, _ = stage_of(retriever)
    finally:
        get_dispatcher().event_handlers.pop()
    assert events
    assert report.status == "unused"


def test_a_threshold_on_scores_is_refused_as_a_reranker():
    threshold = SimilarityPostprocessor(similarity_cutoff=0.5)
    for given in (threshold, Rerank(threshold)):
        with pytest.raises(InvalidInputError, match=r"SimilarityPostprocessor drops .* give accept="):
            SUITE.made(rerank=given)
