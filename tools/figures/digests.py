"""Digests of everything that a figure depends on: the definitions that its command reaches, the data, and the text.

The digest of the code does not change if code moves to another file, or if imports, comments, docstrings, layout or
texts of errors change. It leaves out methods that display an object in a notebook, such as ``_repr_html_``, and the
definitions that only these methods reach. It is computed from the top-level definitions that can be reached by name
from the start of the command, in any file. A module whose name is computed at run time (``import_module(f"...")``) is
not reached; list such a module among the starts.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from math import isfinite
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("src", "integrations/langchain-phasegraph", "integrations/llama-index-retrievers-phasegraph")
LENGTH = 12
"""Hexadecimal digits of a digest."""


def short(data: bytes) -> str:
    """Return the first hexadecimal digits of the SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()[:LENGTH]


def digest_of_text(text: str) -> str:
    """Return the digest of a text, such as a block, a page or a result; white space at both ends is ignored."""
    return short(text.strip().encode("utf-8"))


def digest_of_data(folders: Iterable[Path]) -> str | None:
    """Return a digest of all files in the folders, or None if a folder does not exist."""
    digest = hashlib.sha256()
    for folder in folders:
        if not folder.is_dir():
            return None
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            digest.update(f"{folder.name}/{file.relative_to(folder).as_posix()}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:LENGTH]


_BODIES = ("body", "orelse", "finalbody")
_UNSEEN = frozenset({"ctx", "kind", "type_comment", "type_params"})
"""Fields of Python's syntax tree that change no figure, or that only some versions of Python have."""


class Statement:
    """A top-level statement: its text without the parts that change no figure, and the names that it uses.

    The text leaves out imports, docstrings, comments, layout, type annotations, texts of errors, and methods that
    display an object in a notebook. It is the syntax tree in words, because the output of ``ast.unparse`` differs
    between versions of Python. It is computed on first use.

    Parameters
    ----------
    node : ast.stmt
    binds : tuple of str
        The names to which the statement assigns a value.
    """

    def __init__(self, node: ast.stmt, binds: tuple[str, ...] = ()) -> None:
        self._node, self.binds = node, binds

    @cached_property
    def text(self) -> str:
        self.names: set[str] = set()
        self.attributes: dict[str, set[str]] = {}
        self.imports: dict[str, tuple[str, str | None]] = {}
        words: list[str] = []
        self._read(self._node, words)
        return " ".join(words)

    def _read(self, node: ast.AST, words: list[str]) -> None:
        """Add a part of the syntax tree to `words`, and the names in it to the names of the statement."""
        if isinstance(node, ast.Import | ast.ImportFrom):
            self.imports |= _imported(node)
            return
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            node.exc = node.exc.func
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.JoinedStr):  # Python 3.12.1 has empty texts within
            node.values = [one for one in node.values if not (isinstance(one, ast.Constant) and one.value == "")]
        elif isinstance(node, ast.Name):
            self.names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            self.attributes.setdefault(node.value.id, set()).add(node.attr)
        words.append(f"({type(node).__name__}")
        for name in node._fields:
            value = None if name in _UNSEEN else getattr(node, name)
            if isinstance(value, ast.AST):
                words.append(name)
                self._read(value, words)
            elif isinstance(value, list):
                self._read_all(name, value, words)
            elif value is not None or name == "value":
                words.append(f"{name}={value!r}")
        words.append(")")

    def _read_all(self, name: str, values: list[Any], words: list[str]) -> None:
        """Add a list of syntax trees to `words`; in a body, skip strings, ``pass`` and the display in notebooks."""
        words.append(f"{name}[")
        for one in values:
            if not isinstance(one, ast.AST):
                words.append(repr(one))
            elif not (name in _BODIES and _is_left_out(one)):
                self._read(one, words)
        words.append("]")


class Module:
    """The top-level statements of a file by the names that they bind, and the origins of its imported names."""

    def __init__(self, text: str) -> None:
        self.binds: dict[str, list[Statement]] = {}
        self.all: list[Statement] = []
        self.imports: dict[str, tuple[str, str | None]] = {}
        for node in ast.parse(text).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.imports |= _imported(node)
            elif not _is_text(node):
                statement = Statement(node, tuple(_bound(node)))
                for name in statement.binds:
                    self.binds.setdefault(name, []).append(statement)
                self.all.append(statement)
                if not isinstance(node, _DEFINITIONS):
                    for one in ast.walk(node):
                        if isinstance(one, ast.Import | ast.ImportFrom):
                            self.imports |= _imported(one)

    @property
    def loose(self) -> list[Statement]:
        """Return the statements that bind no name; they run when the module is imported."""
        return [one for one in self.all if not one.binds and one.text != _TYPES_ALONE]


@cache
def _module_of(text: str) -> Module:
    """Return the module with this text; files with equal texts, as in copies of the repository, are parsed once."""
    return Module(text)


_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _imported(node: ast.Import | ast.ImportFrom) -> dict[str, tuple[str, str | None]]:
    """Return, for each name that an import binds: a module and a name in it, or a module and None."""
    if isinstance(node, ast.ImportFrom):
        return {one.asname or one.name: (node.module, one.name) for one in node.names} if node.module else {}
    packages = {one: one.name.partition(".")[0] for one in node.names}
    return {one.asname or of: (one.name if one.asname else of, None) for one, of in packages.items()}


