"""Splits of a data set: by the field, by collections, or by the query's id; the parts are disjoint."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import QUERIES, give_fields, many_queries, write_dataset

from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.splits import check_disjoint, split_by_id, split_rows


def test_a_split_is_honoured_and_the_last_one_confirms(folder):
    tune, confirm, how = split_rows(give_fields(folder, split=["dev", "test", "calibration", "dev"]))
    assert (tune.tolist(), confirm.tolist(), how) == ([0, 2, 3], [1], "split 'test'")
    tune, confirm, how = split_rows(load_dataset(folder), "dev")
    assert (tune.tolist(), confirm.tolist(), how) == ([1, 2], [0, 3], "split 'dev'")
    with pytest.raises(InvalidInputError, match="must be a split of tiny; its splits are: calibration, dev, test"):
        split_rows(load_dataset(folder), "train")


def test_without_splits_whole_collections_are_told_apart(tmp_path):
    dataset = give_fields(
        write_dataset(tmp_path / "many", many_queries()), collection_id=[f"c{i % 7}" for i in range(36)]
    )
    tune, confirm, how = split_rows(dataset)
    assert how == "MD5 of the collection_id"
    assert sorted([*tune, *confirm]) == list(range(36))
    assert len(tune) > 0 < len(confirm)
    assert not {dataset.groups[row] for row in tune} & {dataset.groups[row] for row in confirm}


def test_one_split_alone_tells_nothing_apart(folder):
    tune, confirm, how = split_rows(give_fields(folder, split=["dev"] * 4))
    ids = [query.id for query in load_dataset(folder).queries]
    assert (tune.tolist(), how) == (split_by_id(ids, "tune").tolist(), "MD5 of the query id")
    assert confirm.tolist() == split_by_id(ids, "confirm").tolist()


def test_a_query_without_a_split_and_splits_of_unknown_names_are_named(folder):
    with pytest.raises(
        InvalidInputError,
        match=r"queries.jsonl:2: either every query or no query must have a 'split'; 'q1' has no split",
    ):
        split_rows(give_fields(folder, split=["dev", None, "test", "test"]))
    with pytest.raises(
        InvalidInputError,
        match=r"the order of the splits odd is unknown; name .* command line --confirm-split",
    ):
        split_rows(give_fields(folder, split=["dev", "odd", "test", "test"]))
    assert split_rows(load_dataset(folder), "odd")[1].tolist() == [1]


@given(st.lists(st.text(min_size=1), unique=True, max_size=60), st.floats(0.05, 0.95))
def test_the_two_parts_are_disjoint_and_complete(ids, share):
    tune = split_by_id(ids, "tune", share=share).tolist()
    confirm = split_by_id(ids, "confirm", share=share).tolist()
    assert sorted(tune + confirm) == list(range(len(ids)))


def test_the_part_of_a_query_does_not_depend_on_the_others():
    ids = [f"query-{i}" for i in range(1000)]
    tune = {ids[row] for row in split_by_id(ids, "tune")}
    assert 440 < len(tune) < 560
    assert {ids[:10][row] for row in split_by_id(ids[:10], "tune")} == tune & set(ids[:10])
    with pytest.raises(InvalidInputError):
        split_by_id(ids, "other")


def test_a_query_in_both_sets_is_named_with_file_and_line(folder, tmp_path):
    dataset = load_dataset(folder)
    other = load_dataset(write_dataset(tmp_path / "other", [("new", "What is new?", ["p00"], True), QUERIES[2]]))
    check_disjoint(other.subset([0]), dataset)
    with pytest.raises(InvalidInputError, match=r"other/queries.jsonl:2: a query must be in one .*'q2'"):
        check_disjoint(other, dataset)
