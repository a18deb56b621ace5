"""A retriever of one's own is measured as it is, of whatever framework, and nothing that went wrong is hidden."""

import asyncio
import json

import ir_measures
import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import Document as Source
from llama_index.core.schema import NodeRelationship, NodeWithScore, TextNode
from tiny import PASSAGES, write_dataset, write_jsonl

from phasegraph import AllSourcesFailed, CallableSource, InvalidInputError, InvalidTypeError, PhasegraphWarning, Ranking
from phasegraph.evaluation import evaluate
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.experiment import Answers, compare
from phasegraph.evaluation.measures import Measure
from phasegraph.evaluation.source_runs import ExperimentInput, search_sources
from phasegraph.sources.protocol import AsyncCallableSource

NAMES = [name for name, *_ in PASSAGES]


@pytest.fixture
def folder(tmp_path):
    return write_dataset(tmp_path / "tiny")


@pytest.fixture
def data(folder):
    return load_dataset(folder)


@pytest.fixture
def order(data):
    """The ids of every question by cosine, all twelve of them, as the core finds them."""
    found = search_sources(ExperimentInput(data), ["vector"])["vector"].rankings
    return {query.text: list(one.ids) for query, one in zip(data.queries, found, strict=True)}


class Known(Embeddings):
    def __init__(self, data):
        self.vectors = data.vectors_by_text()

    def embed_documents(self, texts):
        return [self.vectors[text].tolist() for text in texts]

    def embed_query(self, text):
        return self.vectors[text].tolist()


class KnownToo(BaseEmbedding):
    vectors: dict

    def _get_text_embedding(self, text):
        return self.vectors[text].tolist()

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query):
        return self.vectors[query].tolist()


def langchain_store(data, order):
    documents = [Document(one.content, id=one.id) for one in data.passages]
    retriever = InMemoryVectorStore.from_documents(documents, Known(data)).as_retriever(search_kwargs={"k": 12})
    order |= {question: [one.id for one in retriever.invoke(question)] for question in order}  # its own among ties
    return retriever


def llamaindex_index(data, order):
    nodes = [TextNode(id_=one.id, text=one.content) for one in data.passages]
    index = VectorStoreIndex(nodes, embed_model=KnownToo(vectors=data.vectors_by_text()))
    retriever = index.as_retriever(similarity_top_k=12)
    order |= {question: [hit.node_id for hit in retriever.retrieve(question)] for question in order}
    return retriever


def runnable(data, order):
    return RunnableLambda(lambda question: [Document("", id=name) for name in order[question]])


def nameless_documents(data, order):
    return RunnableLambda(lambda question: [Document(data.contents[name]) for name in order[question]])


def metadata_ids(data, order):
    return RunnableLambda(lambda question: [Document("x", metadata={"chunk_id": name}) for name in order[question]])


def node_hits(data, order):
    return lambda question: [NodeWithScore(node=TextNode(id_=name), score=1.0) for name in order[question]]


def ids(data, order):
    return lambda question: order[question]


def texts(data, order):
    return lambda question, k: [data.contents[name] for name in order[question]][:k]


def pairs(data, order):
    return lambda question: [(name, -float(place)) for place, name in enumerate(order[question])]


def scores_by_id(data, order):
    return lambda question: {name: -float(order[question].index(name)) for name in sorted(order[question])}


def rows(data, order):
    return lambda question: ({"c.id": name, "score": 1.0} for name in order[question])


def coroutine(data, order):
    async def search(question):
        await asyncio.sleep(0)
        return order[question]

    return search


def core_source(data, order):
    return CallableSource("mine", lambda query, limit: [(name, -i) for i, name in enumerate(order[query])][:limit])


def async_source(data, order):
    async def search(query, limit):
        return Ranking.from_hits("mine", order[query], range(len(order[query]), 0, -1))

    return AsyncCallableSource("mine", search)


