"""The mean field against its golden numbers, and the stage in a real retriever."""

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_phasegraph import PhaseGraphRetriever, Rerank
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph import build_graph
from phasegraph.methods.ising import IsingReranker, entity_links, mean_field
from phasegraph.retrieval.stages.models import Passage

RELEVANCE = [0.8, 0.2, -0.4, -0.9]
CHAIN = np.array([[0, 1, 1, 0], [1, 0, 0, 0], [1, 0, 0, 1], [0, 0, 1, 0]])
TEXTS = [
    ("a", "Ada Lovelace met Charles Babbage in London."),
    ("b", "Rain fell for a week, and nobody went out."),
    ("c", "Charles Babbage drew the Analytical Engine."),
    ("d", "The Analytical Engine was never finished."),
    ("e", "London has many bridges."),
]


@pytest.fixture(scope="module")
def graph():
    return build_graph([{"id": name, "title": "", "text": text} for name, text in TEXTS])


@pytest.mark.parametrize(
    ("coupling", "golden"),
    [
        (0.0, np.tanh(RELEVANCE)),
        (0.5, [0.67572294, 0.49136747, -0.40656408, -0.80167484]),
        (0.9, [0.72495331, 0.69235139, -0.43011318, -0.85836562]),
    ],
)
def test_the_mean_field_golden(coupling, golden):
    np.testing.assert_allclose(mean_field(RELEVANCE, CHAIN, coupling), golden, atol=5e-9)


def test_only_the_ratio_of_coupling_and_temperature_is_bounded_and_its_diagonal_says_nothing():
    np.testing.assert_allclose(
        mean_field(np.array(RELEVANCE) * 2, CHAIN + np.eye(4), 1.0, 2.0), mean_field(RELEVANCE, CHAIN, 0.5), atol=1e-9
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((RELEVANCE, CHAIN, 1.0), "below the temperature 1, the phase transition; got 1"),
        ((RELEVANCE, CHAIN, 0.5, 0.4), "below the temperature 0.4"),
        ((RELEVANCE, CHAIN[:3]), r"\(n,\) and \(n, n\)"),
        ((RELEVANCE, -CHAIN), ">= 0"),
        (([0.8, np.nan, 0, 0], CHAIN), "finite"),
    ],
)
def test_what_has_no_unique_solution_is_refused(given, said):
    with pytest.raises(InvalidInputError, match=said):
        mean_field(*given)


def test_candidates_are_linked_by_the_rarity_of_the_entities_they_share(graph):
    links = entity_links(graph, ["a", "b", "c"])
    both = graph.entity_rows["charles babbage"]
    assert links[0, 2] == pytest.approx(np.log(5 / graph.frequency[both]))
    assert links[0, 2] == links[2, 0] > 0
    assert not links[1].any()
    assert not links.diagonal().any()


def test_a_candidate_linked_to_a_good_one_passes_one_that_is_not(graph):
    passages = [Passage(name, text, None) for name, text in TEXTS[:3]]
    close = IsingReranker(graph, coupling=0.9)("", [*passages, Passage("unknown", "", None)])
    assert close[3] is None
    assert close[2] > IsingReranker(graph, coupling=0.0)("", [*passages, Passage("unknown", "", None)])[2]
    with pytest.raises(InvalidInputError, match="phase transition"):
        IsingReranker(graph, coupling=2.0)
    with pytest.raises(InvalidTypeError, match="EntityGraph"):
        IsingReranker("graph")


def test_the_stage_reranks_in_a_real_retriever(graph):
    documents = [Document(text, id=name) for name, text in TEXTS]
    stage = Rerank(IsingReranker(graph, coupling=0.9), blend=1.0)
    retriever = PhaseGraphRetriever.from_documents(documents, DeterministicFakeEmbedding(size=8), rerank=stage, k=5)
    result = retriever.explain("Which engine did Charles Babbage draw?")
    (report,) = [one for one in result.extras["stages"] if one.stage == "rerank"]
    assert report.status == "ok"
    judged = next(one for one in result.candidates.rankings if one.source == "rerank")
    assert set(judged.ids) == set(result.ids)
    assert np.abs(judged.raw if judged.raw is not None else judged.scores).max() <= 1
