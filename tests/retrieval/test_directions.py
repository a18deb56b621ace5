"""Which way is better: declared, known by the store, inferred, or not known."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasegraph import PhasegraphWarning
from phasegraph.retrieval.directions import Direction, infer_direction, known_direction

finite = st.floats(allow_nan=False, allow_infinity=False, width=32)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.999, 0.707, -0.981], True),
        ([0.002, 0.586, 3.96], False),
        ([0.5, 0.5, 0.4], True),
        ([1.0, 1.0, 1.0], None),
        ([0.7], None),
        ([], None),
        ([0.3, 0.9, 0.5], None),
        ([None, None], None),
        ([0.9, float("nan"), "x", 0.5], True),
        ([np.float32(3.0), np.float32(4.0)], False),
    ],
)
def test_a_best_first_order_tells_similarities_from_distances(scores, expected):
    assert infer_direction(scores) is expected


@given(st.lists(finite, min_size=2, max_size=30).filter(lambda x: len(set(x)) > 1))
def test_negating_the_scores_turns_the_direction_round(scores):
    falling = sorted(scores, reverse=True)
    assert infer_direction(falling) is True
    assert infer_direction([-s for s in falling]) is False


def test_a_declared_direction_comes_before_the_known_one_and_that_before_the_inferred_one():
    assert Direction(declared=False, known=True).of([1.0, 2.0, 3.0]) == (False, "")
    assert Direction(known=True).of([1.0, 2.0, 3.0])[0] is True


def test_a_declaration_that_the_order_contradicts_is_believed_and_doubted_aloud_once():
    declared = Direction(declared=True, source="vector")
    for quiet in ([0.1, 0.2], [0.5, 0.5, 0.5], [0.1, 0.3, 0.2]):
        assert declared.of(quiet) == (True, "")
    with pytest.warns(PhasegraphWarning, match="source 'vector': declared higher_is_better=True, but the order"):
        higher, note = declared.of([0.1, 0.2, 0.4])
    assert (higher, note.endswith("the declared direction was used")) == (True, True)
    assert declared.of([0.1, 0.2, 0.4]) == (True, note), "every report says it, the warning comes once"


def test_a_direction_is_what_most_of_the_evidence_says():
    direction = Direction()
    assert direction.of([1.0, 1.0, 1.0]) == (True, "uninformative: its scores do not differ")
    assert direction.of([2.0, 1.0, 3.0])[0] is None
    assert direction.of([5.0, 4.0, 3.0, 2.0, 1.0])[0] is True
    higher, note = direction.of([1.0, 2.0, 3.0])
    assert (higher, note.endswith("in earlier answers; the order of this answer says the opposite")) == (True, True)
    assert direction.of([0.5]) == direction.of([2.0, 1.0, 3.0]) == (True, note.partition(" in earlier")[0])
    assert direction.higher_is_better is True


def test_one_answer_of_three_hits_sets_no_direction_for_good():
    direction = Direction(source="vector")
    assert direction.of([1.0, 2.0, 3.0])[0] is False
    with pytest.warns(PhasegraphWarning, match="source 'vector': higher is better: inferred from all") as told:
        found = [direction.of([9.0, 7.0, 4.0, 2.0, 1.0])[0] for _ in range(5)]
    assert (found, len(told)) == ([True] * 5, 1)


def test_answers_that_say_as_much_for_one_as_for_the_other_leave_the_order_alone():
    direction = Direction()
    assert direction.of([1.0, 2.0])[0] is False
    assert direction.of([2.0, 1.0])[0] is None


def test_a_metric_that_was_changed_is_noticed_however_long_the_other_was_seen():
    direction = Direction(source="vector")
    for _ in range(1000):
        direction.of(np.arange(50.0))
    with pytest.warns(PhasegraphWarning, match="source 'vector': higher is better"):
        found = [direction.of(np.arange(50.0)[::-1])[0] for _ in range(3)]
    assert found[-1] is True


@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_three_hits_of_chance_never_outweigh_what_ten_say(turns):
    direction = Direction()
    direction.of(np.arange(10.0, 0.0, -1.0))
    for rises in turns[:7]:
        assert direction.of([1.0, 2.0, 3.0] if rises else [3.0, 2.0, 1.0])[0] is True


def store(name, module, **attributes):
    kind = type(name, (), {"__module__": module})
    made = kind()
    for key, value in attributes.items():
        setattr(made, key, value)
    return made


class Index:
    def __init__(self, metric_type):
        self.metric_type = metric_type


def postgres(strategy, **settings):
    inner = SimpleNamespace(distance_strategy=SimpleNamespace(name=strategy), **settings)
    return store("PGVectorStore", "langchain_postgres.v2", _PGVectorStore__vs=inner)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (store("InMemoryVectorStore", "langchain_core.vectorstores"), True),
        (store("FAISS", "langchain_community.vectorstores", index=Index(1)), False),
        (store("FAISS", "langchain_community.vectorstores", index=Index(0)), True),
        (store("FAISS", "langchain_community.vectorstores"), None),
        (store("Chroma", "langchain_chroma"), False),
        (store("QdrantVectorStore", "langchain_qdrant", distance="Euclid"), False),
        (store("QdrantVectorStore", "langchain_qdrant", distance="Cosine"), True),
        (store("PGVector", "langchain_postgres"), False),
        (postgres("COSINE_DISTANCE"), False),
        (postgres("INNER_PRODUCT"), True),
        (postgres("INNER_PRODUCT", hybrid_search_config=object()), None),
        (store("PGVectorStore", "langchain_postgres.v2"), None),
        (store("PGVectorStore", "llama_index.vector_stores.postgres"), True),
        (store("FaissVectorStore", "llama_index.vector_stores.faiss", _faiss_index=Index(1)), False),
        (store("Chroma", "somebody.else"), None),
    ],
)
def test_the_direction_of_known_stores_is_read_from_their_class_and_metric(made, expected):
    assert known_direction(made) is expected


def test_a_subclass_has_the_direction_of_its_store():
    base = type(store("Chroma", "langchain_chroma"))
    assert known_direction(type("Mine", (base,), {"__module__": "mine"})()) is False