@pytest.mark.parametrize(
    "made",
    [
        langchain_store, llamaindex_index, runnable, nameless_documents, metadata_ids, node_hits, ids, texts, pairs,
        scores_by_id, rows, coroutine, core_source, async_source,
    ],
    ids=lambda made: made.__name__,
)  # fmt: skip
def test_whatever_it_is_its_ids_are_scored_as_the_same_ids_are(data, order, made):
    found = evaluate(made(data, order), data)
    system = Answers("system", {query.id: tuple(order[query.text]) for query in data.queries})
    goals = [Measure.parse(one) for one in ("Recall@5", "Recall@10", "nDCG@10", "MRR@10", "LastHop@5", "LastHop@10")]
    wanted = compare([system], data.judgements, baseline="system", measures=goals).rows[0]
    (row,) = found.table.rows
    assert list(row.means) == goals
    assert row.means == pytest.approx(wanted.means, nan_ok=True)
    assert row.intervals == wanted.intervals
    assert row.milliseconds > 0
    assert list(found.errors.values()) == [{}]
    assert list(found.unknown.values()) == [0.0]
    assert not [note for note in found.notes if "hits" in note]


def test_the_figures_are_those_of_a_pencil():
    judged = {"one": ["a"], "two": ["b", "c"], "three": {"a": 3.0, "b": 1.0, "c": 0.0}}
    found = evaluate({"mine": lambda question: ["c", "b", "a"]}, judged).means["mine"]
    assert found["Recall@5"] == 1.0
    assert found["MRR@10"] == pytest.approx((1 / 3 + 1 + 1 / 2) / 3)
    gains = [1 / np.log2(4), 1.0, (1 / np.log2(3) + 3 / 2) / (3 + 1 / np.log2(3))]
    assert found["nDCG@10"] == pytest.approx(sum(gains) / 3)


LINES = [
    [{"id": "q", "question": "Who?", "relevant": ["a", "b"]}],
    [{"text": "Who?", "relevant": {"a": 1, "b": 1.0, "c": 0}}],
    [{"query": "Who?", "grades": {"a": 1, "b": 1}}],
    [{"question": "Who?", "hops": ["a", "b"], "last_hop_known": False}],
    [{"question": "Who?", "hops": ["a", "b"], "relevant": ["b", "a"], "hop_order_known": False}],
]


@pytest.mark.parametrize("lines", LINES)
def test_every_way_to_judge_says_the_same_and_a_file_the_same_as_a_list(tmp_path, lines):
    write_jsonl(tmp_path / "judged.jsonl", lines)
    both = [evaluate(lambda question: ["b", "x", "a"], given) for given in (tmp_path / "judged.jsonl", lines)]
    wanted = evaluate(lambda question: ["b", "x", "a"], {"Who?": ["a", "b"]}).table.rows[0].means
    assert [one.table.rows[0].means for one in both] == [wanted, wanted]
    assert Measure("LastHop", 10) not in wanted
    assert both[0].table.queries == ("q",) if "id" in lines[0] else ("1",)


def test_the_last_hop_is_measured_where_the_order_of_hops_is_known():
    lines = [{"question": "1", "hops": ["a", "b"]}, {"question": "2", "relevant": ["a"]}]
    found = evaluate(lambda question: ["a"], lines)
    assert found.table.rows[0].means[Measure("LastHop", 10)] == 0.0
    assert "LastHop covers 1 of 2 queries" in " ".join(found.notes)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"question": "Who?"}, "judged.jsonl:2: a judged question must have one of the fields 'relevant', 'hops',"),
        ({"question": "Who?", "relevant": []}, "judged.jsonl:2: 'relevant' must be a list of at least one id"),
        (
            {"question": "Who?", "relevant": "a"},
            "judged.jsonl:2: 'relevant' must be a list of ids, or an object of gains",
        ),
        ({"question": "Who?", "relevant": {"a": 0}}, "judged.jsonl:2: 'relevant' must contain a gain above 0"),
        ({"question": "Who?", "relevant": ["a"], "grades": {"a": 1}}, "'grades' and 'relevant' have the same meaning"),
        ({"question": "Who?", "relevant": ["a"], "hops": ["b"]}, "must give every hop a gain above 0; 'b' has none"),
        ({"question": " ", "relevant": ["a"]}, "judged.jsonl:2: 'question' must be text that is not blank"),
        ({"relevant": ["a"]}, "judged.jsonl:2: 'question' must be text that is not blank; got None"),
        ({"question": "Who?", "spans": [{}]}, "judged.jsonl:2: 'spans' needs the passages"),
    ],
)
def test_a_line_that_judges_nothing_is_named(tmp_path, line, said):
    write_jsonl(tmp_path / "judged.jsonl", [{"question": "What?", "relevant": ["a"]}, line])
    with pytest.raises(InvalidInputError) as raised:
        evaluate(lambda question: ["a"], tmp_path / "judged.jsonl")
    assert said in str(raised.value)


