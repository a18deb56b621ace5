"""Invalid values of the arguments that only the LangChain package has."""

import uuid

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_stores import in_memory, listed

from langchain_phasegraph import (
    EntityGraphRetriever,
    HitFields,
    PhaseGraphRetriever,
    SourceSpec,
    fuse_lists,
    keyword_router,
)
from phasegraph import AllSourcesFailed, InvalidInputError, InvalidTypeError, PhasegraphWarning

ONE = {"vector": listed("a")}


def test_a_retriever_inside_itself_is_an_error_when_it_is_built():
    retriever = PhaseGraphRetriever(**ONE)
    outer = PhaseGraphRetriever(vector=retriever)
    for bad in (retriever, outer, outer.with_retry(), SourceSpec(retriever=retriever)):
        with pytest.raises(InvalidInputError, match="the retriever contains itself"):
            retriever.vector = bad
    assert retriever.invoke("q")[0].id == "a"


@pytest.mark.parametrize("k", [-1, True, 1.5, "2"])
def test_a_bad_k_at_the_call_is_an_error(k):
    with pytest.raises(InvalidInputError, match="k must"):
        PhaseGraphRetriever(**ONE).invoke("q", k=k)


class Pairs:
    """A source of the core that returns pairs, or the value that its constructor received."""

    def __init__(self, answer):
        self.answer = answer

    def search(self, query, limit, upstream):
        return self.answer


def test_a_core_source_may_return_pairs_and_what_else_it_returns_is_named():
    ours = PhaseGraphRetriever(retrievers={"core": Pairs([("a", 2.0), ("b", 1.0)]), "vector": listed("a", "b")})
    assert ours.explain("q").reports[0].status == "ok"
    assert [document.id for document in ours.invoke("q")] == ["a", "b"]
    with pytest.raises(AllSourcesFailed, match=r"core: .* must return a Ranking or \(id, score\) pairs; got int"):
        PhaseGraphRetriever(retrievers={"core": Pairs(5)}).invoke("q")


@pytest.mark.parametrize(
    ("make", "given", "meant"),
    [
        (PhaseGraphRetriever.from_documents, "tokeniser", "tokenizer"),
        (PhaseGraphRetriever.from_documents, "triple", "triples"),
        (PhaseGraphRetriever.from_documents, "weight", "weights"),
        (PhaseGraphRetriever.from_vectorstore, "titlekey", "title_key"),
        (PhaseGraphRetriever.load, "acept", "accept"),  # codespell:ignore acept
        (EntityGraphRetriever.from_documents, "known_name", "known_names"),
        (EntityGraphRetriever.load, "embedings", "embeddings"),
    ],
)
def test_a_misspelt_argument_of_a_maker_names_the_nearest_of_its_own_and_of_the_retriever(make, given, meant):
    with pytest.raises(InvalidTypeError, match=f"unexpected argument '{given}'; did you mean '{meant}'"):
        make([], **{given: 1})


def test_a_source_that_ignores_the_filter_is_cut_and_its_report_says_so():
    documents = [Document(name, id=name, metadata={"team": team}) for name, team in (("a", "red"), ("b", "blue"))]
    ours = PhaseGraphRetriever(retrievers={"v": lambda query, filter=None: documents}, filter={"team": "red"})  # noqa: A006
    (report,) = ours.explain("q").reports
    assert "1 of 2 hits dropped: they do not match the filter" in report.notes
    assert [document.id for document in ours.invoke("q")] == ["a"]


def test_an_evidence_key_that_the_documents_have_themselves_is_kept_and_warned_about():
    documents = [Document("a", id="a", metadata={"title": "A"})]
    with pytest.warns(PhasegraphWarning, match="already use the metadata key 'title': its value is unchanged"):
        found = PhaseGraphRetriever(vector=lambda query: documents, evidence_key="title").invoke("q")
    assert found[0].metadata == {"title": "A"}


def test_a_pipeline_is_read_from_the_folder_it_was_saved_in_too(tmp_path):
    ours = PhaseGraphRetriever(**ONE, weights={"vector": 2.0})
    with pytest.raises(InvalidInputError, match="there is no file"):
        PhaseGraphRetriever(**ONE, pipeline=tmp_path)
    ours.save(tmp_path)
    assert PhaseGraphRetriever(**ONE, pipeline=tmp_path).fitted_pipeline.weights == {"vector": 2.0}
    with pytest.raises(InvalidInputError, match="there is no file 'rrf'"):
        ours.load_pipeline("rrf")


@pytest.mark.parametrize("upstream", [None, {}])
def test_a_bad_k_is_named_by_the_graph_retriever_with_and_without_rankings_to_start_from(upstream):
    retriever = EntityGraphRetriever.from_documents([Document("Ada met Bo.", id="a")])
    with pytest.raises(InvalidInputError, match=r"^k must"):
        retriever.invoke("Who met Bo?", k=-1, upstream=upstream)


async def test_an_unknown_keyword_at_the_call_is_an_error_that_says_what_was_probably_meant():
    retriever = PhaseGraphRetriever(**ONE)
    for call in (retriever.invoke, retriever.ainvoke):
        with pytest.raises(InvalidTypeError, match="unexpected argument 'top_k'; did you mean 'k'"):
            await call("q", top_k=3)
    with pytest.raises(InvalidTypeError, match="'weights'; known are filter, k"):
        retriever.invoke("q", weights={"vector": 1})
    assert retriever.invoke("q", run_id=uuid.uuid4())


