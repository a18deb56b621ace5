"""Measures of pages against hand arithmetic, from the files to the table."""

import json

import pytest
from langchain_core.documents import Document
from llama_index.core.schema import NodeWithScore, TextNode

from phasegraph.apps.cli import main
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation import evaluate
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.judgements import Judgement
from phasegraph.evaluation.measures import PAGE_MEASURES, Measure, score_run

SOURCES = {"a1": "a", "a2": "a", "b1": "b", "c1": "c", "d1": "d"}
OF_TWO = Judgement("q", (("b1",), ("d1",)), pages=("b", "d"), sources=SOURCES)
PAGES = {"q0": ["byron", "ada"], "q1": ["london"], "q2": ["thames"]}
PAGE_OF = {"p00": "ada", "p01": "byron", "p03": "london", "p04": "london", "p08": "thames", "p09": "thames"}


@pytest.fixture
def paged(folder):
    """The small data set: some passages have a page, and three of the four questions say which pages answer."""
    change(folder / "corpus.jsonl", "source", PAGE_OF)
    change(folder / "queries.jsonl", "pages", PAGES)
    change(folder / "queries.jsonl", "last_hop_known", dict.fromkeys(("q0", "q1", "q2"), False))
    return folder


def change(path, name, values):
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    added = [{**row, name: values[row["id"]]} if row["id"] in values else row for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in added), encoding="utf-8")


@pytest.mark.parametrize(
    ("ids", "k", "share", "count"),
    [
        (["a1", "a2", "b1", "d1"], 5, 1.0, 3),
        (["a1", "a2", "b1", "d1"], 3, 0.5, 2),
        (["a1", "a2", "c1"], 2, 0.0, 1),
        (["b1", "nowhere"], 5, 0.5, 1),
        ([], 5, 0.0, 0),
    ],
)
def test_pages_found_and_pages_shown_are_counted_in_the_first_k(ids, k, share, count):
    assert Measure("PageRecall", k)(ids, OF_TWO) == share
    assert Measure("Pages", k)(ids, OF_TWO) == count


def test_a_page_is_found_by_any_of_its_passages():
    judgement = Judgement("q", (("a1",),), pages=("a",), sources=SOURCES)
    assert Measure("Recall", 5)(["a2"], judgement) == 0.0
    assert Measure("PageRecall", 5)(["a2"], judgement) == 1.0


def test_a_query_without_pages_is_left_out_of_what_is_found_and_not_of_what_is_shown():
    silent = Judgement("q2", (("c1",),), sources=SOURCES)
    found = {"q": ["b1", "a1"], "q2": ["c1"]}
    values = score_run(found, [OF_TWO, silent], Measure("PageRecall", 5)).tolist()
    assert (values[0], str(values[1])) == (0.5, "nan")
    assert score_run(found, [OF_TWO, silent], Measure("Pages", 5)).tolist() == [2.0, 1.0]
    assert Measure("Pages", 5)(["x"], Judgement("q3", (("x",),))) is None


def test_pages_are_read_from_a_folder_and_shared_by_its_questions(paged):
    dataset = load_dataset(paged)
    assert [judgement.pages for judgement in dataset.judgements] == [("byron", "ada"), ("london",), ("thames",), ()]
    assert all(judgement.sources == PAGE_OF for judgement in dataset.judgements)


def test_a_page_that_no_passage_is_from_is_named(paged):
    change(paged / "queries.jsonl", "pages", {"q1": ["paris"]})
    with pytest.raises(InvalidInputError, match=r"queries.jsonl:2: the judged page 'paris' is the 'source' of no"):
        load_dataset(paged)


def test_pages_where_no_passage_has_one_are_a_field_like_any_other(folder):
    change(folder / "queries.jsonl", "pages", {"q0": 12})
    assert load_dataset(folder).judgements[0].pages == ()


