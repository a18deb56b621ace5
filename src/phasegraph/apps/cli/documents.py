"""``phasegraph documents``: list the documents of a folder."""

from __future__ import annotations

from pathlib import Path

from phasegraph.apps.cli.output import IndexFolder, JsonTo, check_outputs, write_json
from phasegraph.errors import InvalidInputError
from phasegraph.graph.corpus.corpus import STATE
from phasegraph.retrieval.passage_folder import PassageFolder


def documents(folder: IndexFolder, json_to: JsonTo = None) -> None:
    """List the documents of a folder, each with the number of its passages."""
    check_outputs(json=json_to)
    found = opened_folder(folder).documents()
    to = write_json(found, json_to)
    unnamed = found.pop("", 0)
    for name in sorted(found):
        to.print(f"{found[name]:>6}  {name}")
    to.print(f"{sum(found.values())} passages of {len(found)} documents")
    if unnamed:
        to.print(f"{unnamed} passages name no document")


def opened_folder(folder: Path) -> PassageFolder:
    """The folder of a retriever, or of ``phasegraph index --sync``; InvalidInputError for any other."""
    if not (folder / STATE).is_file():
        raise InvalidInputError(
            f"{folder}: it is no folder of a retriever or of phasegraph index --sync: it has no {STATE}"
        )
    return PassageFolder.open(folder)
