"""The recipe of the guide for LightRAG, run as it is printed; in an environment of its own: `make test-graphrag`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

lightrag = pytest.importorskip("lightrag", reason="LightRAG is installed by `make test-graphrag` alone")
from lightrag.utils import EmbeddingFunc, Tokenizer  # noqa: E402

from langchain_phasegraph import PhaseGraphRetriever  # noqa: E402

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "coming-from.md"
TEXTS = {"c1": "Ada met Babbage.", "c2": "Ada wrote the Notes.", "c3": "Babbage built the Engine.", "c4": "Oslo."}


class Characters:
    """A tokenizer that needs no download: a token is a character."""

    def encode(self, text: str) -> list[int]:
        return list(map(ord, text))

    def decode(self, tokens: list[int]) -> str:
        return "".join(map(chr, tokens))


async def letters(texts: list[str]) -> np.ndarray:
    return np.array([[text.lower().count(chr(97 + row)) + 0.01 for row in range(26)] for text in texts])


async def keywords(prompt: str, **settings: object) -> str:
    return json.dumps({"high_level_keywords": ["met"], "low_level_keywords": ["Ada"]})


async def test_the_chunks_of_lightrag_meet_the_vectors_by_id(tmp_path: Path) -> None:
    rag = lightrag.LightRAG(
        working_dir=str(tmp_path),
        llm_model_func=keywords,
        embedding_func=EmbeddingFunc(26, letters, max_token_size=8192),
        tokenizer=Tokenizer("characters", Characters()),
    )
    await rag.initialize_storages()
    await rag.ainsert_custom_kg(
        {
            "chunks": [{"content": text, "source_id": name, "file_path": name} for name, text in TEXTS.items()],
            "entities": [
                {"entity_name": name, "entity_type": "person", "description": name, "source_id": chunk}
                for name, chunk in (("Ada", "c1"), ("Babbage", "c3"))
            ],
            "relationships": [
                {"src_id": "Ada", "tgt_id": "Babbage", "description": "met", "keywords": "met", "source_id": "c1"}
            ],
        }
    )
    store = InMemoryVectorStore.from_documents(
        [Document(text, id=name) for name, text in TEXTS.items()], DeterministicFakeEmbedding(size=8)
    )
    recipes = re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (recipe,) = [one for one in recipes if "lightrag" in one]
    names = {"rag": rag, "vector": store, "PhaseGraphRetriever": PhaseGraphRetriever}
    exec(recipe, names)  # noqa: S102 - the page's own words
    result = await names["retriever"].aexplain("Whom did Ada meet?")
    graph = next(one for one in result.reports if one.source == "graph")
    assert graph.status == "ok"
    found = next(one for one in result.candidates.rankings if one.source == "graph").ids
    assert found[0] == "c1"
    assert set(found) <= set(TEXTS)
    assert set(result.ids) == set(TEXTS)
    await rag.finalize_storages()