def test_the_command_measures_pages_where_questions_name_them(paged, tmp_path, capsys):
    rows = tmp_path / "rows.jsonl"
    command = ["evaluate", str(paged), "--systems", "vector", "--json", "-", "--rows", str(rows)]
    assert main(command) == 0
    captured = capsys.readouterr()
    state = json.loads(captured.out)
    asked = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    for k in (5, 10):
        shown = [len({PAGE_OF[one] for one in row["ids"][:k] if one in PAGE_OF}) for row in asked]
        assert state["systems"]["vector"][f"Pages@{k}"] == pytest.approx(sum(shown) / 4)
        found = [
            len({PAGE_OF.get(one) for one in row["ids"][:k]} & set(PAGES[row["query"]])) / len(PAGES[row["query"]])
            for row in asked
            if row["query"] in PAGES
        ]
        assert state["systems"]["vector"][f"PageRecall@{k}"] == pytest.approx(100 * sum(found) / 3)
    assert state["scored"]["PageRecall@5"] == 3
    assert (
        "PageRecall covers 3 of 4 queries; the other queries are left out: the query has no pages (field 'pages'), or "
        "no passage with a page (field 'source') is known" in captured.err
    )
    assert all(f"{measure} (p)" in captured.err for measure in (*PAGE_MEASURES, "MRR@10"))


def test_without_pages_the_table_is_as_it_was_and_the_json_has_mrr(folder, capsys):
    assert main(["evaluate", str(folder), "--systems", "vector", "--json", "-"]) == 0
    captured = capsys.readouterr()
    assert "MRR@10" in json.loads(captured.out)["systems"]["vector"]
    assert not any(name in captured.out + captured.err.replace("MRR", "") for name in ("PageRecall", "Pages@"))
    assert "MRR" not in captured.err


def test_a_retriever_is_measured_by_pages_where_the_judged_file_and_the_corpus_have_them(paged):
    found = evaluate(lambda question: ["p04", "p08"], paged)
    assert found.means["<lambda>"]["PageRecall@5"] == pytest.approx((0 + 1 + 1) / 3)
    assert found.means["<lambda>"]["Pages@10"] == 2.0
    assert "2.0 [2, 2]" in str(found)


JUDGED = [{"question": "Who?", "relevant": ["p00"], "pages": ["ada", "byron"]}]


def test_without_a_corpus_the_hits_say_their_pages():
    documents = [
        Document("x", id="p00", metadata={"source": "byron"}),
        Document("y", id="p03", metadata={"source": "a"}),
    ]
    nodes = [NodeWithScore(node=TextNode(id_=one.id, text="x", metadata=one.metadata)) for one in documents]
    for hits in (documents, nodes):
        found = evaluate(lambda question, hits=hits: hits, JUDGED)
        assert (found.means["<lambda>"]["PageRecall@5"], found.means["<lambda>"]["Pages@5"]) == (0.5, 2.0)


LEFT_OUT = (
    "PageRecall and its test are left out: the query has no pages (field 'pages'), or no passage with a page (field "
    "'source') is known",
    "Pages and its test are left out: no passage with a page (field 'source') is known",
)


def test_where_no_hit_says_its_page_that_is_said():
    found = evaluate(lambda question: ["p00", "p01"], JUDGED)
    assert found.notes[:2] == LEFT_OUT


BY_PAGES = [{"question": "Who?", "pages": ["ada", "byron"]}, {"question": "Where?", "pages": ["london"]}]


def test_pages_alone_judge_the_hits_that_say_their_pages():
    hits = [Document("y", id=name, metadata={"source": page}) for name, page in (("1", "oslo"), ("2", "byron"))]
    found = evaluate(lambda question: [*hits, Document("z", id="3", metadata={"source": "byron"})], BY_PAGES)
    means = found.means["<lambda>"]
    assert (means["PageRecall@5"], means["Recall@5"], means["MRR@10"]) == (0.25, 0.25, 0.25)
    assert "LastHop@5" not in means


def test_pages_alone_judge_the_passages_of_a_corpus(paged):
    lines = [{"id": f"q{row}", **one} for row, one in enumerate(BY_PAGES)]
    (paged / "queries.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    found = evaluate(lambda question: ["p01", "p04"], paged)
    assert (found.means["<lambda>"]["Recall@5"], found.means["<lambda>"]["PageRecall@5"]) == (0.75, 0.75)


def test_pages_alone_need_hits_with_pages():
    with pytest.raises(InvalidInputError, match=r"need the page of each hit: .* or pass the passages"):
        evaluate(lambda question: ["1"], BY_PAGES)
    silent = evaluate(lambda question: [], BY_PAGES)
    assert silent.means["<lambda>"]["Recall@5"] == 0.0
    assert silent.notes[:2] == LEFT_OUT


def test_pages_of_hits_with_other_names_are_shown():
    found = evaluate(lambda question: [Document("y", id="1", metadata={"source": "docs/ada"})], BY_PAGES)
    assert "<lambda>: no hit has a judged page, such as 'ada', in the metadata 'source': the hits have 'docs/ada'" in (
        found.notes
    )
