"""Store the answers of models in a file, so that later runs repeat the answers without asking the models."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from phasegraph._support.shared import fork_safe_lock
from phasegraph._support.validation import check_flag
from phasegraph.errors import InsufficientDataError, InvalidInputError, InvalidTypeError, warn
from phasegraph.ranking import RERANK, Ranking
from phasegraph.retrieval.once import Once
from phasegraph.retrieval.stages.models import OverModel, Passage


class ModelAnswers:
    """A JSONL file with the answers of models: language models, rerankers, graders and embedding models.

    Each line is ``{"model": name, "input": digest, "answer": answer}``. The digest is the SHA-256 of the model's name
    and its input: the whole prompt, or the query and the texts. The file contains no input texts.

    Parameters
    ----------
    path : path
        The file. It is created when the first answer is stored.
    offline : bool, default False
        If True, no model is called. An input without a stored answer raises an error, and `missing` counts it.

    Attributes
    ----------
    asked, replayed, missing : int
        The number of inputs that a model answered, the number that the file answered, and the number without an answer.

    Notes
    -----
    A later run calls the models only for new inputs. Errors of a model are not stored. Give a model another name if its
    settings change. An answer may be a text, a number, a list or mapping of such values, or a ranking of the passages.
    The object is thread-safe. Several processes may append to the same file if it is on a local disk.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "answers.jsonl")
    >>> answers = ModelAnswers(file)
    >>> answers.around(str.upper, "upper")("ada"), answers.asked
    ('ADA', 1)
    >>> replay = ModelAnswers(file, offline=True)
    >>> replay.around(None, "upper")("ada"), replay.asked
    ('ADA', 0)
    """

    def __init__(self, path: str | os.PathLike[str], *, offline: bool = False) -> None:
        self.path, self.offline = Path(path), check_flag("offline", offline)
        self.asked = self.replayed = self.missing = 0
        self._lock, self._once = fork_safe_lock(), Once()
        self._answers = self._read()

    def __len__(self) -> int:
        return len(self._answers)

    def __reduce__(self) -> tuple[object, ...]:
        return _opened, (self.path, self.offline)

    def __deepcopy__(self, memo: object) -> ModelAnswers:
        return self

    def around(self, model: Any, name: str) -> CachedModel:
        """Return a wrapped model that stores its answers; use the wrapped model in place of the model.

        Parameters
        ----------
        model : object
            A function, a coroutine function, or a language model or reranker of the framework. Wrap the model that you
            pass to ``hyde``, ``chat_router`` and similar functions. In an offline replay, you may give None in place of
            a reranker or a language model of the framework, but not in place of a function.
        name : str
            The name of the model in the file; it must not be blank.
        """
        if not isinstance(name, str) or not name.strip():
            raise InvalidInputError(f"name must be text that is not blank; got {name!r}")
        if model is None and not self.offline:
            raise InvalidTypeError(
                "model must be a model or a function; None is valid only with ModelAnswers(..., offline=True)"
            )
        if isinstance(model, OverModel):
            raise InvalidTypeError(
                f"model must be a language model; got a {type(model).__name__}, which already contains a model: write "
                "hyde(answers.around(llm, name))"
            )
        return CachedModel(model, name, self)

    def get(self, model: str, digest: str) -> tuple[Any, bool]:
        """Return the stored answer and True, or None and False if there is no stored answer.

        With `offline`, raise InsufficientDataError if there is no stored answer.
        """
        with self._lock:
            if (model, digest) in self._answers:
                self.replayed += 1
                return self._answers[model, digest], True
            self.missing += self.offline
        if self.offline:
            raise InsufficientDataError(
                f"{self.path.name} contains no answer of {model!r} to this input; run once without offline=True"
            )
        return None, False

    def put(self, model: str, digest: str, answer: Any) -> None:
        """Store an answer; warn once if it cannot be written."""
        line = json.dumps({"model": model, "input": digest, "answer": answer}) + "\n"
        with self._lock:
            self.asked += 1
            self._answers[model, digest] = answer
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("ab+") as file:
                    if file.tell() and not _ends_whole(file):  # a process was interrupted while it wrote a line
                        line = "\n" + line
                    file.write(line.encode("ascii"))
            except OSError as error:
                self._once.warn(f"{self.path}: answers cannot be stored in this file: {error}", cause=error)

    def _read(self) -> dict[tuple[str, str], Any]:
        if not self.path.exists():
            if self.offline:
                raise InsufficientDataError(
                    f"{self.path}: there is no such file, and offline=True calls no model: run once without "
                    "offline=True"
                )
            return {}
        found: dict[tuple[str, str], Any] = {}
        damaged = 0
        for line in self.path.read_bytes().splitlines():
            try:
                row = json.loads(line)
                found[str(row["model"]), str(row["input"])] = row["answer"]
            except (ValueError, KeyError, TypeError, RecursionError):
                damaged += bool(line.strip())
        if damaged:
            warn(f"{self.path.name}: {damaged} damaged lines are ignored; their inputs count as not answered")
        return found


def _opened(path: Path, offline: bool) -> ModelAnswers:
    return ModelAnswers(path, offline=offline)


def _ends_whole(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")


class CachedModel(OverModel):
    """A model whose answers are stored in a :class:`ModelAnswers`; :meth:`ModelAnswers.around` creates it."""

    reads_hits = True

    def __init__(self, model: Any, name: str, answers: ModelAnswers) -> None:
        super().__init__(model)
        self.name, self.answers = name, answers

    def __call__(self, *given: Any) -> Any:
        """Return the answer to an input, from the file if it contains the answer, otherwise from the model."""
        digest = _digest(self.name, given)
        kept, known = self.answers.get(self.name, digest)
        if not known:
            if self._complete is None:
                raise InvalidTypeError(f"model must be a function or a model; got {type(self.model).__name__}")
            kept = self._keep(digest, self._complete(*self._readable(given)), given)
        return _answered(kept, given)

    async def _acall(self, *given: Any) -> Any:
        digest = _digest(self.name, given)
        kept, known = self.answers.get(self.name, digest)
        if not known:
            kept = self._keep(digest, await self._acomplete(*self._readable(given)), given)
        return _answered(kept, given)

    def _readable(self, given: Sequence[Any]) -> Sequence[Any]:
        """Return the input in the form that the model reads: hits, or only their texts."""
        return given if getattr(self.model, "reads_hits", False) is True else _without_hits(given)

    def _keep(self, digest: str, answer: Any, given: Sequence[Any]) -> Any:
        kept = _kept(answer, given)
        self.answers.put(self.name, digest, kept)
        return kept


def _digest(name: str, given: Sequence[Any]) -> str:
    """Return the digest of a model's name and input; the digest covers only the texts of passages."""
    try:
        return hashlib.sha256(json.dumps([name, *_without_hits(given)]).encode("ascii")).hexdigest()
    except (TypeError, ValueError) as error:
        kinds = ", ".join(type(one).__name__ for one in given)
        raise InvalidTypeError(f"the input of a cached model must be texts and lists of texts; got {kinds}") from error


