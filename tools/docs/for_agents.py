"""Write the site for programs that read Markdown: a copy of every page, and ``llms.txt``, which lists the pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from site_pages import CONFIG, ROOT, navigation, page_text

FULL = ("Start", "Learn", "How-to", "Understand")
"""Parts of the site whose pages are in ``llms-full.txt``, from the first heading of the menu."""
_DIRECTIVE = re.compile(r"^::: (?P<name>[\w.]+)\n(?P<options>(?:(?: {4}.*)?\n)*)", re.MULTILINE)


def write_markdown(site: Path, skill: Path) -> None:
    """Write a Markdown copy of every page next to its HTML.

    Also write the skill for agents, ``llms.txt`` (a list of the pages) and ``llms-full.txt`` (the tutorials and
    guides).
    """
    whole = []
    for above, title, path in navigation():
        text = reference_as_markdown(page_text(path))
        copy = site / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")
        if (above or (title,))[0] in FULL:
            whole.append(text.rstrip())
    (site / "skill").mkdir(exist_ok=True)
    (site / "skill" / "SKILL.md").write_text(skill.read_text(encoding="utf-8"), encoding="utf-8")
    (site / "llms.txt").write_text(index_of_pages(), encoding="utf-8")
    (site / "llms-full.txt").write_text("\n\n".join(whole) + "\n", encoding="utf-8")


def index_of_pages() -> str:
    """Return the text of ``llms.txt``: the pages of each part of the site, each with its first sentence.

    >>> index_of_pages().splitlines()[0]
    '# phasegraph'
    """
    site = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    address = site["site_url"]
    lines = [f"# {site['site_name']}", "", f"> {site['site_description']}.", ""]
    lines.append(f"How to use it, for coding agents: [SKILL.md]({address}skill/SKILL.md)")
    part = ""
    for above, title, path in navigation():
        first = above[0] if above else title
        if first != part:
            part = first
            # A reader with little room leaves out what is below "Optional" (https://llmstxt.org).
            lines += ["", f"## {'Optional' if part == 'Evidence' else part}", ""]
        text = page_text(path)
        lines.append(f"- [{title or title_of(text)}]({address}{path}): {first_sentence(text)}")
    return "\n".join(lines) + "\n"


def title_of(markdown: str) -> str:
    r"""Return the first heading of a page.

    >>> title_of("# Filters\n\nYou want …")
    'Filters'
    """
    return markdown.partition("\n")[0].removeprefix("# ")


SHORT = 40
"""A first sentence of fewer characters says too little; the second follows it."""


def first_sentence(markdown: str) -> str:
    r"""Return the first sentence of a page's first paragraph, without links and emphasis.

    >>> first_sentence("# Filters\n\nYou want answers from [some passages](a.md) only. More.")
    'You want answers from some passages only.'
    """
    text = re.sub(r"<!--.*?-->", "", markdown.partition("\n")[2], flags=re.DOTALL)
    paragraphs = (one.strip() for one in text.split("\n\n"))
    prose = next(
        (one for one in paragraphs if one and not one.startswith(("#", "|", "!", "```", "- ", "* ", ":::"))), ""
    )
    plain = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", " ".join(prose.split())).replace("**", "")
    sentences = re.split(r"(?<=[.!?:])\s", plain)
    several = 1 + (len(sentences[0]) < SHORT and len(sentences) > 1)
    return " ".join(sentences[:several]).removesuffix(":")


def reference_as_markdown(markdown: str) -> str:
    """Return a page in which each ``::: name`` is replaced by the name's signature and docstring.

    The signatures and docstrings of its members follow.
    """
    return _DIRECTIVE.sub(lambda found: _described(found["name"], found["options"]) + "\n", markdown)


def _described(name: str, options: str) -> str:
    """Return the Markdown for a name that the reference lists; `options` (YAML) may choose its members."""
    thing = _loaded()[name]
    asked = yaml.safe_load(options) or {}
    members = asked.get("options", {}).get("members")
    return "\n".join(_lines(name.rpartition(".")[2], thing, members, 3)) + "\n"


def _lines(name: str, thing: Any, members: Iterable[str] | None, level: int) -> Iterator[str]:
    yield f"{'#' * level} {name}"
    yield ""
    if thing.is_function or (thing.is_class and thing.parameters):
        yield from ("```python", f"{name}({_signature(thing.parameters)})", "```", "")
    if thing.docstring:
        yield from (thing.docstring.value, "")
    if thing.is_class:
        named = [one for one in thing.members if not one.startswith("_")] if members is None else members
        for one in named:
            member = thing.all_members[one]
            if member.docstring and (member.is_function or member.is_attribute):
                yield from _lines(one, member, (), level + 1)


def _signature(parameters: Iterable[Any]) -> str:
    """Return a function's parameters as Python code, without ``self``."""
    written, starred = [], False
    for one in parameters:
        if one.name in ("self", "cls"):
            continue
        kind = one.kind.value
        if kind == "keyword-only" and not starred:
            written.append("*")
        starred = starred or kind in ("keyword-only", "variadic positional")
        stars = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
        annotation = "" if one.annotation is None else f": {one.annotation}"
        default = "" if one.default is None or stars else f" = {one.default}"
        written.append(f"{stars}{one.name}{annotation}{default}")
    return ", ".join(written)


@cache
def _loaded() -> Any:
    """Return the objects of the packages as griffe reads them, without importing the packages."""
    import griffe

    handler = next(one["mkdocstrings"] for one in yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["plugins"]
                   if isinstance(one, dict))["handlers"]["python"]  # fmt: skip
    extensions = griffe.load_extensions(*(str(ROOT / path) for path in handler["options"]["extensions"]))
    loader = griffe.GriffeLoader(extensions=extensions, search_paths=[ROOT / path for path in handler["paths"]])
    for package in ("phasegraph", "langchain_phasegraph", "llama_index.retrievers.phasegraph"):
        loader.load(package)
    loader.resolve_aliases(implicit=False, external=False)
    return loader.modules_collection
