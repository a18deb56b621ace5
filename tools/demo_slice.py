"""Select the part of data/musique-openie that the wheel contains for ``phasegraph demo``.

    python tools/demo_slice.py

The part contains some questions of the bundled data with their gold passages. It also contains the first passages that
vectors, BM25 and the walk find for these questions. So the sources rank the same passages first in this part as in the
whole data set.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.source_runs import ExperimentInput, search_sources

ROOT = Path(__file__).resolve().parents[1]
WHOLE, SLICE = ROOT / "data" / "musique-openie", ROOT / "src" / "phasegraph" / "apps" / "inspector" / "demo"
QUESTIONS = (
    "2hop__205146_62031", "2hop__145144_562703", "2hop__269983_646483", "2hop__130712_90450", "2hop__468258_495107",
    "2hop__149855_96331",
)  # fmt: skip
"""The first opens the page."""
DEPTH = {"vector": 30, "graph": 20, "bm25": 15}


def kept_passages() -> set[str]:
    """Return the ids of the passages in the part of the data set that `phasegraph demo` uses."""
    whole = load_dataset(WHOLE)
    rows = [row for row, query in enumerate(whole.queries) if query.id in QUESTIONS]
    part = whole.subset(rows)
    runs = search_sources(ExperimentInput(part), DEPTH)
    kept = {name for judgement in part.judgements for name in judgement.passages}
    for source, depth in DEPTH.items():
        kept.update(name for ranking in runs[source].rankings for name in ranking.ids[:depth])
    return kept


def write_part(name: str, vectors: str, wanted: list[str]) -> None:
    """Write the lines of the file `name` with the ids in `wanted`, and their rows of the file `vectors`.

    Passages keep the order of the whole data set; questions have the order of the ids.
    """
    lines = (WHOLE / name).read_text(encoding="utf-8").splitlines()
    rows = {json.loads(line)["id"]: row for row, line in enumerate(lines)}
    places = [rows[one] for one in wanted]
    (SLICE / name).write_text("".join(lines[place] + "\n" for place in places), encoding="utf-8")
    np.save(SLICE / vectors, np.load(WHOLE / vectors)[places])


def main() -> None:
    """Write the files of the part of the data set that `phasegraph demo` uses."""
    SLICE.mkdir(exist_ok=True)
    kept = kept_passages()
    write_part("corpus.jsonl", "passages.f16.npy", sorted(kept))
    write_part("queries.jsonl", "queries.f16.npy", list(QUESTIONS))
    print(f"{SLICE}: {len(QUESTIONS)} questions over {len(kept)} passages")


if __name__ == "__main__":
    main()
