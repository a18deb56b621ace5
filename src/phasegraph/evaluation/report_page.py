"""Write the report page: an HTML page with a table and figures, which needs neither network nor scripts."""

from __future__ import annotations

import html
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from phasegraph._support.files import replace_file
from phasegraph._support.text import legible
from phasegraph.errors import InvalidInputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
SHOWN = 5
"""Number of table rows that are visible before the table is unfolded."""
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
_STYLE = """
:root{--ink:#222;--soft:#555;--line:#e3e3e3;--mark:#eef4fb;--paper:#fff;--accent:#2f5fa5;color-scheme:light dark}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ee;--soft:#a3adba;--line:#333b47;--mark:#25324a;--paper:#14181e;
--accent:#8ab4f0}
figure svg{filter:invert(.92) hue-rotate(180deg)}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:76rem;margin:0 auto;
padding:1.5rem 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin-top:2rem}a{color:var(--accent)}
nav ul{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;list-style:none;padding:0;margin:.6rem 0;font-size:.86rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.8rem}
th,td{padding:.25rem .45rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child,td:first-child{text-align:left}thead th{border-bottom:2px solid var(--soft)}
tr.marked td{background:var(--mark);font-weight:600}tbody td:first-child{position:sticky;left:0;
background:var(--paper)}
tbody tr.marked td:first-child{background:var(--mark)}
.fold{display:inline-block;margin:.5rem 0;font-size:.86rem;cursor:pointer}
.fold:not(:has(:checked))~.scroll .rest{display:none}
figure{margin:.5rem 0}figure svg{max-width:100%;height:auto}figcaption,.note{color:var(--soft);font-size:.86rem}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.15rem 1rem;font-size:.86rem}dt{font-weight:600}
dd{margin:0}
@media (max-width:600px){figure{overflow-x:auto}figure svg{max-width:none;width:38rem}
dl{grid-template-columns:minmax(0,1fr)}dd{margin-bottom:.3rem}}
""".replace("\n", "")


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure with a title, a caption and the `name` of its PNG file: lower-case letters, digits and hyphens."""

    name: str
    title: str
    caption: str
    figure: Figure


def write_report(
    directory: str | os.PathLike[str],
    *,
    title: str,
    lead: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    marked: Sequence[str] = (),
    pictures: Sequence[Picture] = (),
    notes: Sequence[str] = (),
    terms: Mapping[str, str] | None = None,
    sort_by: str = "",
) -> Path:
    """Write ``index.html`` and one PNG file per picture; the table shows five rows, and hides the rest until a click.

    Parameters
    ----------
    directory : path
        The target folder; created if missing.
    title, lead : str
        The heading of the page, and the sentence below the heading.
    columns : sequence of str
        Headings of the table's columns.
    rows : sequence of sequence of str
        One cell per column; the first cell is the name of the row.
    marked : sequence of str
        Names of the rows to highlight.
    pictures : sequence of Picture
        The figures, in the order of the page.
    notes : sequence of str
        Lines below the table.
    terms : mapping of str to str, optional
        Explanations of the names in the table, shown at the end.
    sort_by : str, optional
        Start of a column heading: rows with greater numbers in that column come first. Default: the given order.

    Returns
    -------
    Path
        The path of the page. All its text is escaped, and it loads no other file.

    Raises
    ------
    InvalidInputError
        If a row has a wrong number of cells, no heading starts with `sort_by`, or a picture's name is invalid.
    """
    wrong = next((row for row in rows if len(row) != len(columns)), None)
    if wrong is not None:
        raise InvalidInputError(f"every row must have {len(columns)} cells; got {list(wrong)}")
    bad = next((picture.name for picture in pictures if not _NAME.fullmatch(picture.name)), None)
    if bad is not None:
        raise InvalidInputError(f"a picture's name must be lower-case letters, digits and hyphens; got {bad!r}")
    if sort_by:
        rows = _sorted(columns, rows, sort_by)
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    for picture in pictures:
        buffer = io.BytesIO()
        picture.figure.savefig(buffer, format="png", dpi=140)
        replace_file(target / f"{picture.name}.png", buffer.getvalue())
    parts = {f"part-{picture.name}": picture.title for picture in pictures}
    parts |= {"meanings": "What the names mean"} if terms else {}
    links = "".join(f'<li><a href="#{name}">{_text(heading)}</a></li>' for name, heading in parts.items())
    body = [f"<header><h1>{_text(title)}</h1><p>{_text(lead)}</p></header>"]
    body += [f'<nav aria-label="Parts of this page"><ul>{links}</ul></nav>'] if links else []
    body += ["<main>", _table(columns, rows, frozenset(marked), sort_by)]
    body += [f'<p class="note">{_text(note)}</p>' for note in notes]
    body += [_section(picture) for picture in pictures]
    if terms:
        listed = "".join(f"<dt>{_text(name)}</dt><dd>{_text(meaning)}</dd>" for name, meaning in terms.items())
        body.append(f'<section id="meanings"><h2>What the names mean</h2><dl>{listed}</dl></section>')
    body.append("</main>")
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>\n<body>{''.join(body)}</body></html>\n"
    )
    replace_file(target / "index.html", page.encode())
    return target / "index.html"


def _sorted(columns: Sequence[str], rows: Sequence[Sequence[str]], sort_by: str) -> list[Sequence[str]]:
    """Sort the rows by the number in one column, greatest first; rows without a number come last."""
    place = next((row for row, column in enumerate(columns) if column.startswith(sort_by)), None)
    if place is None:
        raise InvalidInputError(f"sort_by must be the start of a column heading; got {sort_by!r} for {list(columns)}")

    def value(row: Sequence[str]) -> float:
        found = _NUMBER.match(row[place])
        return -float(found[0]) if found else np.inf

    return sorted(rows, key=value)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], marked: frozenset[str], sort_by: str) -> str:
    head = "".join(f'<th scope="col">{_text(column)}</th>' for column in columns)
    lines = []
    for place, row in enumerate(rows):
        kinds = " ".join(["marked"] * (row[0] in marked) + ["rest"] * (place >= SHOWN))
        cells = "".join(f"<td>{_text(cell)}</td>" for cell in row)
        lines.append(f'<tr class="{kinds}">{cells}</tr>' if kinds else f"<tr>{cells}</tr>")
    by = f", the best in {_text(sort_by)} first" if sort_by else ""
    fold = f'<label class="fold"><input type="checkbox"> all {len(rows)} rows{by}</label>' if len(rows) > SHOWN else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<section aria-label="Table">{fold}<div class="scroll">{table}</div></section>'


def _section(picture: Picture) -> str:
    buffer = io.StringIO()
    picture.figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    drawing = buffer.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    drawing = drawing.replace("<svg", f'<svg role="img" aria-label="{_text(picture.title)}"', 1)
    # Ids are unique within one SVG only: prefix them, so that the clip paths of several SVGs do not mix.
    drawing = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{picture.name}-", drawing)
    shown = f"<figure>{drawing}<figcaption>{_text(picture.caption)}</figcaption></figure>"
    return f'<section id="part-{picture.name}"><h2>{_text(picture.title)}</h2>{shown}</section>'


def _text(value: str) -> str:
    return html.escape(legible(value))
