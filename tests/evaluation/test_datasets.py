"""Data sets read back whole, and every fault named with its file and line."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import QUERIES, write_dataset

from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.datasets import check_disjoint, load_dataset, read_corpus, split_by_id


def edit(path, line, change):
    rows = path.read_text(encoding="utf-8").splitlines()
    row = json.loads(rows[line - 1])
    change(row)
    rows[line - 1] = json.dumps(row)
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def test_a_folder_is_read_in_the_order_of_its_lines(folder):
    dataset = load_dataset(folder)
    assert dataset.name == "tiny"
    assert len(dataset.passages) == len(dataset.passage_vectors) == 12
    assert [query.id for query in dataset.queries] == ["q0", "q1", "q2", "q3"]
    assert dataset.judgements[0].hops == (("p00",), ("p01",))
    assert not dataset.judgements[3].last_hop_known
    assert dataset.triples is None
    assert not dataset.passage_vectors.flags.writeable


def test_alternatives_of_a_hop_are_what_counts(folder):
    def give(row):
        row["hop_alternatives"] = [["p00", "p10"], ["p01"]]

    edit(folder / "queries.jsonl", 1, give)
    assert load_dataset(folder).judgements[0].hops == (("p00", "p10"), ("p01",))


def test_a_hop_that_repeats_counts_once_and_the_last_stays_last(folder):
    edit(folder / "queries.jsonl", 1, lambda row: row.update(hops=["p00", "p01", "p00"]))
    assert load_dataset(folder).judgements[0].hops == (("p01",), ("p00",))


def test_triples_are_read_where_there_are_any_in_either_format(folder):
    row = {"id": "p00", "entities": ["Ada Lovelace"], "triples": [["Ada Lovelace", "daughter of", "Lord Byron"]]}
    (folder / "triples.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    dataset = load_dataset(folder)
    assert dataset.triples == {"p00": (("Ada Lovelace", "daughter of", "Lord Byron"),)}
    docs = [{"idx": "p00", "passage": "", "extracted_triples": row["triples"]}]
    (folder / "triples.jsonl").write_text(json.dumps({"docs": docs}), encoding="utf-8")
    assert load_dataset(folder).triples == dataset.triples


def test_a_subset_keeps_queries_and_vectors_together(folder):
    dataset = load_dataset(folder)
    part = dataset.subset([2, 0])
    assert [query.id for query in part.queries] == ["q2", "q0"]
    assert np.array_equal(part.query_vectors, dataset.query_vectors[[2, 0]])
    assert part.passages is dataset.passages


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "passages.f16.npy", "queries.f16.npy"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(InvalidInputError, match=name):
        load_dataset(folder)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InvalidInputError, match="nowhere"):
        load_dataset(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("file", "line", "change", "message"),
    [
        ("corpus.jsonl", 3, {"id": "p00"}, r"corpus.jsonl:3: ids must not repeat; 'p00' is already on line 1"),
        ("corpus.jsonl", 2, {"id": " "}, "corpus.jsonl:2: 'id' must be text"),
        ("corpus.jsonl", 2, {"id": 7}, "corpus.jsonl:2: 'id' must be text"),
        ("corpus.jsonl", 2, {"text": None}, "corpus.jsonl:2: 'text' must be text"),
        ("corpus.jsonl", 2, {"text": "", "title": ""}, "corpus.jsonl:2: a passage must have"),
        ("queries.jsonl", 2, {"id": "q0"}, "queries.jsonl:2: ids must not repeat"),
        ("queries.jsonl", 2, {"question": "  "}, "queries.jsonl:2: 'question'"),
        ("queries.jsonl", 2, {"hops": []}, "queries.jsonl:2: 'hops' must be a list of at least one id"),
        ("queries.jsonl", 2, {"hops": ["p99"]}, "queries.jsonl:2: a judged passage must be in corpus.jsonl; 'p99'"),
        ("queries.jsonl", 2, {"hops": [1]}, "queries.jsonl:2: 'hops' must hold ids"),
        ("queries.jsonl", 2, {"last_hop_known": 1}, "queries.jsonl:2: 'last_hop_known' must be true or false"),
        ("queries.jsonl", 2, {"hop_alternatives": [["p01"]]}, "queries.jsonl:2: 'hop_alternatives' must hold"),
        ("queries.jsonl", 2, {"hop_alternatives": [["p01"], ["p99"]]}, "queries.jsonl:2: a judged passage"),
    ],
)
def test_a_bad_line_is_named_with_its_file_and_number(folder, file, line, change, message):
    edit(folder / file, line, lambda row: row.update(change))
    with pytest.raises(InvalidInputError, match=message):
        load_dataset(folder)


@pytest.mark.parametrize("text", ["not json", "[1]", '{"id": '])
def test_a_line_that_is_no_object_is_named(folder, text):
    path = folder / "corpus.jsonl"
    path.write_text(path.read_text(encoding="utf-8") + text + "\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"corpus.jsonl:13: the line must be one JSON object"):
        load_dataset(folder)


def test_a_line_that_is_not_utf8_is_named(folder):
    path = folder / "corpus.jsonl"
    path.write_bytes(path.read_bytes() + b'{"id": "\xff"}\n')
    with pytest.raises(InvalidInputError, match=r"corpus.jsonl:13: the line must be UTF-8"):
        load_dataset(folder)


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl"])
def test_an_empty_file_is_an_error(folder, name):
    (folder / name).write_text("\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match=f"{name}.*empty"):
        load_dataset(folder)


def test_misaligned_embeddings_are_named_with_both_counts(folder):
    path = folder / "passages.f16.npy"
    np.save(path, np.load(path)[:-1])
    with pytest.raises(InvalidInputError, match=r"passages.f16.npy: must have one row per line.*\(12\); got 11"):
        load_dataset(folder)


@pytest.mark.parametrize("array", [np.zeros(12), np.zeros((12, 3), dtype=int), np.zeros((12, 0))])
def test_embeddings_of_another_shape_are_refused(folder, array):
    np.save(folder / "passages.f16.npy", array)
    with pytest.raises(InvalidInputError, match=r"passages.f16.npy"):
        load_dataset(folder)


def test_a_truncated_embedding_file_is_refused(folder):
    path = folder / "passages.f16.npy"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InvalidInputError, match=r"passages.f16.npy: must be a complete"):
        load_dataset(folder)


def test_nan_embeddings_are_named_by_row(folder):
    path = folder / "queries.f16.npy"
    array = np.load(path)
    array[2, 0] = np.nan
    np.save(path, array)
    with pytest.raises(InvalidInputError, match="row 2"):
        load_dataset(folder)


def test_triples_of_an_unknown_passage_and_broken_triples_are_named(folder):
    path = folder / "triples.jsonl"
    for row, message in [
        ({"id": "p77", "triples": []}, "triples.jsonl:1: passage 'p77' is not in the corpus"),
        ({"id": "p01", "triples": [["a", "b"]]}, "triples.jsonl:1: a triple must be three texts"),
        ({"id": "p01", "triples": "x"}, "triples.jsonl:1: 'triples' must be a list"),
    ]:
        path.write_text(json.dumps(row) + "\n", encoding="utf-8")
        with pytest.raises(InvalidInputError, match=message):
            load_dataset(folder)


def test_a_corpus_can_be_read_alone(folder):
    assert len(read_corpus(folder / "corpus.jsonl")) == 12


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
    with pytest.raises(InvalidInputError, match=r"other/queries.jsonl:2: a query must stand in one .*'q2'"):
        check_disjoint(other, dataset)
