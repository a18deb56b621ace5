"""``phasegraph search``: a saved index answers, with the path and the words that led there, and without a model."""

import json
import os
import sys

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from tiny import PASSAGES, write_dataset, write_jsonl

from langchain_phasegraph import PhaseGraphRetriever
from phasegraph.apps.cli import main
from phasegraph.apps.cli.search import WIDTH, snippet_of
from phasegraph.graph import GraphIndex, GraphSource, build_graph, save_graph

QUESTION = "Where did the father of Ada Lovelace die?"
MODEL = """
import numpy as np
vectors = np.load("tiny/queries.f16.npy").astype(float)


def embed(question):
    return vectors[0]


class LangChain:
    embed_query = staticmethod(embed)


class LlamaIndex:
    get_query_embedding = staticmethod(embed)


langchain, llamaindex, narrow, number = LangChain(), LlamaIndex(), lambda question: [1.0, 2.0], 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_model", raising=False)
    (tmp_path / "my_model.py").write_text(MODEL, encoding="utf-8")
    yield write_dataset(tmp_path / "tiny")
    sys.modules.pop("my_model", None)


@pytest.fixture
def index(folder, tmp_path, capsys):
    assert main(["index", str(folder / "corpus.jsonl"), "--out", str(tmp_path / "g")]) == 0
    capsys.readouterr()
    return tmp_path / "g"


@pytest.fixture
def with_vectors(folder, tmp_path, capsys):
    """As a saved retriever keeps it: beside other files, in a folder of its own."""
    out = tmp_path / "kept" / "graph"
    assert (
        main(["index", str(folder / "corpus.jsonl"), "--out", str(out), "--embeddings", "tiny/passages.f16.npy"]) == 0
    )
    (out.parent / "vectors.txt").write_text("of somebody else", encoding="utf-8")
    capsys.readouterr()
    return out.parent


def asked(capsys, *arguments):
    assert main(["search", *map(str, arguments), "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def test_without_a_model_names_and_words_find_what_the_walk_finds(index, capsys):
    state = asked(capsys, index, QUESTION, "--k", 3)
    wanted = GraphSource(GraphIndex.load(index).graph).search(QUESTION, 50, {}).ids
    assert tuple(one["id"] for one in state["passages"]) == wanted[:3]
    first = state["passages"][0]
    assert first["title"] in {title for _, title, _ in PASSAGES}
    assert 0 < first["score"] < 1
    assert 0 < state["confidence"] < 1
    assert any("ada lovelace > [p00] > charles babbage" in path for one in state["passages"] for path in one["paths"])
    marked = {one["snippet"][start:end].lower() for one in state["passages"] for start, end in one["marks"]}
    assert marked >= {"ada", "lovelace"}
    assert "the" not in marked


def test_it_prints_passages_titles_words_and_paths(index, capsys):
    assert main(["search", str(index), QUESTION]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{QUESTION}\n  confidence 0.")
    assert ", without vectors (the folder has none)\n" in printed
    assert "1. p" in printed
    assert "'Lord Byron': score 0." in printed
    assert "*Ada* *Lovelace* was the daughter of Lord Byron" in printed
    assert "   graph: " in printed
    assert "--embedder" not in printed


def test_more_than_50_passages_are_returned_if_k_asks_for_them(folder, tmp_path, capsys):
    write_jsonl(tmp_path / "many.jsonl", [{"id": f"q{row}", "text": f"Ada met Bo in room {row}."} for row in range(80)])
    assert main(["index", str(tmp_path / "many.jsonl"), "--out", str(tmp_path / "many")]) == 0
    capsys.readouterr()
    assert len(asked(capsys, tmp_path / "many", "Who met Bo?", "--k", 70)["passages"]) == 70


@pytest.mark.parametrize("model", ["langchain", "llamaindex", "embed"])
def test_with_the_model_the_nearest_passages_are_fused_too(with_vectors, capsys, model):
    state = asked(capsys, with_vectors, QUESTION, "--embedder", f"my_model:{model}")
    assert {one["source"] for passage in state["passages"] for one in passage["sources"]} == {"graph", "vector"}
    assert main(["search", str(with_vectors), QUESTION]) == 0
    printed = capsys.readouterr().out
    assert "searched by names and words only: --embedder also uses" in printed
    assert ", without vectors (they need --embedder)\n" in printed


def test_it_answers_as_explain_does_with_the_same_lists(with_vectors, folder, capsys):
    state = asked(capsys, with_vectors, QUESTION, "--embedder", "my_model:embed")
    assert main(["explain", str(folder), "q0", "--json", "-"]) == 0
    wanted = json.loads(capsys.readouterr().out)
    assert [one["id"] for one in state["passages"]] == [one["id"] for one in wanted["passages"]]
    scores = [[one["score"] for one in given["passages"]] for given in (state, wanted)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)
    assert state["confidence"] == pytest.approx(wanted["confidence"], abs=1e-4)


def test_a_saved_retriever_is_asked_with_all_changes_since(folder, tmp_path, capsys):
    documents = [Document(text, id=name, metadata={"title": title}) for name, title, text in PASSAGES]
    made = PhaseGraphRetriever.from_documents(documents, DeterministicFakeEmbedding(size=8), path=tmp_path / "made")
    made.delete(["p01"])
    made.add_documents([Document("Ada Lovelace met Michael Faraday.", id="new", metadata={"title": "Faraday"})])
    passages = asked(capsys, tmp_path / "made", QUESTION, "--k", 20)["passages"]
    ids = [one["id"] for one in passages]
    assert "p01" not in ids
    assert "new" in ids
    assert passages[ids.index("new")]["title"] == "Faraday"


def test_a_graph_of_chunks_is_searched_with_a_model_only(folder, tmp_path, capsys):
    command = ["index", str(folder / "corpus.jsonl"), "--out", "chunks", "--chunks"]
    assert main([*command, "--embeddings", "tiny/passages.f16.npy"]) == 0
    capsys.readouterr()
    state = asked(capsys, "chunks", QUESTION, "--embedder", "my_model:embed")
    assert len(state["passages"]) == 5
    assert (state["passages"][0]["title"], state["passages"][0]["snippet"]) == ("", "")
    assert any(one["paths"] for one in state["passages"])
    assert main(["search", "chunks", QUESTION]) == 1
    assert "a chunk graph needs --embedder" in capsys.readouterr().err


def test_what_nothing_is_known_of_gives_no_passage_and_says_so(index, capsys):
    assert main(["search", str(index), "Xyzzy plugh?"]) == 0
    assert "no passages: every source searched and found nothing" in capsys.readouterr().out
    state = asked(capsys, index, "Xyzzy plugh?")
    assert (state["passages"], state["reason"]) == ([], "nothing_found")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["tiny", "Who?"],
            1,
            "no index in this folder, nor in its subfolder 'graph'; if it contains",
        ),
        (["g", " "], 1, "query must not be empty or blank"),
        (["nowhere", "Who?"], 2, "nowhere"),
        (["g", "Who?", "--k", "0"], 2, "--k"),
        (["g"], 2, "QUESTION"),
        (["g", "sort", "by", "size"], 2, "put a text of several words in quotes"),
        (["g", "Who?", "--embedder", "my_model:embed"], 1, "--embedder needs an index with embeddings"),
        (["kept", "Who?", "--embedder", "my_model:number"], 1, "--embedder must name an embedding model of LangChain"),
        (["kept", "Who?", "--embedder", "my_model:narrow"], 1, "the query's embedding must have shape"),
        (
            ["kept", "Who?", "--embedder", "my_model:LangChain"],
            2,
            "my_model:LangChain is a class: name an instance or a function, such as my_model:model",
        ),
        (["kept", "Who?", "--embedder", "my_model"], 2, "must be minilm, fastembed or MODULE:OBJECT"),
        (["g", "Who?", "--json", "no/where.json"], 1, "--json: the folder of no/where.json must exist"),
    ],
)
def test_what_cannot_be_answered_is_said(index, with_vectors, capsys, arguments, code, said):
    assert main(["search", *arguments]) == code
    assert said in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_explain_of_a_question_points_to_search(folder, capsys):
    assert main(["explain", str(folder), "Who met Bo?"]) == 1
    assert "phasegraph search FOLDER" in capsys.readouterr().err


def test_a_damaged_index_names_the_file(index, capsys):
    name = next(index.glob("records_text*.npy"))
    os.truncate(name, 100)
    assert main(["search", str(index), "Who?"]) == 1
    assert name.name in capsys.readouterr().err
    (index / "manifest.json").write_text("{", encoding="utf-8")
    assert main(["search", str(index), "Who?"]) == 1
    assert "manifest.json" in capsys.readouterr().err


def test_a_graph_without_its_passages_is_named(tmp_path, capsys):
    save_graph(build_graph([{"id": "a", "title": "Ada", "text": "Ada met Bo."}]), tmp_path / "bare")
    assert main(["search", str(tmp_path / "bare"), "Who?"]) == 1
    assert "this is a graph alone, saved without the passages" in capsys.readouterr().err


def test_the_words_of_another_language_are_marked_as_the_index_splits_them(tmp_path, capsys):
    rows = [
        {"id": "a", "title": "東京", "text": "日本の首都は東京都です。"},
        {"id": "b", "title": "Die Elbe", "text": "Die Elbe ist ein FLUSS in Sachsen."},  # codespell:ignore ist
    ]
    write_jsonl(tmp_path / "c.jsonl", rows)
    assert main(["index", str(tmp_path / "c.jsonl"), "--out", str(tmp_path / "g"), "--tokenizer", "german"]) == 0
    capsys.readouterr()
    question = "Wo ist der Fluss? 東京都"  # codespell:ignore ist
    found = {one["id"]: one for one in asked(capsys, tmp_path / "g", question)["passages"]}
    marked = {name: [one["snippet"][start:end] for start, end in one["marks"]] for name, one in found.items()}
    assert marked == {"a": ["東京都"], "b": ["FLUSS"]}


@pytest.mark.parametrize("seed", range(20))
def test_a_snippet_is_a_part_of_the_text_around_most_of_the_words(seed):
    rng = np.random.default_rng(seed)
    words = ["one", "two", "three"]
    text = " ".join(rng.choice([*words, *(f"w{n}" for n in range(60))], size=rng.integers(0, 300)))
    snippet, marks = snippet_of(text, words)
    bare = snippet.removeprefix("… ").removesuffix(" …")
    assert bare in text
    assert len(bare) <= WIDTH
    assert all(snippet[start:end] in words for start, end in marks)
    assert len(marks) == sum(word in words for word in bare.split())
    if len(text) <= WIDTH:
        assert snippet == text
    elif any(word in words for word in text.split()):
        assert marks


def test_a_text_without_a_blank_is_cut_all_the_same():
    snippet, marks = snippet_of("x" * 1000, ["y"])
    assert (snippet, marks) == ("x" * WIDTH + " …", [])