def test_a_judged_id_that_the_corpus_lacks_is_an_error(folder):
    with pytest.raises(InvalidInputError, match="judged:1: the graded passage 'nowhere' is not in the corpus"):
        evaluate(lambda question: ["p00"], {"Who?": ["nowhere"]}, corpus=folder / "corpus.jsonl")


def test_an_error_counts_as_nothing_found_and_is_said(data, order):
    def search(question):
        if question.startswith("Which"):
            raise ConnectionError("no route to https://user:secret@host")
        return order[question]

    found = evaluate(search, data)
    whole = evaluate(lambda question: order[question], data)
    failed = [query for query in data.queries if query.text.startswith("Which")]
    assert list(found.errors["search"]) == [query.id for query in failed] == ["q1", "q3"]
    assert found.table.values["search"][[1, 3], :4].tolist() == [[0.0] * 4] * 2
    assert found.table.values["search"][[0, 2]].tolist() == whole.table.values["<lambda>"][[0, 2]].tolist()
    assert "search: 2 of 4 questions failed and count 0 (ConnectionError 2)" in found.notes
    assert "secret" not in str(found)
    assert "secret" not in json.dumps(found.to_dict())
    assert found.to_dict()["errors"] == {"search": {"q1": "ConnectionError", "q3": "ConnectionError"}}


def test_an_answer_that_cannot_be_read_is_an_error_like_any_other(data, order):
    found = evaluate(lambda question: 3 if "Ada" in question else order[question], data)
    (error,) = found.errors["<lambda>"].values()
    assert "must return a list of documents or nodes" in str(error)


def test_where_every_question_fails_nothing_is_measured(data):
    def search(question):
        raise ConnectionError("no route")

    with pytest.raises(AllSourcesFailed, match="search: ConnectionError") as raised:
        evaluate(search, data)
    assert str(raised.value.__cause__) == "no route"


def test_running_out_of_memory_is_not_counted(data):
    def search(question):
        raise MemoryError

    with pytest.raises(MemoryError):
        evaluate(search, data)


def test_ids_that_are_not_in_the_corpus_are_counted(data, order):
    half = evaluate(lambda question: [order[question][0], "other"], data)
    assert half.unknown == {"<lambda>": 0.5}
    assert half.to_dict()["unknown_ids"] == {"<lambda>": 50.0}
    without_corpus = evaluate(lambda question: [*order[question], "other"], list(data.queries))
    assert without_corpus.unknown == {"<lambda>": None}


def test_passages_none_of_which_is_judged_are_warned_about(data):
    with pytest.warns(PhasegraphWarning, match="none of the 2 returned ids is judged for any question"):
        found = evaluate({"search": lambda question: ["p07", "p09"]}, data)
    assert found.means["search"]["Recall@10"] == 0


def test_a_key_says_where_the_judged_id_stands(data, order):
    def documents(question):
        return [Document("x", id=f"chunk {name}", metadata={"page": name}) for name in order[question]]

    def nodes(question):
        made = [TextNode(id_=f"chunk {name}") for name in order[question]]
        for node, name in zip(made, order[question], strict=True):
            node.relationships[NodeRelationship.SOURCE] = Source(id_=name, text="").as_related_node_info()
        return [NodeWithScore(node=node, score=0.5) for node in made]

    wanted = evaluate(lambda question: order[question], data).table.values["<lambda>"]
    for search, key in ((documents, "page"), (nodes, "ref_doc_id")):
        found = evaluate(search, data, id_key=key)
        assert np.array_equal(found.table.values[search.__name__], wanted, equal_nan=True)
    with pytest.raises(AllSourcesFailed, match="hit 0 has no id under id_key='url'; its metadata keys are: page"):
        evaluate(documents, data, id_key="url")


