"""Old names of public parameters and values, which are accepted for one release, with a warning."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from types import MappingProxyType
from typing import Any, TypeVar, cast

from phasegraph._support.user_line import warn_at_user_line
from phasegraph.errors import InvalidInputError

PARAMETERS: Mapping[str, str] = MappingProxyType(
    {
        "limit": "fetch_k",
        "require_filter": "required_filter_key",
        "metadata_key": "evidence_key",
        "gazetteer": "known_names",
        "extractions": "triples",
    }
)
"""A mapping of old to new names of parameters, of retrievers and of the objects that they take as arguments."""
SOURCES: Mapping[str, str] = MappingProxyType({"lexical": "bm25"})
"""A mapping of old to new names of sources."""
SYSTEMS: Mapping[str, str] = MappingProxyType(
    {f"phasegraph{one}": f"paper{one}" for one in ("", "-2wiki", "-hard-slice", "-legacy")}
)
"""A mapping of old to new names of pipeline presets and of systems in evaluations."""

Made = TypeVar("Made", bound=Callable[..., Any])


def warn_of_old_name(old: str, new: str) -> None:
    """Warn that an old name was used; the warning points to the line in the user's code.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     warn_of_old_name("limit=", "fetch_k=")
    >>> str(seen[0].message)
    'limit= is now called fetch_k=; the old name works for one more release'
    """
    warn_at_user_line(DeprecationWarning(old_name_text(old, new)), again=False)


def old_name_text(old: str, new: str) -> str:
    """Return the text of the warning about an old name."""
    return f"{old} is now called {new}; the old name works for one more release"


def renamed_arguments(given: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return the given arguments of a function under the new names of its parameters.

    `known` contains the function's parameters. Each old name causes a warning. Raises InvalidInputError if an argument
    is given under both its old and its new name.

    >>> renamed_arguments({"k": 3}, {"fetch_k", "k"})
    {'k': 3}
    """
    found = {}
    for name, value in given.items():
        new = PARAMETERS.get(name, name)
        if new == name or name in known or new not in known:
            found[name] = value
            continue
        if new in given:
            raise InvalidInputError(f"{name}= and {new}= are the same parameter: give {new}= alone")
        warn_of_old_name(f"{name}=", f"{new}=")
        found[new] = value
    return found


def renamed_sources(mentioned: Collection[str], names: Collection[str]) -> dict[str, str]:
    """Map each old source name that the user wrote to the existing source with the new name.

    A new name is likewise mapped to an existing source with the old name. `mentioned` are the names in an argument of
    the user, and `names` the names of the existing sources. For example, "lexical" is the old name of "bm25", so the
    result may be {"lexical": "bm25"}. Names of existing sources are left out. Each name in the result causes a warning.

    >>> renamed_sources(["bm25", "vector"], ["bm25", "vector"])
    {}
    """
    found = {}
    for old, new in SOURCES.items():
        for name, other in ((old, new), (new, old)):
            if name in mentioned and name not in names and other in names and other not in mentioned:
                warn_of_old_name(f"source {old!r}", repr(new))
                found[name] = other
    return found


def new_system(name: str, say: Callable[[str], None] | None = None) -> str:
    """Return the new name of a pipeline preset or of an evaluated system.

    For an old name, also call ``say(text)`` with a message, or warn if `say` is None.

    >>> new_system("phasegraph-2wiki", print), new_system("default")
    'phasegraph-2wiki' is now called 'paper-2wiki'; the old name works for one more release
    ('paper-2wiki', 'default')
    """
    new = SYSTEMS.get(name, name)
    if new != name and say is not None:
        say(old_name_text(repr(name), repr(new)))
    elif new != name:
        warn_of_old_name(repr(name), repr(new))
    return new


def renamed_options(arguments: Sequence[str], known: Collection[str], say: Callable[[str], None]) -> list[str]:
    """Return the arguments of a command line, with old names of options replaced by new names.

    `known` contains the options of the command. For each old name, ``say(text)`` is called with a message. Raises
    InvalidInputError if an option is given under both its old and its new name.

    >>> renamed_options(["--limit=5", "--json", "-"], {"--fetch-k", "--json"}, print)
    --limit is now called --fetch-k; the old name works for one more release
    ['--fetch-k=5', '--json', '-']
    """
    found: list[str] = []
    names = {option_of(old): option_of(new) for old, new in PARAMETERS.items()}
    given = {one.partition("=")[0] for one in arguments}
    for argument in arguments:
        old, equals, value = argument.partition("=")
        new = names.get(old)
        if new is None or old in known or new not in known:
            found.append(argument)
            continue
        if new in given:
            raise InvalidInputError(f"{old} and {new} are the same option: give {new} alone")
        say(old_name_text(old, new))
        found.append(f"{new}{equals}{value}")
    return found


def option_of(parameter: str) -> str:
    """Return the command-line option for a parameter, such as ``--fetch-k``."""
    return f"--{parameter.replace('_', '-')}"


def new_name(name: str, known: Collection[str]) -> str:
    """Return the new name of an attribute, and warn, if `name` is its old name; otherwise, return `name`.

    `known` contains the names of the existing attributes. A name in `known` is never an old name.
    """
    new = PARAMETERS.get(name)
    if new is None or name in known or new not in known:
        return name
    warn_of_old_name(name, new)
    return new


def old_names(known: Collection[str]) -> list[str]:
    """Return the old names of the attributes in `known`, except old names that are in `known` themselves.

    >>> old_names({"fetch_k", "k"})
    ['limit']
    """
    return [old for old, new in PARAMETERS.items() if new in known and old not in known]


def accepts_old_names(make: Made) -> Made:
    """Make a function, or the constructor of a class, accept the old names of its parameters, with a warning.

    >>> @accepts_old_names
    ... def ask(fetch_k=50):
    ...     return fetch_k
    >>> ask(fetch_k=3)
    3
    """
    if isinstance(make, type):
        make.__init__ = accepts_old_names(make.__init__)  # type: ignore[misc]
        return make
    known = inspect.signature(make).parameters.keys()

    @wraps(make)
    def called(*given: Any, **named: Any) -> Any:
        return make(*given, **(named if PARAMETERS.keys().isdisjoint(named) else renamed_arguments(named, known)))

    return cast("Made", called)
