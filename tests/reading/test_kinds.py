"""Each kind of file as passages: what is kept, what is left out, and what a broken file is told."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from phasegraph import InvalidInputError, MissingDependencyError
from phasegraph.reading.chunks import SIZE, passages_of
from phasegraph.reading.documents import Document, Section
from phasegraph.reading.files import KINDS, read_files
from phasegraph.reading.kinds import SUFFIXES
from phasegraph.reading.tables import _digest


def pdf(*pages: str, password: str = "", title: str = "") -> bytes:
    """A PDF of lines of text, encrypted where there is a password."""
    writer = PdfWriter()
    font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    fonts = DictionaryObject({NameObject(key): NameObject(value) for key, value in font.items()})
    for text in pages:
        page = writer.add_blank_page(300, 300)
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
        held = DictionaryObject({NameObject("/F1"): fonts})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): held})
    if title:
        writer.add_metadata({"/Title": title})
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def read(tmp_path, name: str, data: bytes | str):
    file = tmp_path / name
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_files(file).passages


def test_markdown_gives_headings_titles_and_the_text_of_links(tmp_path) -> None:
    text = (
        "---\ndraft: yes\n---\n# Ada\nShe met [Bo](bo.md).\n<!-- hidden -->\n```\n# no heading\n```\n## Bo\nHe left.\n"
    )
    (passage,) = read(tmp_path, "a.md", text)
    assert (passage.id, passage.title) == ("a.md#1", "Ada")
    assert passage.text == "Ada\nShe met Bo.\n\n```\n# no heading\n```\n\nBo\nHe left."
    assert passage.extra["source"] == "a.md"
    assert passage.metadata == {"source": "a.md"}


@pytest.mark.parametrize(("text", "title"), [("She met Bo.\n", "notes"), ("# end\nShe met Bo.\n", "end")])
def test_markdown_without_a_heading_has_the_title_of_its_file(tmp_path, text, title) -> None:
    (passage,) = read(tmp_path, "notes.md", text)
    assert passage.title == title


def test_html_keeps_what_is_read_and_leaves_scripts_and_menus_out(tmp_path) -> None:
    text = (
        "<html><head><title>Ada &amp; Bo</title><style>p{}</style></head><body><nav><a>Menu</a></nav>"
        "<h1>Ada</h1><p>She <b>met</b> Bo.<script>alert(1)</script></p><ul><li>one<li>two</ul></body></html>"
    )
    (passage,) = read(tmp_path, "a.html", text)
    assert passage.title == "Ada & Bo"
    assert passage.text == "Ada\nShe met Bo.\n\none\ntwo"


@pytest.mark.parametrize(
    "text",
    [
        "title;note;year\nAda;She met Bo.;1843\nBo;He left.;1844\n",
        "title,note,year\nAda,She met Bo.,1843\nBo,He left.,1844\n",
    ],
)
def test_each_row_of_a_table_is_a_passage(tmp_path, text) -> None:
    one, two = read(tmp_path, "a.csv", text)
    assert (one.title, one.text) == ("Ada", "note: She met Bo.\nyear: 1843")
    assert one.metadata == {"source": "a.csv", "note": "She met Bo.", "year": 1843}
    assert two.title == "Bo"


def test_the_other_columns_of_a_row_are_metadata(tmp_path) -> None:
    text = "name,price,maker,code,note,text,source\nPump,12.5,Acme,007,,A pump.,web\nValve,,true,NaN,[1],A valve.,web\n"
    pump, valve = read(tmp_path, "a.csv", text)
    assert (pump.title, pump.text) == ("Pump", "A pump.")
    assert pump.metadata == {"source": "a.csv", "price": 12.5, "maker": "Acme", "code": "007"}
    assert valve.metadata == {"source": "a.csv", "maker": True, "code": "NaN", "note": "[1]"}
    row = {
        "text": "A pump.",
        "team": "red",
        "level": 3,
        "tags": ["a"],
        "source": "web",
        "metadata": {"unit": "m", "level": 4},
    }
    (kept,) = read(tmp_path, "a.jsonl", json.dumps(row))
    assert kept.metadata == {"source": "a.jsonl", "team": "red", "level": 4, "unit": "m"}
    (kept,) = read(tmp_path, "b.jsonl", json.dumps({"id": "p", **row}))
    assert kept.metadata == {"team": "red", "level": 4, "unit": "m"}
    (kept,) = read(tmp_path, "c.jsonl", json.dumps({"id": "p", "text": "A pump."}))
    assert kept.metadata is None


@pytest.mark.parametrize("more", [{}, {"id": "p"}, {"id": 7}])
def test_a_line_with_an_id_has_the_same_fields_as_a_line_without(tmp_path, more) -> None:
    row = {"Heading": "Pump", "text": None, "page_content": "A pump.", "team": "red"}
    (passage,) = read(tmp_path, "a.jsonl", json.dumps(more | row))
    assert (passage.title, passage.text) == ("Pump", "A pump.")
    assert {"team": "red"}.items() <= passage.metadata.items()
    assert "page_content" not in passage.metadata
    assert passage.id == (str(more["id"]) if more else passage.id)


def test_a_title_of_another_name_stays_in_the_metadata_of_a_line_with_an_id(tmp_path) -> None:
    (passage,) = read(tmp_path, "a.jsonl", json.dumps({"id": "p", "text": "A pump.", "name": "Ada", "subject": "red"}))
    assert (passage.title, passage.metadata) == ("Ada", {"name": "Ada", "subject": "red"})


def test_an_integer_is_the_id_of_a_line_and_true_is_not(tmp_path) -> None:
    lines = [{"id": 7, "text": "A pump."}, {"id": "8", "text": "A valve."}]
    assert [one.id for one in read(tmp_path, "a.jsonl", "\n".join(map(json.dumps, lines)))] == ["7", "8"]
    with pytest.raises(InvalidInputError, match=r"a\.jsonl:2: ids must not repeat; '7' is already on line 1"):
        read(tmp_path, "a.jsonl", "\n".join(map(json.dumps, [lines[0], {"id": "7", "text": "A valve."}])))
    with pytest.raises(InvalidInputError, match=r"a\.jsonl:2: 'id' must be text that is not blank; got True"):
        read(tmp_path, "a.jsonl", "\n".join(map(json.dumps, [lines[0], {"id": True, "text": "A valve."}])))


def test_a_row_with_more_cells_than_columns_is_an_error_unless_they_are_blank(tmp_path) -> None:
    (passage,) = read(tmp_path, "a.csv", "more,text\nPump,A pump., ,\n")
    assert (passage.text, passage.metadata["more"]) == ("A pump.", "Pump")
    text = 'note,text,note\nPump,"A\npump."\nValve,A valve, of brass., old\n'
    said = r"a\.csv:4: the row has 4 cells, but the first line names 3 columns; put a cell that contains ',' in quotes"
    with pytest.raises(InvalidInputError, match=said):
        read(tmp_path, "a.csv", text)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_quotes_and_separators_in_texts_do_not_change_the_columns_of_a_table(tmp_path, separator) -> None:
    texts = ["The 'big' pump, of brass.", "Some; text | and; more.", *["A pump."] * 1000, 'A 5" pipe, of "brass".']
    table = io.StringIO(newline="")
    rows = [["name", "a, b;\nc", "text"], *(["Pump", "", text] for text in texts)]
    csv.writer(table, delimiter=separator).writerows(rows)
    assert [one.text for one in read(tmp_path, "a.csv", table.getvalue())] == texts


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("# Ada\n\n## Bo #\n", "Ada\n\nBo"),
        ("# Ada\n```\ncode\n", "Ada\n```\ncode"),
        ("Ada\n\n~~~\n# no heading\n", "Ada\n\n~~~\n# no heading"),
        ("#  \n", None),
    ],
)
def test_headings_alone_and_an_open_code_block_are_text(tmp_path, text, kept) -> None:
    if kept is None:
        with pytest.raises(InvalidInputError, match="the file contains no text"):
            read(tmp_path, "a.md", text)
    else:
        (passage,) = read(tmp_path, "a.md", text)
        assert passage.text == kept


def test_the_id_of_a_row_does_not_depend_on_its_place(tmp_path) -> None:
    def ids(name: str, text: str) -> list[str]:
        return [one.id for one in read(tmp_path, name, text)]

    one, two = ids("a.csv", "name,text\nPump,A pump.\nValve,A valve.\n")
    assert ids("a.csv", "name,text\nTap,A tap.\nPump,A pump.\nValve,A valve.\n")[1:] == [one, two]
    assert ids("a.csv", "name,text\nPump,A pump.\nPump,A pump.\n") == [one, one.replace("#", ":2#")]
    assert ids("a.csv", "ID,text\np7,A pump.\n8,A valve.\n") == ["a.csv:p7#1", "a.csv:8#1"]
    assert ids("a.csv", "ID,text\np7,A pump.\np7,A valve.\n") == ["a.csv:p7#1", "a.csv:p7:2#1"]


def test_a_repeated_id_of_a_row_gets_a_free_number(tmp_path) -> None:
    found = read(tmp_path, "a.csv", "key,text\n3:1,a\n3,x\n3,y\n3:2,b\n3,z\n")
    assert [one.id for one in found] == [f"a.csv:{name}#1" for name in ("3:1", "3", "3:2", "3:2:2", "3:3")]
    found = read(tmp_path, "a.csv", "key,text\n3:2,b\n3,x\n3,y\n")
    assert [one.id for one in found] == [f"a.csv:{name}#1" for name in ("3:2", "3", "3:3")]


@pytest.mark.parametrize("value", [None, "", True])
def test_an_empty_or_boolean_id_is_no_id(tmp_path, value) -> None:
    without = {"text": "Ada met Bo."} | ({"id": True} if value is True else {})
    lines = "".join(f"{json.dumps({'id': value, 'text': text})}\n" for text in ("Ada met Bo.", "Cy sang."))
    first, second = read(tmp_path, "a.jsonl", lines)
    assert first.id == f"a.jsonl:{_digest(without)}#1" != second.id


def test_jsonl_with_ids_is_a_corpus_and_without_ids_rows(tmp_path) -> None:
    long = "word " * 400
    (kept,) = read(tmp_path, "a.jsonl", f'{{"id": "p1", "text": "{long}"}}\n')
    assert (kept.id, kept.text) == ("p1", long)
    cut = read(tmp_path, "b.jsonl", f'{{"name": "Ada", "content": "{long}", "uuid": 7}}\n')
    assert [one.id for one in cut] == ["b.jsonl:7#1", "b.jsonl:7#2", "b.jsonl:7#3"]
    assert {one.title for one in cut} == {"Ada"}


def test_pdf_gives_the_text_of_its_pages(tmp_path) -> None:
    (passage,) = read(tmp_path, "a.pdf", pdf("Ada met Bo.", "Bo left.", title="The story"))
    assert passage.title == "The story"
    assert passage.text == "Ada met Bo.\n\nBo left."
    long = " ".join(["Bo left."] * 88)
    first, second, third = read(tmp_path, "b.pdf", pdf("Ada met Bo.", long, long))
    assert [one.metadata for one in (first, second, third)] == [{"source": "b.pdf", "page": page} for page in (1, 2, 3)]
    assert "Page" not in first.text + second.text


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.pdf", pdf("Ada", password="secret"), "a.pdf: the PDF is encrypted: save a copy without a password"),
        ("a.pdf", b"%PDF-1.7 broken", "a.pdf: the PDF"),
        ("a.pdf", pdf(), "the PDF contains no text .scanned pages.*run OCR"),
        ("a.txt", b"a\0b", "a.txt: the file is not text"),
        ("a.txt", b"  \n", "a.txt: there is no readable file: skipped 1 file: the file contains no text"),
        ("a.jsonl", b"no json\n", "a.jsonl:1: the line must be one JSON object"),
        ("a.docx", b"PK", "no reader for this kind of file .a.docx.; phasegraph reads text .*PDF .*archives"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_told_why_and_what_to_do(tmp_path, name, data, said) -> None:
    with pytest.raises(InvalidInputError, match=said):
        read(tmp_path, name, data)


def test_a_pdf_without_pypdf_says_what_to_install(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pypdf", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'phasegraph\[files\]'"):
        read(tmp_path, "a.pdf", pdf("Ada"))
    (tmp_path / "b.txt").write_text("Ada met Bo.")
    found = read_files(tmp_path)
    assert [one.id for one in found.passages] == ["b.txt#1"]
    assert found.notes() == ["skipped 1 file: PDF files need pypdf; pip install 'phasegraph[files]' (a.pdf)"]


def test_bytes_of_other_encodings_are_text(tmp_path) -> None:
    assert read(tmp_path, "a.txt", "Käse".encode("cp1252"))[0].text == "Käse"
    assert read(tmp_path, "b.txt", "Käse".encode("utf-16"))[0].text == "Käse"


@given(st.lists(st.tuples(st.text(max_size=30), st.text(alphabet="ab. \n", max_size=3000)), max_size=4))
def test_no_passage_is_too_long_and_no_letter_is_lost(sections) -> None:
    made = Document("d", "D", tuple(Section("", text) for _, text in sections))
    passages = passages_of(made)
    assert all(len(one.text) <= SIZE for one in passages)
    letters = [character for _, text in sections for character in text if character in "ab."]
    assert [character for one in passages for character in one.text if character in "ab."] == letters
    assert len({one.id for one in passages}) == len(passages)


def test_a_long_section_repeats_its_heading() -> None:
    passages = passages_of(Document("d", "D", (Section("Head", "Ada met Bo. " * 200),)))
    assert len(passages) > 2
    assert all(one.text.startswith("Head\nAda met Bo.") for one in passages)


def test_code_keeps_its_lines_and_indentation(tmp_path) -> None:
    text = "\n    def first():\r\n        return 1\r\n\r\n\ndef second():\n\treturn 2\n"
    (passage,) = read(tmp_path, "my_tools.py", text)
    assert (passage.id, passage.title) == ("my_tools.py#1", "my_tools.py")
    assert passage.text == "    def first():\n        return 1\n\ndef second():\n\treturn 2"


def test_long_code_is_cut_between_lines(tmp_path) -> None:
    lines = [f"    total += value[{row}]  # the. next? row!" for row in range(100)] + ["x" * (SIZE + 5)]
    found = read(tmp_path, "a.py", "\n".join(lines))
    assert all(len(one.text) <= SIZE for one in found)
    kept = [line for one in found for line in one.text.split("\n") if line]
    assert kept == [*lines[:-1], "x" * SIZE, "x" * 5]


def test_minified_code_is_refused_and_json_has_no_reader(tmp_path) -> None:
    with pytest.raises(InvalidInputError, match="more than 5,000 characters, so the file is probably minified"):
        read(tmp_path, "a.min.js", "x" * 5001)
    with pytest.raises(InvalidInputError, match="no reader for this kind of file"):
        read(tmp_path, "a.json", "{}")


@pytest.mark.parametrize(("kind", "suffix"), [(kind, end) for kind, ends in SUFFIXES.items() for end in ends])
def test_the_guide_lists_every_suffix_of_a_kind(kind, suffix) -> None:
    page = (Path(__file__).parents[2] / "docs" / "guide" / "try.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith(f"| {kind} |")]
    assert f"`{suffix}`" in row
    assert KINDS[kind][0] == SUFFIXES[kind]