def test_chunks_of_one_document_count_once(data, order):
    found = evaluate(lambda question: [name for name in order[question] for _ in "abc"], data)
    assert found.table.found["<lambda>"] == {query.id: tuple(order[query.text]) for query in data.queries}
    assert "<lambda>: 96 hits repeat an id of the same answer and are left out" in found.notes


def test_few_hits_are_said_since_deep_measures_see_no_more(data, order):
    found = evaluate(lambda question: order[question][:4], data)
    assert any(
        note.startswith("<lambda> returned at most 4 hits, so deeper measures gain nothing") for note in found.notes
    )


def test_texts_that_no_passage_has_are_said(data, order):
    def search(question):
        return [Document(data.contents[order[question][0]]), Document("a text of its own")]

    found = evaluate(search, data)
    assert "search: 4 hits have no id, and no passage of the corpus has their text" in found.notes
    assert found.unknown == {"search": 0.5}


def test_several_are_compared_with_the_first(data, order):
    both = {"forwards": lambda question: order[question], "backwards": lambda question: order[question][::-1]}
    table = evaluate(both, data, measures=["Recall@1"]).table
    assert [row.name for row in table.rows] == ["forwards", "backwards"]
    assert table.baseline == "forwards"
    answers = [
        Answers(name, {query.id: tuple(one(query.text)) for query in data.queries}) for name, one in both.items()
    ]
    wanted = compare(answers, data.judgements, baseline="forwards", measures=table.measures)
    assert table["backwards"].p_holm == pytest.approx(wanted["backwards"].p_holm, nan_ok=True)
    assert Measure("Recall", 1) in table.measures


def test_queries_of_one_collection_are_taken_whole():
    lines = [{"question": f"{row}", "relevant": ["a"], "collection_id": f"c{row % 2}"} for row in range(4)]
    assert evaluate(lambda question: ["a"], lines).table.groups == ("c0", "c1", "c0", "c1")


def test_it_prints_as_a_table(data, order):
    lines = str(evaluate({"mine": lambda question: order[question]}, data)).splitlines()
    assert lines[0].split()[:3] == ["retriever", "Recall@5", "Recall@10"]
    assert lines[0].split()[-4:] == ["ms", "errors", "unknown", "ids"]
    assert lines[1].startswith("mine       ")


@pytest.mark.parametrize("given", [Document("x"), CallableSource, None, "my_rag:retriever", ["p00"]])
def test_what_is_no_retriever_is_refused(data, given):
    with pytest.raises(InvalidTypeError, match="retriever must be a LangChain retriever or runnable"):
        evaluate(given, data)


def test_a_store_is_told_to_be_made_a_retriever(data, order):
    with pytest.raises(InvalidTypeError):
        evaluate(langchain_store(data, order).vectorstore, data)


@pytest.mark.parametrize("given", [[], {}, [1], [{"question": "Who?", "relevant": ["a"]}, 3]])
def test_what_judges_nothing_is_refused(given):
    with pytest.raises(InvalidInputError):
        evaluate(lambda question: ["a"], given)


@pytest.mark.parametrize("ids", ["ab", None, 3])
def test_a_text_is_not_read_as_a_list_of_ids(ids):
    with pytest.raises(InvalidInputError, match="'relevant' must be a list of ids, or an object of gains"):
        evaluate(lambda question: ["a"], {"Who?": ids})


def test_measures_may_be_one_text_or_objects_of_ir_measures(data, order):
    names = "Success@3", ["Success@3"], [ir_measures.Success @ 3], [Measure.parse("Success@3")]
    found = [evaluate(order.get, data, measures=given).means["get"]["Success@3"] for given in names]
    assert len(set(found)) == 1


def test_a_folder_needs_no_embeddings(folder, data, order):
    for file in folder.glob("*.npy"):
        file.unlink()
    found = evaluate(lambda question: order[question], folder)
    assert found.unknown == {"<lambda>": 0.0}
    assert found.table.dataset == "tiny"


def test_inside_a_running_event_loop_a_coroutine_is_asked_too(data, order):
    async def notebook():
        return evaluate(coroutine(data, order), data)

    assert asyncio.run(notebook()).errors == {"search": {}}
