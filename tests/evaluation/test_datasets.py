"""Data sets read back whole, and every fault named with its file and line."""

import json
from dataclasses import replace
from math import log2

import numpy as np
import pytest
from tiny import edit_line, give_fields, write_dataset

from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.corpus_files import read_corpus
from phasegraph.evaluation.datasets import embeddings_fit, load_dataset
from phasegraph.evaluation.measures import Measure


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

    edit_line(folder / "queries.jsonl", 1, give)
    assert load_dataset(folder).judgements[0].hops == (("p00", "p10"), ("p01",))


def test_a_hop_that_repeats_counts_once_and_the_last_stays_last(folder):
    edit_line(folder / "queries.jsonl", 1, lambda row: row.update(hops=["p00", "p01", "p00"]))
    assert load_dataset(folder).judgements[0].hops == (("p01",), ("p00",))


def test_the_last_hop_is_known_where_the_line_says_so_and_else_where_the_order_is(folder):
    said = [{"hop_order_known": False}, {"hop_order_known": False, "last_hop_known": True}, {"hop_order_known": True}]
    for line, change in enumerate(said, start=1):
        edit_line(
            folder / "queries.jsonl", line, lambda row, change=change: (row.pop("last_hop_known"), row.update(change))
        )
    assert [judged.last_hop_known for judged in load_dataset(folder).judgements] == [False, True, True, False]


def test_grades_stand_beside_hops_or_in_their_place(folder):
    edit_line(folder / "queries.jsonl", 1, lambda row: row.update(grades={"p00": 1, "p01": 3, "p02": 0.5}))
    edit_line(folder / "queries.jsonl", 2, lambda row: (row.pop("hops"), row.update(grades={"p03": 2, "p05": 0})))
    first, second = load_dataset(folder).judgements[:2]
    assert (first.hops, first.last_hop_known) == ((("p00",), ("p01",)), True)
    assert Measure("nDCG", 5)(["p01", "p00"], first) == pytest.approx((3 + 1 / log2(3)) / (3 + 1 / log2(3) + 0.25))
    assert (second.hops, second.last_hop_known, second.grades["p05"]) == ((("p03",),), False, 0.0)


def test_right_answers_are_texts_and_may_be_several_or_none(folder):
    dataset = give_fields(folder, answer=["Greece", ["1960", 1961], [], " "])
    assert [judged.answers for judged in dataset.judgements] == [("Greece",), ("1960", "1961"), (), ()]


def test_a_query_without_a_collection_is_its_own(folder):
    assert load_dataset(folder).groups is None
    assert give_fields(folder, collection_id=["c", None, "c", "d"]).groups == ("c", "q1", "c", "d")


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
        ("queries.jsonl", 2, {"hops": ["p99"]}, "queries.jsonl:2: the judged passage 'p99' is not in the corpus"),
        ("queries.jsonl", 2, {"hops": [1]}, "queries.jsonl:2: 'hops' must contain ids"),
        ("queries.jsonl", 2, {"last_hop_known": 1}, "queries.jsonl:2: 'last_hop_known' must be true or false"),
        ("queries.jsonl", 2, {"hop_order_known": "no"}, "queries.jsonl:2: 'hop_order_known' must be true or false"),
        ("queries.jsonl", 2, {"collection_id": 7}, "queries.jsonl:2: 'collection_id' must be text"),
        ("queries.jsonl", 2, {"split": ""}, "queries.jsonl:2: 'split' must be text that is not blank"),
        ("queries.jsonl", 2, {"answer": {"text": "x"}}, "queries.jsonl:2: 'answer' must be text or a list of texts"),
        ("queries.jsonl", 2, {"answer": [True]}, "queries.jsonl:2: 'answer' must be text or a list of texts"),
        ("queries.jsonl", 2, {"grades": [3]}, "queries.jsonl:2: 'grades' must be an object of gains by passage id"),
        ("queries.jsonl", 2, {"grades": {"p99": 1}}, "queries.jsonl:2: the graded passage 'p99' is not in the corpus"),
        ("queries.jsonl", 2, {"grades": {"p03": "1"}}, "queries.jsonl:2: the grade of 'p03' must be a number"),
        ("queries.jsonl", 2, {"grades": {"p03": -1}}, "queries.jsonl:2: the grade of 'p03' must be finite and >= 0"),
        ("queries.jsonl", 2, {"grades": {"p03": 0}}, "queries.jsonl:2: 'grades' must contain a gain above 0"),
        (
            "queries.jsonl",
            2,
            {"grades": {"p03": 1}},
            "queries.jsonl:2: 'grades' or 'relevant' must give every hop .* 'p04' has none",
        ),
        ("queries.jsonl", 2, {"hop_alternatives": [["p01"]]}, "queries.jsonl:2: 'hop_alternatives' must have"),
        ("queries.jsonl", 2, {"hop_alternatives": [["p01"], ["p99"]]}, "queries.jsonl:2: the judged passage"),
    ],
)
def test_a_bad_line_is_named_with_its_file_and_number(folder, file, line, change, message):
    edit_line(folder / file, line, lambda row: row.update(change))
    with pytest.raises(InvalidInputError, match=message):
        load_dataset(folder)


def test_a_line_of_beir_is_told_which_field_to_rename(folder):
    edit_line(folder / "corpus.jsonl", 1, lambda row: row.update(_id=row.pop("id")))
    with pytest.raises(InvalidInputError, match=r"corpus.jsonl:1: 'id' must be text.*; rename the field '_id'"):
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
    with pytest.raises(
        InvalidInputError, match=r"passages.f16.npy: the file must have one row per line.*\(12\); got 11"
    ):
        load_dataset(folder)


def test_passages_and_queries_of_different_width_are_refused_naming_both_files(folder):
    path = folder / "queries.f16.npy"
    np.save(path, np.ones((4, 5), dtype=np.float16))
    with pytest.raises(InvalidInputError, match=r"queries.f16.npy: the file must have as many columns as passages"):
        load_dataset(folder)


@pytest.mark.parametrize("array", [np.zeros(12), np.zeros((12, 3), dtype=int), np.zeros((12, 0))])
def test_embeddings_of_another_shape_are_refused(folder, array):
    np.save(folder / "passages.f16.npy", array)
    with pytest.raises(InvalidInputError, match=r"passages.f16.npy"):
        load_dataset(folder)


def test_a_truncated_embedding_file_is_refused(folder):
    path = folder / "passages.f16.npy"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InvalidInputError, match=r"passages.f16.npy: the file must be a complete"):
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


def test_embeddings_fit_questions_about_one_passage_unless_the_rows_moved(tmp_path):
    asked = [(f"q{row}", f"Where does the River Thames rise, {row}?", ["p08"], True) for row in range(24)]
    data = load_dataset(write_dataset(tmp_path / "thames", asked))
    assert embeddings_fit(data)
    assert not embeddings_fit(replace(data, passage_vectors=np.roll(data.passage_vectors, 3, axis=0)))
