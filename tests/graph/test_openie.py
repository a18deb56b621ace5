"""Extractions made elsewhere: two formats, errors that name the place, and counts of what was left out."""

import json
from pathlib import Path

import pytest

from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.graph import Extraction, build_graph
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.graph.model.building import read_openie

BUNDLED = Path(__file__).parents[2] / "data" / "musique-openie"
PASSAGES = [
    {"id": "a", "title": "Ada", "text": "Ada met  Bo\nin Paris."},
    {"id": "b", "title": "", "text": "Bo sang."},
    {"id": "c", "title": "Bo", "text": "Bo sang."},
]
DOC = {
    "idx": "a",
    "passage": "Ada\nAda met Bo in Paris.",
    "extracted_entities": ["Ada", "Bo", "ADA", 7],
    "extracted_triples": [["Ada", "met", "Bo"], ["Ada", "met"], ["Ada", None, "Bo"], "Ada met Bo", ["—", "met", "Bo"]],
}


def _write(folder: Path, content: object, name: str = "openie.json") -> Path:
    file = folder / name
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


def test_both_formats_give_the_same_records(tmp_path: Path) -> None:
    line = {"id": "a", "entities": DOC["extracted_entities"], "triples": DOC["extracted_triples"]}
    found = [
        read_openie(_write(tmp_path, {"docs": [DOC], "avg_ent_chars": 3}), PASSAGES),
        read_openie(_write(tmp_path, json.dumps({"docs": [DOC]}, indent=1), "pretty.json"), PASSAGES),
        read_openie(_write(tmp_path, "\n" + json.dumps(line) + "\n\n", "triples.jsonl"), PASSAGES),
    ]
    assert found[0] == found[1] == found[2]
    record = found[0].extractions[0]
    assert (record.passage_id, record.entities, record.triples) == ("a", ("ada", "bo"), (("Ada", "met", "Bo"),))
    assert (found[0].malformed_triples, found[0].malformed_entities) == (4, 1)


def test_an_entry_without_a_known_id_belongs_to_every_passage_of_its_text(tmp_path: Path) -> None:
    docs = [{**DOC, "idx": "chunk-17"}, {"idx": "chunk-18", "passage": " Bo  sang.", "extracted_triples": []}]
    found = read_openie(_write(tmp_path, {"docs": docs}), PASSAGES)
    assert [record.passage_id for record in found.extractions] == ["a", "b", "c"]


def test_entities_can_be_left_out_so_that_only_facts_count(tmp_path: Path) -> None:
    found = read_openie(_write(tmp_path, {"docs": [DOC]}), PASSAGES, entities=False)
    assert found.extractions[0].entities == ()
    assert found.malformed_entities == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"id": "a"}\n{"id": "b", "triples"\n', r":2: the content must be JSON"),
        ('{"id": "a"}\n{"id": "zz"}\n', r":2: .*'zz' is not"),
        ('{"id": "a"}\n\n{"id": "a"}\n', r":3: id 'a' is already on line 1"),
        ('{"id": "a"}\n["a"]\n', r":2: the line must be one JSON object; got list"),
        ('{"id": 3}\n', r":1: 'id' must be text"),
        ('{"id": "a", "triples": "x"}\n', r":1: 'triples' must be a list"),
        ({"docs": [DOC, {"idx": "zz", "passage": "Cy."}]}, r"docs\[1\]: .*no passage has the id 'zz'"),
        ({"docs": [DOC, {**DOC, "idx": "chunk-1"}]}, r"docs\[1\]: .*'a' is already in docs\[0\]"),
        ({"docs": [DOC, 5]}, r"docs\[1\]: an entry must be an object"),
        ({"docs": {}}, "'docs' must be a list"),
        ('{"docs": [\n{"idx": "a"', "must be JSON"),
        ("\n \n", "the file is empty"),
    ],
)
def test_a_file_that_is_wrong_names_file_and_place(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match="openie.json.*" + message.lstrip("r")):
        read_openie(_write(tmp_path, content), PASSAGES)


def test_a_line_that_is_not_utf8_names_its_number(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_bytes(b'{"id": "a"}\n{"id": "b\xff"}\n')
    with pytest.raises(InvalidInputError, match=r"t\.jsonl:2: the content must be JSON in UTF-8"):
        read_openie(file, PASSAGES)
    with pytest.raises(InvalidInputError, match="does not exist"):
        read_openie(tmp_path / "none.jsonl", PASSAGES)


def test_real_triples_become_the_facts_of_the_graph() -> None:
    lines = (BUNDLED / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    passages = [json.loads(line) for line in lines]
    found = read_openie(BUNDLED / "triples.jsonl", passages)
    assert len(found.extractions) == len(passages) == 1890
    assert build_graph(passages, triples=found.extractions).facts.nnz > 20_000


def test_names_handed_over_as_written_are_those_the_rules_find() -> None:
    written = Extraction("a", ["Ada", "BO!", "—"], [("ADA", "met", "Bo")], titles=["Ada"], lead="Ada")
    graph = build_graph(PASSAGES, triples=[written])
    assert graph.entities == ("ada", "bo", "paris")
    assert GraphIndex.build(PASSAGES, triples=[written]).graph.entities == graph.entities
    by_hand = build_graph(PASSAGES, extractor=lambda name, title, text: Extraction(name, ["Ada LOVELACE"]))
    assert by_hand.entities == ("ada lovelace",)


def test_what_is_no_record_is_refused() -> None:
    names = dict.fromkeys(["Ada"]).keys()  # as a table or a graph of another library, it contains texts
    for wrong, said in (
        ([{"id": "a"}], "list of dict"),
        ([("Ada", "met", "Bo")], "list of tuple"),
        (names, "dict_keys of str"),
    ):
        with pytest.raises(InvalidTypeError, match=rf"{{'PASSAGE ID': \[.*or a list of Extraction; got {said}"):
            build_graph(PASSAGES, triples=wrong)
    with pytest.raises(InvalidTypeError, match="an extraction must be an Extraction; got dict"):
        build_graph(PASSAGES, extractor=lambda *passage: {"id": "a"})
