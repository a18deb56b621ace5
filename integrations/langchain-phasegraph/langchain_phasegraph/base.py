"""The base class of the LangChain retrievers: it converts errors, and reads the configuration of the current call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, patch_config, set_config_context
from langchain_core.runnables.utils import coro_with_context
from langchain_core.vectorstores import VectorStore
from pydantic import BeforeValidator, ConfigDict, ValidationError

from langchain_phasegraph.conversion import check_distinct
from langchain_phasegraph.filters import FILTER, check_filter, filter_of, with_filter
from phasegraph import InvalidInputError, InvalidTypeError, PhasegraphError, Result
from phasegraph.retrieval import (
    ResultCallback,
    check_count,
    new_name,
    old_names,
    parameters_of,
    renamed_arguments,
    shown,
    unexpected_argument,
)

_CONFIG: ContextVar[RunnableConfig | None] = ContextVar("langchain_phasegraph_config", default=None)
Count = Annotated[int, BeforeValidator(lambda value: check_count("k", value))]


def _check_key(value: object) -> object:
    if isinstance(value, str) and not value.isidentifier():
        raise InvalidInputError(f"required_filter_key must be a metadata key of letters, digits and _; got {value!r}")
    return value


Key = Annotated[str, BeforeValidator(_check_key)]


def _by_old_name(retriever: BaseRetriever, name: str) -> Any:
    return getattr(retriever, new_name(name, type(retriever).model_fields))


class CheckedRetriever(BaseRetriever):
    """A retriever that raises an error for unknown arguments and unknown fields."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")
    _unnamed: ClassVar[str] = "every argument needs its name, such as k=5"
    """The message of the error for an argument without a name."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Make the values of renamed fields readable under the old names of the fields, with a warning.

        A ``__getattr__`` for this purpose would be called for each private attribute, in each search.
        """
        super().__pydantic_init_subclass__(**kwargs)
        for old in old_names(cls.model_fields):
            setattr(cls, old, property(partial(_by_old_name, name=old)))

    if not TYPE_CHECKING:

        def __init__(self, *given: Any, **fields: Any) -> None:
            if given:
                raise InvalidTypeError(self._unnamed)
            try:
                super().__init__(**renamed_arguments(fields, type(self).model_fields))
            except ValidationError as error:
                raise own_error(error, type(self)) from error
            check_distinct(getattr(self, "score_key", None), getattr(self, "evidence_key", None))

        def __setattr__(self, name: str, value: Any) -> None:
            name = new_name(name, type(self).model_fields)
            if name not in type(self).model_fields:
                try:
                    super().__setattr__(name, value)
                except ValueError as error:
                    if hasattr(type(self), name):
                        raise
                    raise unexpected_argument(name, type(self).model_fields) from error
                return
            given = {field: getattr(self, field) for field in self.model_fields_set}
            checked = type(self)(**{**given, name: value})  # if this line raises an error, this retriever is unchanged
            self._follow(checked, name)
            super().__setattr__(name, getattr(checked, name))

    def _take(self, name: str, value: Any) -> None:
        """Set the field `name` to `value`, without validation and without an update of the derived state."""
        super().__setattr__(name, value)

    def __repr_args__(self) -> Any:
        """Return shortened constructor arguments: ``repr``, ``dumpd`` and traces must never contain a corpus."""
        return shown({name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set})

    def _follow(self, checked: Self, name: str) -> None:
        """Take over the state that `checked` computed, a validated copy in which field `name` has its new value."""
        raise NotImplementedError

    def whole_filter(self, config: RunnableConfig | None = None) -> Mapping[str, Any] | None:
        """Return the retriever's own filter in a call with `config`; None if it has none.

        It applies in addition to the filter of the call.
        """
        own = getattr(self, "filter", None)
        return None if own is None else check_filter(own)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy of the retriever with the fields in `update`, which are validated as in an assignment."""
        made = super().model_copy(deep=deep)
        for name, value in renamed_arguments(update or {}, type(self).model_fields).items():
            if name not in type(self).model_fields:
                raise unexpected_argument(name, type(self).model_fields)
            setattr(made, name, value)
        return made

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:  # noqa: A002
        """Return the documents for a query, best first; `k` and `filter` are optional keyword arguments."""
        self._check_keywords(kwargs)
        with configured_by(config):
            return super().invoke(input, config, **kwargs)

    async def ainvoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:  # noqa: A002
        """Run :meth:`invoke` asynchronously."""
        self._check_keywords(kwargs)
        with configured_by(config):
            return await super().ainvoke(input, config, **kwargs)

    def _check_keywords(self, given: Mapping[str, Any]) -> None:
        if not given:
            return
        known = _keywords(type(self))
        for name in given.keys() - {"run_id"}:
            if not known & {name, "kwargs"}:
                raise unexpected_argument(name, known - {"self", "query", "run_manager", "upstream"})


@cache
def _keywords(kind: type[BaseRetriever]) -> frozenset[str]:
    """Return the names of the parameters of a retriever's search method."""
    return parameters_of(kind._get_relevant_documents)


