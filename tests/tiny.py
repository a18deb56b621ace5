"""A small real data set on disk: twelve passages, four questions, embeddings made from word counts."""

import json

import numpy as np

from phasegraph.evaluation.datasets import load_dataset

PASSAGES = [
    ("p00", "Ada Lovelace", "Ada Lovelace was the daughter of Lord Byron and worked with Charles Babbage."),
    ("p01", "Lord Byron", "Lord Byron was an English poet who died at Missolonghi in Greece."),
    ("p02", "Missolonghi", "Missolonghi is a town in western Greece."),
    ("p03", "Charles Babbage", "Charles Babbage designed the Analytical Engine and was born in London."),
    ("p04", "London", "London is the capital of England and stands on the River Thames."),
    ("p05", "Analytical Engine", "The Analytical Engine was a mechanical computer."),
    ("p06", "Greece", "Greece is a country whose capital is Athens."),
    ("p07", "Athens", "Athens is the capital of Greece."),
    ("p08", "River Thames", "The River Thames rises in Gloucestershire."),
    ("p09", "Gloucestershire", "Gloucestershire is a county of England."),
    ("p10", "Mary Shelley", "Mary Shelley wrote Frankenstein near Geneva, where she stayed with Lord Byron."),
    ("p11", "Geneva", "Geneva is a city in Switzerland."),
]
QUERIES = [
    ("q0", "Where did the father of Ada Lovelace die?", ["p00", "p01"], True),
    ("q1", "Which river runs through the city where Charles Babbage was born?", ["p03", "p04"], True),
    ("q2", "Where does the River Thames rise?", ["p08"], True),
    ("q3", "Which capital is that of the country of Missolonghi?", ["p02", "p06"], False),
]


def _words(text):
    return [word.strip(".,?").lower() for word in text.split()]


def _embed(texts, vocabulary):
    out = np.zeros((len(texts), len(vocabulary)))
    for row, text in enumerate(texts):
        for word in _words(text):
            if word in vocabulary:
                out[row, vocabulary[word]] += 1.0
    return (out / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-9)).astype(np.float16)


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_dataset(folder, queries=QUERIES):
    folder.mkdir(parents=True, exist_ok=True)
    texts = [f"{title}\n{text}" for _, title, text in PASSAGES]
    vocabulary = {word: i for i, word in enumerate(sorted({w for text in texts for w in _words(text)}))}
    write_jsonl(folder / "corpus.jsonl", [{"id": i, "title": t, "text": x} for i, t, x in PASSAGES])
    rows = [{"id": i, "question": q, "hops": h, "last_hop_known": known} for i, q, h, known in queries]
    write_jsonl(folder / "queries.jsonl", rows)
    np.save(folder / "passages.f16.npy", _embed(texts, vocabulary))
    np.save(folder / "queries.f16.npy", _embed([q for _, q, _, _ in queries], vocabulary))
    return folder


def many_queries():
    """Three questions about every passage: enough to calibrate on, and for two parts."""
    asks = ("What is", "Where is", "Tell me of")
    return [
        (f"n{row:02d}-{turn}", f"{ask} {title}?", [name], True)
        for row, (name, title, _) in enumerate(PASSAGES)
        for turn, ask in enumerate(asks)
    ]


def edit_line(path, line, change):
    """Change the JSON object on a line of a file; `change` changes the object in place."""
    rows = path.read_text(encoding="utf-8").splitlines()
    row = json.loads(rows[line - 1])
    change(row)
    rows[line - 1] = json.dumps(row)
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def give_fields(folder, **fields):
    """Give the queries further fields, one value per query, and read the data set; None leaves out the field."""
    for name, values in fields.items():
        for line, value in enumerate(values, start=1):
            if value is not None:
                edit_line(folder / "queries.jsonl", line, lambda row, name=name, value=value: row.update({name: value}))
    return load_dataset(folder)
