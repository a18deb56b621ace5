"""From pages to chunks and questions: what is taken out, what is gold, and what asks nothing."""

import gzip
import json
import shutil

import pytest
from collection import chunked, sampled
from documents import Document, Section, html_changes, html_pages, manual_pages, markdown_pages, python_functions

from phasegraph.evaluation.corpus_files import read_corpus
from phasegraph.evaluation.query_files import queries_of

PAGE = """<html><head><title>9.2. Backup</title></head><body>
<div class="navheader">Prev</div><div class="sect1"><div class="titlepage"><h2>9.2. Backup</h2></div>
<p>Backups matter.</p>
<div class="sect2"><div class="titlepage"><h3>9.2.1. Making a Base Backup</h3></div>
<p>Copy   the
files while
the server runs.</p><pre>cp -r data
   backup</pre></div><div class="sect2"><div class="titlepage"><h3>9.2.2. Tools</h3></div><p>There are tools.</p></div>
</div></body></html>"""
REFERENCE = """<html><head><title>COPY</title></head><body><div class="refentry"><div class="refnamediv"><h2>COPY</h2>
<p>COPY — move rows between a file and a table</p></div><div class="refsect1"><h2>Description</h2><p>Reads a file.</p>
</div><div class="refsect1"><h2>Notes</h2><p>Needs a privilege.</p></div></div></body></html>"""
RELEASE = """<html><head><title>E.1. Release 15.1</title></head><body><ul>
<li class="listitem"><p>Fix crash of <code>COPY</code> when a file is empty (Ada Byron, Bo Li) <a>§</a></p><p>The
server crashed.</p></li><li class="listitem"><p>Update time zones (Ada Byron) <a>§</a></p></li></ul></body></html>"""
LONG = "The server reads the file and writes what it has read into the table, row by row. " * 3


def test_a_page_is_cut_into_sections_without_headings_and_navigation(tmp_path):
    (tmp_path / "backup.html").write_text(PAGE, encoding="utf-8")
    (page,) = html_pages(tmp_path)
    assert (page.source, page.title) == ("backup", "Backup")
    assert [(one.question, one.text) for one in page.sections] == [
        ("Backup", "Backups matter."),
        ("Making a Base Backup", "Copy the files while the server runs.\n\ncp -r data\n   backup"),
        ("Tools", "There are tools."),
    ]


def test_the_purpose_of_a_reference_page_asks_for_its_description(tmp_path):
    (tmp_path / "copy.html").write_text(REFERENCE, encoding="utf-8")
    (page,) = html_pages(tmp_path)
    assert [(one.kind, one.question, one.text) for one in page.sections] == [
        ("purpose", "move rows between a file and a table", "Reads a file."),
        ("heading", "Notes", "Needs a privilege."),
    ]


def test_an_entry_of_release_notes_asks_by_its_first_paragraph_without_authors(tmp_path):
    (tmp_path / "release-15-1.html").write_text(RELEASE, encoding="utf-8")
    (page,) = html_changes(tmp_path)
    assert [(one.question, one.text) for one in page.sections] == [
        ("Fix crash of COPY when a file is empty", "The server crashed."),
        ("", "Update time zones"),
    ]


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff renders manual pages, and is not on this machine")
def test_the_line_under_a_manual_pages_name_asks_for_its_description(tmp_path):
    (tmp_path / "man1").mkdir()
    text = ".TH CP 1\n.SH BEZEICHNUNG\ncp \\- Dateien an einen Ort kopieren\n.SH BESCHREIBUNG\nEs liest.\n"
    for name, shown in (("cp", text), ("mv", text.replace("Dateien an", "mv an"))):
        (tmp_path / "man1" / f"{name}.1.gz").write_bytes(gzip.compress(shown.encode()))
    (tmp_path / "man1" / "copy.1.gz").write_bytes(gzip.compress(b".so man1/cp.1\n"))
    first, second = manual_pages(tmp_path, "BEZEICHNUNG", "BESCHREIBUNG")
    assert (first.source, first.title) == ("cp.1", "cp(1)")
    assert [(one.question, one.text) for one in first.sections] == [("Dateien an einen Ort kopieren", "Es liest.")]
    assert [one.question for one in second.sections] == [""]  # it would name its page