def _is_left_out(statement: ast.AST) -> bool:
    """Return True for a string, for ``pass``, and for a method that displays an object in a notebook."""
    if isinstance(statement, ast.FunctionDef):
        return re.fullmatch("_repr_[a-z]+_", statement.name) is not None
    return isinstance(statement, ast.Pass) or _is_text(statement)


def _is_text(statement: ast.AST) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a top-level statement binds, except ``__all__``."""
    if isinstance(statement, _DEFINITIONS):
        yield statement.name
        return
    for node in ast.walk(statement):
        if isinstance(node, _DEFINITIONS):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


_TYPES_ALONE = Statement(ast.parse("if TYPE_CHECKING:\n    pass").body[0]).text


class Code:
    """The modules of the packages by their dotted names, and scripts by their paths."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self.files: dict[str, Path] = {}
        for base in SOURCES:
            for file in sorted((root / base).rglob("*.py")):
                if "tests" not in file.relative_to(root / base).parts:
                    name = ".".join(file.relative_to(root / base).with_suffix("").parts)
                    self.files[name.removesuffix(".__init__")] = file
        self._read: dict[str, Module] = {}

    def module(self, name: str) -> Module:
        if name not in self._read:
            self._read[name] = _module_of(self.files[name].read_text(encoding="utf-8"))
        return self._read[name]

    def _found(self, module: str, name: str) -> Iterator[tuple[str, str]]:
        """Yield the module and the name of each definition that is meant by `name`, imported from `module`."""
        if f"{module}.{name}" in self.files and name not in self.module(module).binds:
            yield from ((f"{module}.{name}", one) for one in self.module(f"{module}.{name}").binds)
        elif name in self.module(module).binds:
            yield module, name
        elif name in self.module(module).imports:
            there, one = self.module(module).imports[name]
            if there in self.files:
                yield from self._found(there, one) if one else ((there, each) for each in self.module(there).binds)

    def _meant(self, module: Module, statement: Statement, own: str, beside: Path | None) -> Iterator[tuple[str, str]]:
        """Yield the module and the name of each definition of the repository that a statement refers to.

        `own` is the name of the statement's module. `beside` is the folder of a script, whose other scripts it can
        import.
        """
        imports = {**module.imports, **statement.imports}
        for name in statement.names:
            if name in module.binds:
                yield own, name
            if name not in imports:
                continue
            there, one = imports[name]
            if there not in self.files and beside is not None and (beside / f"{there}.py").is_file():
                self.files[f"{beside.name}/{there}"] = beside / f"{there}.py"
                there = f"{beside.name}/{there}"
            if there not in self.files:
                continue
            if one is not None and f"{there}.{one}" not in self.files:
                yield from self._found(there, one)
                continue
            alias = there if one is None else f"{there}.{one}"
            for attribute in statement.attributes.get(name, ()):
                yield from self._found(alias, attribute)

    def reached(self, starts: Iterable[str], *, text: str = "") -> dict[str, tuple[str, ...]]:
        """Return the definitions that can be reached from `starts`: by a definition's text, the names that it binds.

        Parameters
        ----------
        starts : iterable of str
            Files relative to the root, which count as a whole, or ``file:name`` for a single definition of the file.
        text : str
            Further Python code, such as the cells of a notebook.
        """
        for_text = [] if not text else [("text", Module(text), None)]
        todo: list[tuple[str, str]] = []
        out: dict[str, tuple[str, ...]] = {}
        seen: set[tuple[str, str]] = set()
        beside: dict[str, Path | None] = {}

        def enter(own: str, module: Module, folder: Path | None, statements: Iterable[Statement]) -> None:
            beside[own] = folder
            for statement in statements:
                out[statement.text] = statement.binds
                todo.extend(self._meant(module, statement, own, folder))

        for own, module, folder in for_text:
            self._read[own] = module
            enter(own, module, folder, module.all)
        for start in starts:
            path, _, name = start.partition(":")
            file = self.root / path
            if not file.is_file():
                raise FileNotFoundError(f"{path}: a figure is said to start there; there is no such file")
            own = next((known for known, one in self.files.items() if one == file), f"{file.parent.name}/{file.stem}")
            self.files[own] = file
            module = self.module(own)
            if name and name not in module.binds:
                raise KeyError(f"{path} defines no {name!r}, at which a figure is said to start")
            wanted = module.binds[name] if name else module.all
            enter(own, module, file.parent if "/" in own else None, wanted)
        while todo:
            own, name = todo.pop()
            if (own, name) in seen or own == "text":
                continue
            seen.add((own, name))
            module = self.module(own)
            folder = self.files[own].parent if "/" in own else None
            first = own not in beside
            enter(own, module, folder, [*(module.loose if first else ()), *module.binds[name]])
        return out

    def digest(self, starts: Iterable[str], *, text: str = "") -> str:
        """Return the digest of all definitions that can be reached from `starts` (see :meth:`reached`)."""
        return digest_of_text("\n".join(sorted(self.reached(starts, text=text))))


TIMES = frozenset({"ms_per_query", "seconds", "milliseconds"})


def steady(value: Any) -> Any:
    """Return a result in a form that is equal for equal runs: no times, numbers with ten digits, and None for NaN.

    >>> steady({"Recall@5": 61.000000000004, "ms_per_query": 3.2})
    {'Recall@5': 61.0}
    """
    if isinstance(value, dict):
        return {name: steady(one) for name, one in value.items() if name not in TIMES}
    if isinstance(value, list):
        return [steady(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.10g}") if isfinite(value) else None
    return value


def as_json(value: Any) -> str:
    """Return a result as the JSON text that the repository stores (see :func:`steady`)."""
    return json.dumps(steady(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
