"""What our retrievers share: the library's own errors, and the configuration of the call at hand."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any, Self

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from pydantic import BeforeValidator, ConfigDict, ValidationError

from phasegraph import InvalidInputError, InvalidTypeError, PhasegraphError
from phasegraph._validation import check_count

_CONFIG: ContextVar[RunnableConfig | None] = ContextVar("langchain_phasegraph_config", default=None)
Count = Annotated[int, BeforeValidator(lambda value: check_count("k", value))]


class CheckedRetriever(BaseRetriever):
    """A retriever that refuses arguments it does not know, in its constructor and in assignments."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", validate_assignment=True)

    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise own_error(error) from error

        def __setattr__(self, name: str, value: Any) -> None:
            before = self.__dict__.get(name)
            try:
                super().__setattr__(name, value)
            except ValidationError as error:
                if name in self.__dict__:
                    self.__dict__[name] = before
                raise own_error(error) from error

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields changed, which are checked and take effect as in an assignment."""
        unknown = sorted(set(update or {}) - set(type(self).model_fields))
        if unknown:
            raise InvalidTypeError(f"{type(self).__name__} must be given fields that it has; got {unknown}")
        made = super().model_copy(update=update, deep=deep)
        for name, value in (update or {}).items():
            setattr(made, name, value)
        return made

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:  # noqa: A002
        """Documents for the query, best first; keyword `k` for another number of them."""
        token = _CONFIG.set(config)
        try:
            return super().invoke(input, config, **kwargs)
        finally:
            _CONFIG.reset(token)

    async def ainvoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:  # noqa: A002
        """As :meth:`invoke`."""
        token = _CONFIG.set(config)
        try:
            return await super().ainvoke(input, config, **kwargs)
        finally:
            _CONFIG.reset(token)


def config_of(run_manager: Any) -> RunnableConfig:
    """What children inherit from the call at hand: its run, and what is configurable."""
    config: RunnableConfig = {"callbacks": run_manager}
    outer = _CONFIG.get()
    if outer is not None and outer.get("configurable"):
        config["configurable"] = outer["configurable"]
    return config


def own_error(error: ValidationError) -> PhasegraphError:
    """The first thing that is wrong, named; an error of the core comes back as it was raised."""
    for found in error.errors():
        cause = found.get("ctx", {}).get("error")
        if isinstance(cause, PhasegraphError):
            return cause
    listed = []
    for found in error.errors():
        field = ".".join(str(part) for part in found["loc"]) or error.title
        if found["type"] == "extra_forbidden":
            return InvalidTypeError(f"{error.title} must be given arguments that it knows; got {field!r}")
        listed.append(f"{field}: {found['msg']}; got {found['input']!r}"[:300])
    return InvalidInputError("; ".join(listed))
