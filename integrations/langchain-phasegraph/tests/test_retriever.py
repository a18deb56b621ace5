"""The drop-in promises: the sources' own documents, scores, provenance, k, weights, save and load."""

import asyncio
import copy
import json

import pytest
from langchain_core.documents import Document
from langchain_core.prompts import PromptTemplate, format_document
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_stores import Listed, ids_of, listed, pairs

from langchain_phasegraph import HitFields, PhaseGraphRetriever, SourceSpec
from phasegraph import FusionPipeline, PhasegraphWarning, RecencyPrior, Result, UnitPrior

SHOWN = {"score_key": "score", "metadata_key": "phasegraph"}


def two(**more):
    first = pairs(a=9.0, b=8.0, c=5.0, d=2.0, e=1.0)
    second = pairs(c=0.9, a=0.8, f=0.3, g=0.2, h=0.1)
    return PhaseGraphRetriever(retrievers={"first": lambda q: first, "second": lambda q: second}, **more)


def test_the_answer_is_the_cores_decision_in_the_sources_documents():
    retriever = two(k=4, **SHOWN)
    found, result = retriever.invoke("q"), retriever.explain("q")
    assert isinstance(result, Result)
    assert ids_of(found) == list(result.ids)
    assert [d.page_content for d in found] == [f"text of {d.id}" for d in found]
    assert [d.metadata["score"] for d in found] == result.scores.tolist()
    for document in found:
        block = document.metadata["phasegraph"]
        parts = sum(one["contribution"] for one in block["sources"].values())
        assert parts + block["bonus"] == pytest.approx(block["fused"], abs=1e-9)
        assert block["sources"]["first"]["raw"] == result.evidence(document.id).sources[0].raw


def test_sync_async_and_batches_agree():
    retriever = two()
    answer = retriever.invoke("q")
    assert asyncio.run(retriever.ainvoke("q")) == answer
    assert retriever.batch(["q", "q"]) == [answer, answer]
    assert asyncio.run(retriever.abatch(["q", "q"])) == [answer, answer]
    assert asyncio.run(retriever.aexplain("q")).ids == retriever.explain("q").ids


@pytest.mark.parametrize("k", [0, 1, 3, 8, 1_000_000_000])
def test_k_is_a_field_and_a_keyword_and_changes_neither_scores_nor_order(k):
    whole = two(k=100).invoke("q")
    assert two(k=k).invoke("q") == whole[:k] == two().invoke("q", k=k) == asyncio.run(two().ainvoke("q", k=k))


def test_k_can_be_assigned():
    retriever = two()
    retriever.k = 2
    assert len(retriever.invoke("q")) == 2


def test_copies_are_returned_and_only_of_the_winners():
    documents = [Document(f"t{i}", id=str(i), metadata={"deep": {"n": i}}) for i in range(5)]
    before = copy.deepcopy(documents)
    found = PhaseGraphRetriever(retrievers={"s": Listed(answer=documents)}, k=2).invoke("q")
    assert documents == before
    assert all(document is not own for document in found for own in documents)
    assert found[0].metadata["deep"] == {"n": 0}


def test_a_users_own_score_is_kept_and_score_and_evidence_come_on_request():
    source = {"s": listed("a", "b", score="A+")}
    first = PhaseGraphRetriever(retrievers=source, **SHOWN).invoke("q")[0]
    assert first.metadata["score"] == "A+"
    assert 0 <= first.metadata["phasegraph"]["score"] <= 1
    assert (
        type(PhaseGraphRetriever(retrievers=source, score_key="relevance").invoke("q")[0].metadata["relevance"])
        is float
    )
    assert PhaseGraphRetriever(retrievers={"s": listed("a")}).invoke("q")[0].metadata == {}


def test_provenance_stays_out_of_a_prompt():
    document = two(k=1, **SHOWN).invoke("q")[0]
    assert format_document(document, PromptTemplate.from_template("{page_content}")) == "text of a"
    assert two(k=1).invoke("q")[0].metadata == {}


def test_the_document_of_the_heaviest_source_is_returned_and_another_text_is_warned_of():
    sources = {"a": lambda q: [Document("from a", id="x")], "b": lambda q: [Document("from b", id="x")]}
    retriever = PhaseGraphRetriever(retrievers=sources, weights={"a": 1, "b": 2})
    assert retriever.invoke("q")[0].page_content == "from b"
    assert retriever.explain("q").warnings[-1] == "id 'x' has another text in a than in b, which was kept"


def test_different_ids_with_one_text_stay_two_and_repeats_in_one_source_count_once():
    twins = [Document("same", id="1"), Document("same", id="2"), Document("same", id="1")]
    assert ids_of(PhaseGraphRetriever(retrievers={"s": Listed(answer=twins)}).invoke("q")) == ["1", "2"]


