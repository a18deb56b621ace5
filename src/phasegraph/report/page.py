"""One page without script or network: a table, pictures and their words."""

from __future__ import annotations

import html
import io
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from phasegraph.errors import InvalidInputError
from phasegraph.persistence.document import replace_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#222;max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;font-size:.86rem;display:block;overflow-x:auto}
th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid #e3e3e3;white-space:nowrap}
th:first-child,td:first-child{text-align:left}thead th{border-bottom:2px solid #999}
tr.marked td{background:#eef4fb;font-weight:600}
figure{margin:.5rem 0}figure svg{max-width:100%;height:auto}figcaption,.note{color:#555;font-size:.86rem}
"""


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure with its place on the page.

    Parameters
    ----------
    name : str
        File name of the PNG without its ending: lower case, digits, hyphens.
    title, caption : str
    figure : matplotlib.figure.Figure
    """

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
) -> Path:
    """Write ``index.html`` and one PNG per picture.

    Parameters
    ----------
    directory : path
        Made if missing.
    title, lead : str
        Heading and the sentence below it.
    columns : sequence of str
    rows : sequence of sequence of str
        As many cells as columns; the first is the row's name.
    marked : sequence of str
        Names of rows to set off.
    pictures : sequence of Picture
    notes : sequence of str
        Lines under the table.

    Returns
    -------
    Path
        The page. All text is escaped; it loads nothing.

    Raises
    ------
    InvalidInputError
        If a row has another number of cells, or a picture's name is not plain.
    """
    wrong = next((row for row in rows if len(row) != len(columns)), None)
    if wrong is not None:
        raise InvalidInputError(f"every row must have {len(columns)} cells; got {list(wrong)}")
    bad = next((picture.name for picture in pictures if not _NAME.fullmatch(picture.name)), None)
    if bad is not None:
        raise InvalidInputError(f"a picture's name must be lower-case letters, digits and hyphens; got {bad!r}")
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    for picture in pictures:
        buffer = io.BytesIO()
        picture.figure.savefig(buffer, format="png", dpi=140)
        replace_file(target / f"{picture.name}.png", buffer.getvalue())
    body = [f"<h1>{_text(title)}</h1>", f"<p>{_text(lead)}</p>", _table(columns, rows, frozenset(marked))]
    body += [f'<p class="note">{_text(note)}</p>' for note in notes]
    body += [_section(picture) for picture in pictures]
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>\n<body>{''.join(body)}</body></html>\n"
    )
    replace_file(target / "index.html", page.encode())
    return target / "index.html"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], marked: frozenset[str]) -> str:
    head = "".join(f"<th>{_text(column)}</th>" for column in columns)
    lines = []
    for row in rows:
        cells = "".join(f"<td>{_text(cell)}</td>" for cell in row)
        lines.append(f'<tr class="marked">{cells}</tr>' if row[0] in marked else f"<tr>{cells}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _section(picture: Picture) -> str:
    buffer = io.StringIO()
    picture.figure.savefig(buffer, format="svg", metadata={"Date": None})
    drawing = buffer.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    # ids are unique within one drawing only: prefix them, so that clip paths of several do not mix
    drawing = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{picture.name}-", drawing)
    return f"<h2>{_text(picture.title)}</h2><figure>{drawing}<figcaption>{_text(picture.caption)}</figcaption></figure>"


def _text(value: str) -> str:
    return html.escape(value.encode("utf-8", "replace").decode())
