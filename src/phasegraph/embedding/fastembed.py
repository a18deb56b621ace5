"""ONNX embedding models of the library fastembed, which run without PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phasegraph._support.typing import Float32Array
from phasegraph.errors import PhasegraphError, StoreError, needed

MODEL = "BAAI/bge-small-en-v1.5"
NEEDED = "the model fastembed needs fastembed; pip install 'phasegraph[fastembed]'"


class FastEmbed:
    """A fastembed model with the methods of LangChain's embedding models.

    Parameters
    ----------
    name : str, default "BAAI/bge-small-en-v1.5"
        Name of a model from ``fastembed.TextEmbedding.list_supported_models()``.

    Raises
    ------
    MissingDependencyError
        If fastembed is not installed.
    StoreError
        If the weights are not on this machine and cannot be downloaded.
    """

    def __init__(self, name: str = MODEL) -> None:
        with needed(NEEDED):
            from fastembed import TextEmbedding
        _silence()
        try:
            self._model: Any = _loaded(TextEmbedding, name)
        except PhasegraphError:
            raise
        except Exception as error:
            raise StoreError(
                f"fastembed has no weights of {name!r} on this machine and cannot download them; download them once "
                "on a machine with a network, and set FASTEMBED_CACHE_PATH to their folder; or choose --embedder "
                "minilm, whose weights are a package"
            ) from error

    def embed_query(self, text: str) -> Float32Array:
        """Return the (d,) embedding of a question."""
        return np.asarray(next(iter(self._model.query_embed(text))), dtype=np.float32)

    def embed_documents(self, texts: Sequence[str]) -> Float32Array:
        """Return the (n, d) embeddings of n passages."""
        return np.asarray(list(self._model.passage_embed(list(texts))), dtype=np.float32)


def _loaded(make: Any, name: str) -> Any:
    """Create the model `name` with fastembed's class `make`, from the local cache or from a download."""
    try:
        return make(name, local_files_only=True)
    except Exception:  # noqa: BLE001 - several libraries raise here; the download below raises its own error
        return make(name)


def _silence() -> None:
    """Suppress the log lines of download attempts; the error reports the outcome."""
    from loguru import logger

    logger.disable("fastembed")