def test_headings_of_markdown_ask_and_code_has_none(tmp_path):
    (tmp_path / "guide").mkdir()
    text = "# Backups\n\nWhy.\n\n## Making a base backup ##\n\nCopy.\n\n```sh\n# no heading\ncp\n```\n\n### Empty\n"
    (tmp_path / "guide" / "backup.md").write_text(text, encoding="utf-8")
    (page,) = markdown_pages(tmp_path)
    assert (page.source, page.title) == ("guide/backup.md", "Backups")
    assert [(one.question, one.text) for one in page.sections] == [
        ("Backups", "Why."),
        ("Making a base backup", "Copy.\n\n```sh\n# no heading\ncp\n```"),
    ]


def test_the_first_sentence_of_a_docstring_asks_for_the_rest_of_its_function(tmp_path):
    text = (
        "class A:\n    @cached\n    def read(self):\n"
        '        """Read\n        it. Then stop.\n\n        More.\n        """\n        return 1\n'
    )
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    (tmp_path / "b.py").write_text("print 1\n", encoding="utf-8")
    (module,) = python_functions(tmp_path)
    assert (module.source, module.title, module.apart) == ("a.py", "a.py", True)
    assert [(one.question, one.text) for one in module.sections] == [
        ("Read it", "@cached\ndef read(self):\n    return 1")
    ]


def words(count, stem):
    return " ".join(f"{stem}{number:04d}" for number in range(count))


def test_gold_is_what_lies_in_the_section_and_a_long_section_asks_nothing():
    sections = (
        Section(words(100, "lead")),
        Section(words(150, "gold"), "How is a backup made"),
        Section(words(900, "long"), "How is everything else made"),
    )
    passages, queries = chunked([Document("page", "Title", sections)])
    assert [query["question"] for query in queries] == ["How is a backup made"]
    text = {one["id"]: one["text"] for one in passages}
    for name, chunk in text.items():
        share = sum(word.startswith("gold") for word in chunk.split()) / len(chunk.split())
        assert (name in queries[0]["hops"]) == (share >= 0.5)
    assert all(len(chunk) <= 800 for chunk in text.values())


def test_a_long_description_has_its_first_two_chunks_as_gold():
    (query,) = chunked([Document("p", "T", (Section(words(900, "long"), "say what this is for", "purpose"),))])[1]
    assert query["hops"] == ["p#0", "p#1"]


@pytest.mark.parametrize(
    ("title", "section"),
    [
        ("T", Section(LONG, "Two words")),
        ("T", Section("Short.", "How is a backup made")),
        ("T", Section(f"{LONG} How is a, backup made?", "How is a backup made")),
        ("How is a backup made", Section(LONG, "How is a backup made")),
    ],
)
def test_a_section_that_gives_itself_away_or_says_too_little_asks_nothing(title, section):
    assert chunked([Document("p", title, (section,))])[1] == []


def test_a_question_that_two_pages_answer_is_left_out():
    section = Section(LONG, "How is a backup made")
    assert chunked([Document("a", "A", (section,)), Document("b", "B", (section,))])[1] == []


def test_entries_kept_apart_share_no_chunk():
    sections = tuple(Section(f"{LONG}{number}", f"Fix crash number {number} of it", "change") for number in range(3))
    together, apart = (chunked([Document("r", "Release", sections, flag)]) for flag in (False, True))
    assert [query["hops"] for query in apart[1]] == [["r#0"], ["r#1"], ["r#2"]]
    assert [one["text"] for one in apart[0]] == [section.text for section in sections]
    assert len(together[0]) < 3


def test_pages_that_ask_come_first_and_the_rows_are_a_data_set(tmp_path):
    asking = [Document(f"a{n}", "T", (Section(LONG, f"How is backup {n} made"),)) for n in range(6)]
    silent = [Document(f"s{n}", "T", (Section(LONG),)) for n in range(20)]
    passages, queries = sampled([*silent, *asking], 10, 4)
    assert (len(passages), len(queries)) == (10, 4)
    assert sum(one["source"].startswith("a") for one in passages) == 4
    for name, rows in (("corpus", passages), ("queries", queries)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    corpus = read_corpus(tmp_path / "corpus.jsonl")
    read = queries_of(tmp_path / "queries.jsonl", list(enumerate(queries, start=1)), corpus)
    assert [query.judgement.pages for query in read] == [tuple(query["pages"]) for query in queries]
    assert sampled([*silent, *asking], 10, 4) == (passages, queries)
