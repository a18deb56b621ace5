"""Answers on disk under a hash of what was asked: a run that was interrupted goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from phasegraph.errors import IntegrityError, InvalidInputError
from phasegraph.graph.extraction.model.prompts import PROMPT_VERSION
from phasegraph.persistence import read_document, write_document

KIND, VERSION = "model-answer", 1


class AnswerCache:
    """A folder of JSON documents, one an answer; each is written in one step.

    Parameters
    ----------
    folder : path, optional
        Made when first written to; None keeps nothing.
    model_name : str
        Part of every key: answers of one model are not taken for another's.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, model_name: str) -> None:
        if not isinstance(model_name, str) or not model_name.strip():
            raise InvalidInputError(f"model_name must be text that is not blank; got {model_name!r}")
        self.folder = None if folder is None else Path(folder)
        self.model_name = model_name
        if self.folder is not None and self.folder.exists() and not self.folder.is_dir():
            raise InvalidInputError(f"cache must be a folder; {self.folder} is a file")

    def file_of(self, prompt: str) -> Path | None:
        """Where the answer to a prompt is kept; the prompt holds the whole passage."""
        if self.folder is None:
            return None
        said = json.dumps([PROMPT_VERSION, self.model_name, prompt])
        digest = hashlib.sha256(said.encode("ascii")).hexdigest()
        return self.folder / digest[:2] / f"{digest}.json"

    def get(self, prompt: str) -> list[Any] | None:
        """The items kept for a prompt; None where there are none, or the file is damaged."""
        file = self.file_of(prompt)
        if file is None or not file.is_file():
            return None
        try:
            items = read_document(file, KIND, VERSION).get("items")
        except IntegrityError:
            return None
        return items if isinstance(items, list) else None

    def put(self, prompt: str, items: list[Any]) -> None:
        """Keep the items found in the answer to a prompt."""
        file = self.file_of(prompt)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_document(file, KIND, VERSION, {"items": items})
