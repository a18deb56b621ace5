"""The recipe of the guide for nano-graphrag, run as it is printed; in the environment of `make test-graphrag`."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

nano_graphrag = pytest.importorskip("nano_graphrag", reason="nano-graphrag is installed by `make test-graphrag` alone")
import tiktoken  # noqa: E402
from nano_graphrag._storage import NetworkXStorage  # noqa: E402
from nano_graphrag._utils import EmbeddingFunc  # noqa: E402

from langchain_phasegraph import PhaseGraphRetriever  # noqa: E402

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "coming-from.md"
TEXTS = {
    "c1": "Ada met Babbage.",
    "c2": 'Ada wrote the "Notes",\n\n0,\tas she called them.',
    "c3": "Babbage built the Engine.",
    "c4": "Oslo is a city.",
}


class Characters:
    """A tokenizer that needs no download: a token is a character."""

    def encode(self, text: str) -> list[int]:
        return list(map(ord, text))

    def encode_batch(self, texts: list[str], num_threads: int) -> list[list[int]]:
        return list(map(self.encode, texts))

    def decode(self, tokens: list[int]) -> str:
        return "".join(map(chr, tokens))

    def decode_batch(self, chunks: list[list[int]]) -> list[str]:
        return list(map(self.decode, chunks))


async def letters(texts: list[str]) -> np.ndarray:
    return np.array([[text.lower().count(chr(97 + row)) + 0.01 for row in range(26)] for text in texts])


async def no_model(prompt: str, **settings: object) -> str:
    raise AssertionError("the context needs no model")


async def no_communities(self: object, algorithm: str) -> None:
    """In place of graspologic, which is not needed for the context and compiles for minutes."""


async def names(chunks: dict[str, Any], knwoledge_graph_inst: Any, entity_vdb: Any, global_config: object) -> Any:
    """The capitalised words of every chunk as entities, joined where they stand together."""
    graph = knwoledge_graph_inst
    known: dict[str, list[str]] = {}
    for key, chunk in chunks.items():
        found = re.findall(r"[A-Z]\w+", chunk["content"])
        for name in found:
            known.setdefault(name, []).append(key)
        for one, other in pairwise(found):
            await graph.upsert_edge(one, other, {"description": "", "weight": 1.0, "source_id": key, "order": 1})
    for name, keys in known.items():
        await graph.upsert_node(name, {"entity_type": "", "description": "", "source_id": "<SEP>".join(keys)})
    await entity_vdb.upsert({f"ent-{name}": {"content": name, "entity_name": name} for name in known})
    return graph


async def test_the_chunks_of_nano_graphrag_meet_the_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NetworkXStorage, "clustering", no_communities)
    monkeypatch.setattr(tiktoken, "encoding_for_model", lambda name: Characters())
    rag = nano_graphrag.GraphRAG(
        working_dir=str(tmp_path),
        best_model_func=no_model,
        cheap_model_func=no_model,
        embedding_func=EmbeddingFunc(26, 8192, letters),
        entity_extraction_func=names,
    )
    await rag.ainsert(list(TEXTS.values()))
    store = InMemoryVectorStore.from_documents(
        [Document(text, id=name) for name, text in TEXTS.items()], DeterministicFakeEmbedding(size=8)
    )
    recipes = re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (recipe,) = [one for one in recipes if "nano_graphrag" in one]
    ids = {text: name for name, text in TEXTS.items()}
    scope = {"rag": rag, "vector": store, "ids": ids, "PhaseGraphRetriever": PhaseGraphRetriever}
    exec(recipe, scope)  # noqa: S102 - the page's own words
    result = await scope["retriever"].aexplain("Ada")
    graph = next(one for one in result.candidates.rankings if one.source == "graph").ids
    assert graph[0] in ("c1", "c2")
    assert set(graph) <= set(TEXTS)
    assert next(one for one in result.reports if one.source == "graph").status == "ok"
    assert set(result.ids) == set(TEXTS)