def test_ids_come_from_metadata_where_documents_have_none_and_are_set():
    answer = [Document("x", metadata={"pk": 7})]
    assert ids_of(PhaseGraphRetriever(retrievers={"s": Listed(answer=answer)}).invoke("q")) == ["7"]


def test_an_id_function_maps_graph_nodes_to_their_passage_and_resolve_gives_its_text():
    triple = Document("Rome -> capital of -> Italy", id="random", metadata={"chunk": "c1"})
    passages = {"c1": Document("Rome is the capital of Italy.", id="c1")}
    spec = SourceSpec(
        retriever=Listed(answer=[triple]),
        fields=HitFields(id=lambda d: d.metadata["chunk"], resolve=lambda ids: {i: passages[i] for i in ids}),
    )
    retriever = PhaseGraphRetriever(graph=spec, vector=Listed(answer=[passages["c1"]]), **SHOWN)
    (found,) = retriever.invoke("q")
    assert (found.id, found.page_content) == ("c1", "Rome is the capital of Italy.")
    assert {one["rank"] for one in found.metadata["phasegraph"]["sources"].values()} == {1.0}


async def test_resolve_may_be_a_coroutine_and_may_lack_passages():
    async def resolve(ids):
        return [Document("resolved", id=ids[0]), None]

    class Native(Listed):
        async def _aget_relevant_documents(self, query, *, run_manager):
            return self.answer

    documents = [Document("one", id="1"), Document("two", id="2")]
    retriever = PhaseGraphRetriever(
        graph=SourceSpec(retriever=Native(answer=documents), fields=HitFields(resolve=resolve))
    )
    for found in (await retriever.ainvoke("q"), await asyncio.to_thread(retriever.invoke, "q")):
        assert [d.page_content for d in found] == ["resolved", "two"]
    assert (await retriever.aexplain("q")).reports[0].notes[-1] == "resolve gave no passage for 1 of 2 ids"


def test_scores_are_read_from_a_function_a_key_or_a_known_key():
    scored = [
        Document("x", id=i, metadata={"d": d, "relevance_score": -d}) for i, d in (("a", 3.0), ("b", 1.0), ("c", 2.0))
    ]
    for spec in (
        SourceSpec(retriever=Listed(answer=scored), fields=HitFields(score="d", higher_is_better=False)),
        SourceSpec(
            retriever=Listed(answer=scored), fields=HitFields(score=lambda d: -d.metadata["d"], higher_is_better=True)
        ),
        SourceSpec(retriever=Listed(answer=scored)),
    ):
        assert list(PhaseGraphRetriever(retrievers={"s": spec}).explain("q").candidates.rankings[0].ids) == [
            "b",
            "c",
            "a",
        ]


def test_a_distance_declared_or_inferred_is_turned_round():
    distances = pairs(a=0.1, b=0.5, c=2.0, d=3.0, e=4.0)
    inferred = PhaseGraphRetriever(retrievers={"s": lambda q: distances})
    assert ids_of(inferred.invoke("q")) == list("abcde")
    assert inferred.explain("q").reports[0].notes == ("lower is better: inferred from the order of its scores",)
    shuffled = [distances[i] for i in (3, 0, 4, 1, 2)]
    declared = PhaseGraphRetriever(
        retrievers={"s": SourceSpec(retriever=lambda q: shuffled, fields=HitFields(higher_is_better=False))}
    )
    assert ids_of(declared.invoke("q")) == list("abcde")
    assert "contradicts" in declared.explain("q").reports[0].notes[0]
    unknown = PhaseGraphRetriever(retrievers={"s": lambda q: shuffled})
    assert ids_of(unknown.invoke("q")) == list("daebc")
    assert unknown.explain("q").reports[0].notes[0].startswith("rank only")


def test_a_direction_once_inferred_serves_later_answers_that_tell_nothing():
    answers = iter([pairs(a=1.0, b=2.0, c=3.0), pairs(a=3.0, b=3.0, c=2.5)])
    retriever = PhaseGraphRetriever(retrievers={"s": lambda q: next(answers)})
    retriever.invoke("q")
    assert ids_of(retriever.invoke("q"))[0] == "c"


def test_a_function_gets_the_limit_if_it_takes_one_and_longer_answers_are_cut_to_the_best():
    seen = []

    def search(query, limit):
        seen.append(limit)
        return pairs(c=1.0, b=2.0, a=3.0)

    spec = SourceSpec(retriever=search, limit=2, fields=HitFields(higher_is_better=False))
    assert set(ids_of(PhaseGraphRetriever(retrievers={"s": spec}).invoke("q"))) == {"b", "c"}
    assert seen == [2]


