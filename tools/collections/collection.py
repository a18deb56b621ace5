"""Convert documents to a data set: chunks, questions with their gold chunks, embeddings, SOURCE.md."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from documents import Document, Section

SIZE, OVERLAP = 800, 80
WORDS = {"heading": (3, 15), "purpose": (4, 25), "change": (5, 30), "docstring": (6, 28)}
"""Fewest and most words of a question of each kind."""
MOST_GOLD = 4
"""A section of more chunks asks nothing, but for a purpose: its description's first two chunks are gold."""
LEAST_TEXT = 150


def chunked(documents: Iterable[Document]) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Split documents into chunks; return the rows of ``corpus.jsonl`` (chunks) and ``queries.jsonl`` (questions).

    A question is left out if it occurs twice, or if its own gold chunks contain it.
    """
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    splitter = RecursiveCharacterTextSplitter(chunk_size=SIZE, chunk_overlap=OVERLAP, add_start_index=True)
    passages: list[dict[str, object]] = []
    queries: list[dict[str, object]] = []
    for document in documents:
        starts: list[int] = []
        parts = [""]
        for section in document.sections:
            parts += [""] * document.apart
            starts.append(sum(map(len, parts)))
            parts[-1] += section.text + "\n\n"
        chunks: list[tuple[int, str]] = []
        for place, part in enumerate(parts):
            before = sum(map(len, parts[:place]))
            cut = splitter.create_documents([part])
            chunks += [(before + each.metadata["start_index"], each.page_content) for each in cut]
        ids = [f"{document.source}#{place}" for place in range(len(chunks))]
        passages += [
            {"id": name, "title": document.title, "text": chunk, "source": document.source}
            for name, (_, chunk) in zip(ids, chunks, strict=True)
        ]
        for section, start in zip(document.sections, starts, strict=True):
            gold = _gold(section, start, chunks)
            if gold and _asks(section, [document.title, *(chunks[place][1] for place in gold)]):
                queries.append(
                    {
                        "question": section.question,
                        "answer": "",
                        "hops": [ids[place] for place in gold],
                        "hop_order_known": False,
                        "type": section.kind,
                        "pages": [document.source],
                    }
                )
    times = Counter(str(query["question"]).lower() for query in queries)
    return passages, [query for query in queries if times[str(query["question"]).lower()] == 1]


def _gold(section: Section, start: int, chunks: Sequence[tuple[int, str]]) -> list[int]:
    """Return the numbers of the chunks that contain the answer to a section's question.

    These are the chunks of which at least half is in the section, and the chunks that contain most of the section.
    `start` is where the section starts in the document. The list is empty if there are too many such chunks.
    """
    end, found = start + len(section.text), []
    for place, (first, chunk) in enumerate(chunks):
        shared = min(end, first + len(chunk)) - max(start, first)
        if shared > 0 and (2 * shared >= len(chunk) or 2 * shared > len(section.text)):
            found.append(place)
    if section.kind == "purpose":
        return found[:2]
    return found if len(found) <= MOST_GOLD else []


def _asks(section: Section, gold: Sequence[str]) -> bool:
    """Return True if the section has a question of suitable length that neither its title nor a gold chunk contains."""
    fewest, most = WORDS[section.kind]
    words = section.question.split()
    if not fewest <= len(words) <= most or len(section.text) < LEAST_TEXT:
        return False
    plain = re.sub(r"\W+", " ", section.question).strip().lower()
    return plain not in re.sub(r"\W+", " ", "\n".join(gold)).lower()


def sampled(
    documents: Sequence[Document], passages: int, questions: int
) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Draw about `passages` passages and at most `questions` questions, with ids, from random documents.

    Documents with questions come first.
    """
    rng = np.random.default_rng(0)
    pages = Counter(str(page) for query in chunked(documents)[1] for page in query["pages"])  # type: ignore[attr-defined]
    order = [documents[row] for row in rng.permutation(len(documents)).tolist()]
    taken: list[Document] = []
    size = asked = 0
    for asking in (True, False):
        for one in order:
            count = len(chunked([one])[0])
            if (one.source in pages) == asking and size + count <= passages and (asked < questions or not asking):
                taken.append(one)
                size, asked = size + count, asked + pages[one.source]
    kept, found = chunked(sorted(taken, key=lambda one: one.source))
    rows = np.sort(rng.permutation(len(found))[:questions]).tolist()
    return kept, [{"id": f"q{number}", **found[row]} for number, row in enumerate(rows)]


def write(
    folder: Path, passages: Sequence[dict[str, object]], queries: Sequence[dict[str, object]], about: str
) -> None:
    """Embed the texts and write the data set to `folder`, which appears only when it is complete."""
    from phasegraph.embedding.minilm import MiniLM

    making = folder.with_name(f".{folder.name}.making")
    making.mkdir(parents=True)
    model = MiniLM()
    for name, rows in (("corpus", passages), ("queries", queries)):
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (making / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    np.save(making / "queries.f16.npy", model.embed_documents([str(row["question"]) for row in queries]))
    np.save(making / "passages.f16.npy", model.embed_documents([f"{row['title']}\n{row['text']}" for row in passages]))
    (making / "SOURCE.md").write_text(about, encoding="utf-8")
    making.rename(folder)
