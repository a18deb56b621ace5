"""Make the bundled part of a real data set from the folder of the whole data set.

    python tools/bundle_data.py SOURCE_DIR data/musique-openie

The embeddings of passages and queries are copied as float16. Embeddings of facts are stored as int8 with one float16
scale per row; the program prints the largest and the mean change of a fact's cosine with the 100 queries. Entity
embeddings and the list of facts are not stored. The facts are the sorted, distinct, normalized triples; the program
checks that it can make the same list from the triples.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path

import numpy as np

COPIED = ("corpus.jsonl", "queries.jsonl", "triples.jsonl", "passages.f16.npy", "queries.f16.npy")


def normalised(text: str) -> str:
    """Return the text in lower case, with a space for every character other than ASCII letters and digits.

    White space at both ends is removed.
    """
    return re.sub(r"[^A-Za-z0-9 ]", " ", text.lower()).strip()


def facts_of(triples_file: Path) -> list[tuple[str, str, str]]:
    """Return the sorted, distinct, normalized triples of a file, without triples that have an empty part."""
    found = set()
    for line in triples_file.read_text(encoding="utf-8").splitlines():
        for subject, predicate, item in json.loads(line)["triples"]:
            found.add((normalised(subject), normalised(predicate), normalised(item)))
    return sorted(fact for fact in found if all(fact))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    options.target.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        shutil.copyfile(options.source / name, options.target / name)
    lines = (options.source / "facts.jsonl").read_text(encoding="utf-8").splitlines()
    listed = [(fact["s"], fact["p"], fact["o"]) for fact in map(json.loads, lines)]
    remade = facts_of(options.source / "triples.jsonl")
    if remade != listed:
        raise SystemExit(f"the facts cannot be remade from the triples: {len(remade)} against {len(listed)}")
    facts = np.load(options.source / "facts.f16.npy").astype(np.float32)
    scales = (np.abs(facts).max(axis=1, keepdims=True) / 127).astype(np.float16)
    packed = np.clip(np.round(facts / scales.astype(np.float32)), -127, 127).astype(np.int8)
    np.save(options.target / "facts.i8.npy", packed)
    np.save(options.target / "facts.scale.f16.npy", scales[:, 0])
    queries = np.load(options.source / "queries.f16.npy").astype(np.float32)
    change = np.abs(queries @ (packed * scales.astype(np.float32)).T - queries @ facts.T)
    size = sum(file.stat().st_size for file in options.target.iterdir())
    print(f"cosine change by int8: at most {change.max():.5f}, mean {change.mean():.6f}; {size / 1e6:.2f} MB in all")


if __name__ == "__main__":
    main()