async def test_runnables_texts_coroutines_and_nested_retrievers_are_sources():
    async def search(query):
        return pairs(a=3.0, b=2.0, c=1.0)

    inner = PhaseGraphRetriever(retrievers={"s": lambda q: pairs(a=3.0, b=2.0, c=1.0)}, **SHOWN)
    retriever = PhaseGraphRetriever(
        retrievers={
            "async": search,
            "lambda": RunnableLambda(lambda q: [Document("text of a", id="a")]),
            "inner": inner,
        },
        **SHOWN,
    )
    for found in (retriever.invoke("q"), await retriever.ainvoke("q")):
        assert found[0].id == "a"
        block = found[0].metadata["phasegraph"]
        assert block["sources"]["inner"]["evidence"]["sources"]["s"]["raw"] == 3.0
        assert found[0].metadata["score"] == block["score"]
        json.dumps(block, allow_nan=False)


def test_texts_are_documents_with_a_hashed_id_and_one_warning():
    retriever = PhaseGraphRetriever(retrievers={"s": lambda q: ["one", "two"]})
    with pytest.warns(PhasegraphWarning, match="without an id"):
        assert [d.page_content for d in retriever.invoke("q")] == ["one", "two"]
    retriever.invoke("q")


def test_configurable_fields_of_a_source_reach_it(store):
    own = store.as_retriever().configurable_fields(search_kwargs=ConfigurableField(id="search_kwargs"))
    retriever = PhaseGraphRetriever(vector=own)
    config = {"configurable": {"search_kwargs": {"filter": lambda d: d.metadata["page"] == 3}}}
    assert ids_of(retriever.invoke("what?", config)) == ["p3"]
    assert ids_of(asyncio.run(retriever.ainvoke("what?", config))) == ["p3"]


def test_its_own_fields_can_be_made_configurable():
    retriever = two().configurable_fields(k=ConfigurableField(id="k"))
    assert len(retriever.invoke("q", {"configurable": {"k": 2}})) == 2


def test_a_source_of_weight_zero_is_not_asked():
    retriever = PhaseGraphRetriever(
        vector=lambda q: pairs(a=1.0),
        graph=SourceSpec(retriever=lambda q: pytest.fail("asked"), weight=0),
    )
    assert ids_of(retriever.invoke("q")) == ["a"]
    assert [report.source for report in retriever.explain("q").reports] == ["vector"]


def test_a_source_of_weight_zero_that_another_needs_is_asked_and_not_fused():
    def graph(query, upstream):
        return pairs(**{f"g{i}": 1.0 for i in upstream["vector"].ids})

    retriever = PhaseGraphRetriever(
        vector=SourceSpec(retriever=lambda q: pairs(a=1.0), weight=0),
        graph=SourceSpec(retriever=graph, depends_on=["vector"], weight=1),
    )
    assert ids_of(retriever.invoke("q")) == ["ga"]


def test_the_scale_of_weights_and_the_order_of_sources_do_not_matter():
    legs = {"first": lambda q: pairs(a=2.0, b=1.5, c=1.0), "second": lambda q: pairs(c=9.0, d=8.0, a=7.0)}
    answers = [
        PhaseGraphRetriever(retrievers=retrievers, weights={"first": 1 * scale, "second": 2 * scale}).invoke("q")
        for retrievers in (legs, dict(reversed(legs.items())))
        for scale in (1, 7)
    ]
    assert all(ids_of(answer) == ids_of(answers[0]) for answer in answers)


def test_priors_read_the_hits_and_a_result_reaches_the_callback():
    told = []
    found = [
        Document("one", id="a", metadata={"importance": 0.0, "at": "2020-01-01"}),
        *listed("b", importance=1).answer,
    ]
    priors = (UnitPrior("importance"), RecencyPrior(half_life=86400.0, key="at"))
    pipeline = FusionPipeline(priors=priors)
    PhaseGraphRetriever(retrievers={"s": Listed(answer=found)}, pipeline=pipeline, on_result=told.append).invoke("q")
    assert told[0].ids == ("b", "a")
    assert told[0].priors.min() < told[0].priors.max()


async def test_a_listener_that_raises_costs_a_warning_and_may_be_a_coroutine():
    def broken(result):
        raise KeyError("x")

    with pytest.warns(PhasegraphWarning, match="KeyError"):
        assert two(on_result=broken).invoke("q")
    told = []

    async def listen(result):
        told.append(result)

    await two(on_result=listen).ainvoke("q")
    assert len(told) == 1


def test_the_papers_pipeline_can_be_used_as_it_is():
    retriever = PhaseGraphRetriever(
        vector=lambda q: pairs(a=0.62, b=0.55, c=0.41, d=0.40, e=0.12),
        graph=lambda q: pairs(c=0.31, f=0.02, b=0.004, g=0.001),
        pipeline=FusionPipeline.phasegraph(),
    )
    found = retriever.explain("q")
    assert found.ids[:3] == ("a", "c", "b")
    assert found.fused[:3].round(6).tolist() == [0.393196, 0.28426, 0.217723]
