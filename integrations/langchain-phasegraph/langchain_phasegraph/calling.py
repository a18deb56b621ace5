"""Asking a source's retriever as a child of the run at hand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.callbacks.manager import BaseRunManager
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.utils.uuid import uuid7


def child_of(config: RunnableConfig | None, name: str, runnable: Any) -> RunnableConfig:
    """The configuration of the child run `name`, in which `runnable` is asked.

    Where nobody listens to the run, and the runnable does no more in it than search, the run itself stands under
    ``callbacks``: :func:`invoke` and :func:`ainvoke` then spare what the framework prepares for listeners, which is
    most of what a quick search costs.
    """
    if config is None:
        return {"run_name": name}
    manager: Any = config.get("callbacks")
    if manager is None or (_is_plain(runnable) and isinstance(manager, BaseRunManager) and not _is_heard(manager)):
        return {**config, "run_name": name}
    return {**config, "run_name": name, "callbacks": manager.get_child(name)}


def invoke(runnable: Any, query: str, config: RunnableConfig, keywords: Mapping[str, Any]) -> Any:
    """What the runnable returns."""
    outer: Any = config.get("callbacks")
    if not isinstance(outer, BaseRunManager):
        return runnable.invoke(query, config, **keywords)
    if not _is_plain(runnable):
        return runnable.invoke(query, _heard(config, outer), **keywords)
    run = CallbackManagerForRetrieverRun(**_fields(runnable, outer, config))
    return runnable._get_relevant_documents(query, run_manager=run, **_taken(runnable, keywords))


async def ainvoke(runnable: Any, query: str, config: RunnableConfig, keywords: Mapping[str, Any]) -> Any:
    """As :func:`invoke`."""
    outer: Any = config.get("callbacks")
    if not isinstance(outer, BaseRunManager):
        return await runnable.ainvoke(query, config, **keywords)
    if not _is_plain(runnable):
        return await runnable.ainvoke(query, _heard(config, outer), **keywords)
    run = AsyncCallbackManagerForRetrieverRun(**_fields(runnable, outer, config))
    return await runnable._aget_relevant_documents(query, run_manager=run, **_taken(runnable, keywords))


def _is_heard(run: BaseRunManager) -> bool:
    """Whether anybody is told of the run or of what runs inside: a tracer, a handler, a global debug setting."""
    return bool(run.handlers or run.inheritable_handlers)


def _is_plain(runnable: Any) -> bool:
    """Whether its ``invoke`` and ``ainvoke`` are the framework's own, which search and tell listeners of it."""
    return _is_plain_kind(type(runnable))  # type: ignore[arg-type]


@lru_cache(maxsize=256)
def _is_plain_kind(kind: Any) -> bool:
    return (
        issubclass(kind, BaseRetriever)
        and kind.invoke is BaseRetriever.invoke
        and kind.ainvoke is BaseRetriever.ainvoke
        and bool(kind._new_arg_supported)
    )


def _taken(runnable: Any, keywords: Mapping[str, Any]) -> Mapping[str, Any]:
    return keywords if runnable._expects_other_args else {}


def _heard(config: RunnableConfig, outer: Any) -> RunnableConfig:
    return {**config, "callbacks": outer.get_child(config["run_name"])}


def _fields(runnable: Any, outer: Any, config: RunnableConfig) -> dict[str, Any]:
    """The child run's id, parent, tags and metadata, as they would be if anybody listened."""
    inherited = outer.inheritable_metadata
    return {
        "run_id": uuid7(),
        "handlers": [],
        "inheritable_handlers": [],
        "parent_run_id": outer.run_id,
        "tags": [*outer.inheritable_tags, config["run_name"], *(runnable.tags or ())],
        "inheritable_tags": list(outer.inheritable_tags),
        "metadata": {**inherited, **(runnable.metadata or {})},
        "inheritable_metadata": dict(inherited),
    }
