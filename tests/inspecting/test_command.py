"""``phasegraph inspect``: the folders it opens, the page it writes, and what it refuses."""

from __future__ import annotations

import json
import re
import sys

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from tiny import PASSAGES, write_dataset, write_jsonl

from inspecting.conftest import embed, indexed, judged
from langchain_phasegraph import PhaseGraphRetriever
from phasegraph import FusionPipeline, InvalidInputError, Ranking
from phasegraph.apps.cli import main
from phasegraph.apps.inspector.inspector import Inspector

QUESTION = "Where did the father of Ada Lovelace die?"


class Counted(Embeddings):
    def embed_query(self, text):
        return embed(text).tolist()

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


@pytest.fixture
def index(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my_inspected.py").write_text(
        "from inspecting.conftest import embed\nfrom inspecting.test_command import Counted\nmodel = Counted()\n",
        encoding="utf-8",
    )
    folder = write_dataset(tmp_path / "tiny")
    assert main(["index", str(folder / "corpus.jsonl"), "--out", "g"]) == 0
    yield tmp_path / "g"
    sys.modules.pop("my_inspected", None)


def exported(capsys, *arguments) -> dict:
    assert main(["inspect", *map(str, arguments), "--ask", QUESTION, "--export", "page.html"]) == 0
    with open("page.html", encoding="utf-8") as file:
        found = re.search(r'id="data">(.*?)</script>', file.read())
    return json.loads(found[1])


def test_what_index_wrote_is_asked_by_words_alone(index, capsys) -> None:
    data = exported(capsys, index)
    assert [one["name"] for one in data["about"]["sources"]] == ["bm25", "graph"]
    assert data["view"]["question"] == QUESTION
    assert data["view"]["rows"][0]["position"] == 1
    assert data["view"]["passages"]["p00"]["title"] == "Ada Lovelace"
    assert data["other"] is None


def test_a_folder_of_from_documents_answers_as_its_retriever_does(index, tmp_path, capsys) -> None:
    documents = [Document(text, id=name, metadata={"title": title}) for name, title, text in PASSAGES]
    retriever = PhaseGraphRetriever.from_documents(documents, Counted(), path=tmp_path / "kept", progress=False)
    data = exported(capsys, tmp_path / "kept", "--embedder", "my_inspected:model", "--compare", "reciprocal_rank")
    result = retriever.explain(QUESTION)
    rows = [row for row in data["view"]["rows"] if row["position"]]
    assert [row["id"] for row in rows] == list(result.ids)
    assert [row["fused"] for row in rows] == pytest.approx(result.fused.tolist(), abs=1e-6)
    assert data["other"]["settings"]["rule"] == "rrf"
    FusionPipeline(k=3).save(tmp_path / "kept" / "pipeline.json")
    data = exported(capsys, tmp_path / "kept", "--embedder", "my_inspected:model")
    assert sum(row["position"] is not None for row in data["view"]["rows"]) == 3


def test_judged_questions_of_a_folder_are_starred_by_ids_and_by_quotes(index, tmp_path, capsys) -> None:
    lines = [{"question": QUESTION, "quotes": ["who died at Missolonghi"]}, {"question": "Who?", "relevant": ["p00"]}]
    write_jsonl(tmp_path / "asked.jsonl", lines)
    data = exported(capsys, index, "--judged", tmp_path / "asked.jsonl")
    assert data["view"]["gold"] == [{"passages": ["p01"], "found": True}]
    assert data["about"]["judged"] == 2
    data = exported(capsys, index, "--judged", tmp_path / "tiny")
    assert [hop["passages"] for hop in data["view"]["gold"]] == [["p00"], ["p01"]]


def test_a_graph_of_chunks_takes_its_texts_from_the_corpus(index, tmp_path, capsys) -> None:
    corpus = tmp_path / "tiny" / "corpus.jsonl"
    assert main(["index", str(corpus), "--chunks", "--out", "chunks"]) == 0
    data = exported(capsys, "chunks", "--corpus", corpus)
    assert [one["name"] for one in data["about"]["sources"]] == ["bm25", "graph"]
    assert data["view"]["rows"][0]["label"] == "Ada Lovelace"
    assert main(["inspect", "chunks"]) == 1
    assert "a chunk graph needs --embedder or --corpus" in capsys.readouterr().err
    assert main(["inspect", str(index), "--corpus", str(corpus)]) == 1
    assert "--corpus must be left out" in capsys.readouterr().err


def test_the_page_knows_the_command_that_serves_it(index, monkeypatch) -> None:
    served = []
    monkeypatch.setattr("phasegraph.apps.cli.inspect.serve", lambda inspector, *_: served.append(inspector.command))
    assert main(["inspect", "g", "--port", "0", "--no-open"]) == 0
    monkeypatch.setenv("PHASEGRAPH_INSPECT_TOKEN", "a-long-token")
    assert main(["inspect", "g", "--host", "0.0.0.0"]) == 0
    assert served == ["phasegraph inspect g --port 0 --no-open", ""]


def test_an_interrupt_stops_the_server_without_an_error(index, monkeypatch, capsys) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("uvicorn.Server.run", interrupted)
    assert main(["inspect", "g", "--port", "0", "--no-open"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--export", "page.html"], "--ask and --export go together"),
        (["--ask", "Who?"], "--ask and --export go together"),
        (["--pipeline", "nothing.json"], "--pipeline must be a saved pipeline or one of"),
        (["--embedder", "my_inspected:model"], "--embedder needs an index with embeddings"),
        (["--host", "no-such-host.invalid"], "cannot listen on"),
    ],
)
def test_what_cannot_be_is_said(index, capsys, arguments, said) -> None:
    assert main(["inspect", str(index), *arguments]) == 1
    assert said in capsys.readouterr().err


def test_weights_must_name_a_source_that_there_is() -> None:
    with pytest.raises(InvalidInputError, match=r"must name at least one of \['bm25', 'graph'\].*--embedder"):
        Inspector(indexed(), "x", pipeline=FusionPipeline(weights={"vector": 1.0}))


def test_a_source_without_a_weight_is_shown_and_not_fused() -> None:
    view = Inspector(indexed(), "x", pipeline=FusionPipeline(weights={"graph": 1.0})).view(QUESTION, {})
    assert {one["name"]: one["weight"] for one in view["sources"]} == {"graph": 1.0, "bm25": None}
    assert next(one["ids"] for one in view["sources"] if one["name"] == "bm25")


def test_a_question_is_asked_once_and_few_are_kept(monkeypatch) -> None:
    monkeypatch.setattr("phasegraph.apps.inspector.inspector.MOST_ASKED", 2)
    inspector, asked = Inspector(indexed(), "x", judged=judged()), []
    search = type(inspector.sources["bm25"]).search

    def counted(self, query, *more) -> Ranking:
        asked.append(query)
        return search(self, query, *more)

    monkeypatch.setattr(type(inspector.sources["bm25"]), "search", counted)
    for settings in ({}, {"k": 2}, {"weights": {"graph": 1, "bm25": 3}}):
        inspector.view("Who is Ada?", settings)
        inspector.flips(settings, {})
    assert asked == ["Who is Ada?", *(query.text for query in inspector.judged)]
    for question in ("a b", "c d", "Who is Ada?"):
        inspector.ask(question)
    assert asked[-1] == "Who is Ada?"
    assert len(inspector._asked) == 2