class Walk(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return []


def test_an_argument_without_a_name_and_a_class_as_a_source_are_explained():
    for given in (Walk(), [Walk(), Walk()]):
        with pytest.raises(InvalidTypeError, match=r"needs its name.*vector=.*retrievers=.*from_documents"):
            PhaseGraphRetriever(given)
    with pytest.raises(InvalidTypeError, match="every argument needs its name"):
        EntityGraphRetriever(Walk())
    with pytest.raises(InvalidTypeError, match=r"got the class Walk; give an object of the class: Walk\(\.\.\.\)"):
        PhaseGraphRetriever(graph=Walk)
    with pytest.raises(InvalidTypeError, match="got list; give several sources as retrievers="):
        PhaseGraphRetriever(graph=[Walk()])


def test_a_score_key_that_documents_use_is_warned_about_once():
    documents = [Document("A", id="a", metadata={"title": "A"})]
    retriever = PhaseGraphRetriever(vector=lambda query: documents, score_key="title")
    with pytest.warns(PhasegraphWarning, match="already use the metadata key 'title'.*no score.*score_key="):
        assert retriever.invoke("q")[0].metadata == {"title": "A"}
    retriever.invoke("q")


@pytest.mark.parametrize(("field", "key"), [("id", "idd"), ("score", "skore")])
def test_a_declared_field_that_no_hit_has_is_warned_about_once(field, key):
    documents = [Document(name, metadata={"id": name, "score": 1.0}) for name in "ab"]
    spec = SourceSpec(retriever=lambda query: documents, fields=HitFields(**{field: key}))
    retriever = PhaseGraphRetriever(vector=spec)
    said = rf"source 'vector': no hit has the metadata key '{key}' of HitFields\({field}=.*did you mean '{field}'"
    with pytest.warns(PhasegraphWarning, match=said):
        retriever.invoke("q")
    retriever.invoke("q")
    PhaseGraphRetriever(vector=SourceSpec(retriever=lambda query: [], fields=spec.fields)).invoke("q")


def test_a_retriever_that_cannot_filter_is_told_how_it_can():
    retriever = PhaseGraphRetriever(graph=Walk())
    with pytest.raises(InvalidInputError, match=r"or let _get_relevant_documents .* accept filter="):
        retriever.invoke("q", filter={"lang": "en"})


def test_a_score_and_evidence_under_one_key_are_an_error_when_the_retriever_is_made():
    held = [Document("Ada met Bo.", id="a")]
    same = {"score_key": "why", "evidence_key": "why"}
    for make in (
        lambda **keys: PhaseGraphRetriever(**ONE, **keys),
        lambda **keys: EntityGraphRetriever.from_documents(held, **keys),
        fuse_lists,
    ):
        with pytest.raises(InvalidInputError, match="must be different metadata keys; got 'why' twice"):
            make(**same)
    retriever = PhaseGraphRetriever(**ONE, evidence_key="why")
    with pytest.raises(InvalidInputError, match="must be different"):
        retriever.score_key = "why"
    assert retriever.score_key is None


def test_a_filter_that_the_store_in_memory_does_not_accept_is_an_error_when_the_retriever_is_made():
    with pytest.raises(InvalidInputError, match="accepts only a function as the filter"):
        PhaseGraphRetriever(vector=in_memory().as_retriever(search_kwargs={"filter": {"page": 1}}))


@pytest.mark.parametrize(
    "given", [{"page": float("nan")}, {"page": {"$gt": float("nan")}}, {"page": {"$in": [1, float("nan")]}}]
)
def test_not_a_number_is_no_value_of_a_filter(given):
    with pytest.raises(InvalidTypeError, match=r"filter: .*nan"):
        PhaseGraphRetriever(vector=in_memory()).invoke("q", filter=given)


async def test_a_configured_alternative_gets_only_the_arguments_that_it_accepts():
    other = RunnableLambda(lambda query: [Document("Ada", id="ada")])
    both = (
        in_memory()
        .as_retriever()
        .configurable_alternatives(ConfigurableField(id="way"), default_key="own", other=other)
    )
    retriever, config = PhaseGraphRetriever(vector=both), {"configurable": {"way": "other"}}
    assert [one.id for one in retriever.invoke("q", config)] == ["ada"]
    assert [one.id for one in await retriever.ainvoke("q", config)] == ["ada"]
    assert len(retriever.invoke("q")) == 9
    with pytest.raises(InvalidInputError, match="does not support filter="):
        retriever.invoke("q", config, filter={"page": 1})


@pytest.mark.parametrize(
    "rules", [({"ada": "other"}, "vector"), ({"ada": ["vector", "x"]}, "vector"), ({"ada": "vector"}, {"y": 1})]
)
def test_a_keyword_router_with_an_unknown_source_is_an_error_when_the_retriever_is_made(rules):
    with pytest.raises(InvalidInputError, match=r"must name sources among \['vector'\]; got '(other|x|y)'"):
        PhaseGraphRetriever(**ONE, route=keyword_router(*rules))