def _in_force(config: RunnableConfig | None) -> RunnableConfig:
    """Return the effective configuration of a call: `config`, merged with the configuration of the surrounding run."""
    merged = ensure_config(config)
    if config is not None and ("configurable" in config or FILTER in config):  # the run's filter was replaced
        merged = with_filter(merged, filter_of(ensure_config()))
    found = merged.get("configurable")
    return {"configurable": found} if found else {}


@contextmanager
def configured_by(config: RunnableConfig | None) -> Iterator[None]:
    """Make :func:`configured` return the configuration of a call in the ``with`` block.

    It is `config` (None: empty), merged with the configuration of the surrounding run.
    """
    token = _CONFIG.set(_in_force(config))
    try:
        yield
    finally:
        _CONFIG.reset(token)


def configured() -> RunnableConfig:
    """Return the ``configurable`` part of the configuration of the current call, or of the surrounding run."""
    found = _CONFIG.get()
    return _in_force(None) if found is None else found


def notify_within(callback: ResultCallback, result: Result, run_manager: CallbackManagerForRetrieverRun) -> None:
    """Call ``on_result`` as a child of the current run; traces then show the callback's model calls under this run."""
    if callback.is_set:
        with set_config_context(patch_config(configured(), callbacks=run_manager.get_child())) as context:
            context.run(callback.notify, result)


async def anotify_within(
    callback: ResultCallback, result: Result, run_manager: AsyncCallbackManagerForRetrieverRun
) -> None:
    """Call and await ``on_result``, traced as a child of the current run."""
    if callback.is_set:
        with set_config_context(patch_config(configured(), callbacks=run_manager.get_child())) as context:
            await coro_with_context(callback.anotify(result), context)


def config_of(run_manager: Any) -> RunnableConfig:
    """Return the configuration that child runs inherit: the callbacks and the ``configurable`` values."""
    return {**configured(), "callbacks": run_manager}


def own_error(error: ValidationError, kind: type[BaseRetriever]) -> PhasegraphError:
    """Convert a validation error of pydantic to an error of phasegraph that names the invalid fields."""
    for found in error.errors():
        cause = found.get("ctx", {}).get("error")
        if isinstance(cause, PhasegraphError):
            return cause
    listed = []
    for found in error.errors():
        field = ".".join(str(part) for part in found["loc"]) or error.title
        if found["type"] == "extra_forbidden":
            return unexpected_argument(field, kind.model_fields)
        listed.append(f"{field}: {found['msg']}; got {found['input']!r}"[:300])
    return InvalidInputError("; ".join(listed))


def overrides(instance: object, base: type, method: str) -> bool:
    """Return True if the instance's class overrides a method of the base class."""
    return getattr(type(instance), method, None) is not getattr(base, method)


def store_awaits(store: VectorStore, method: str) -> bool:
    """Return True if the store overrides the asynchronous `method`, and was opened for asynchronous use."""
    return overrides(store, VectorStore, method) and getattr(store, "async_mode", True) is not False