def _without_hits(given: Sequence[Any]) -> list[Any]:
    return [
        [one.text if isinstance(one, Passage) else one for one in argument] if isinstance(argument, list) else argument
        for argument in given
    ]


_PLAIN = (str, int, float, bool, type(None))


def _kept(answer: Any, given: Sequence[Any]) -> Any:
    """Convert an answer to JSON types; a ranking becomes the scores of its passages and their positions in `given`.

    `given` is the input of the model.
    """
    if isinstance(answer, Ranking):
        places = {passage.id: place for place, passage in enumerate(given[-1])}
        scores = None if answer.rank_only else answer.scores.tolist()
        return {"places": [places[one] for one in answer.ids], "scores": scores, "dropped": answer.dropped}
    if hasattr(answer, "tolist"):
        answer = answer.tolist()
    if type(answer) in _PLAIN:
        return answer
    if type(answer) in (list, tuple):
        return [_kept(one, given) for one in answer]
    if type(answer) is dict and all(type(key) is str for key in answer):
        return {key: _kept(one, given) for key, one in answer.items()}
    raise InvalidTypeError(
        "a model's answer can be stored only if it is a text, a number, a list or mapping of such values, or a "
        f"ranking; got {type(answer).__name__}"
    )


def _answered(kept: Any, given: Sequence[Any]) -> Any:
    """Convert a stored answer back to the form that the model returned; `given` is the input of the model."""
    if not isinstance(kept, Mapping) or set(kept) != {"places", "scores", "dropped"}:
        return kept
    passages = given[-1]
    ranking = Ranking.from_hits(RERANK, [passages[place].id for place in kept["places"]], kept["scores"])
    return replace(ranking, dropped=kept["dropped"])
