"""Render an answer as HTML for a notebook, with a color for each source; all texts are escaped."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from phasegraph.sentences import tell

COLOURS = ("#3b6fb6", "#d1702f", "#4d9a5b", "#8c5fa8", "#b8455a", "#6f6f6f", "#2a9d9d", "#b59b2c")
# These sources have the same color in every picture; other sources get the remaining colors in name order.
_OF_SOURCE = {"vector": COLOURS[0], "graph": COLOURS[1], "bm25": COLOURS[2]}
_JOINERS = "\u200c\u200d"
"""Invisible characters that Persian, Indian scripts and emoji need; they are not escaped."""
_HIDDEN = re.compile(r"[^\S\n\t ]|[^\w\s!-~]")
SHOWN = 10
"""Number of hits that are shown for each source; further hits are in a collapsed section."""
SNIPPET = 240
"""Maximum number of characters of a passage's text that are shown."""


def source_colours(names: Iterable[str]) -> dict[str, str]:
    """Return a color for each source, by name.

    Examples
    --------
    >>> source_colours(["vector", "graph"]) == source_colours(["graph", "vector"])
    True
    """
    given = sorted(set(names))
    left = [colour for colour in COLOURS if colour not in _OF_SOURCE.values()]
    unknown = [name for name in given if name not in _OF_SOURCE]
    return {name: _OF_SOURCE.get(name) or left[unknown.index(name) % len(left)] for name in given}


def visible(text: str) -> str:
    """Replace control, direction and other invisible characters by their names, because they can disguise a text.

    >>> visible("a\u202eb"), visible("Zürich, نمی\u200cخواهم")
    ('a⟨U+202E⟩b', 'Zürich, نمی\u200cخواهم')
    """
    return _HIDDEN.sub(_named, text)


def _named(match: re.Match[str]) -> str:
    one = match.group()
    unseen = unicodedata.category(one) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") and one not in _JOINERS
    return f"⟨U+{ord(one):04X}⟩" if unseen else one


def escaped(text: object) -> str:
    """Convert an object to escaped HTML text, which is also safe in an attribute in double quotes."""
    return html.escape(visible(str(text)))


def cut(text: str, length: int) -> str:
    """Return a text on one line, cut at `length` characters."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


# Colors are inherited from the page, and grays are transparent: the table fits light and dark notebooks.
_STYLE = """
.pg-answer{font:14px/1.45 system-ui,sans-serif;padding:.6rem;text-align:left;overflow-x:auto}
.pg-answer table{border-collapse:collapse;margin:0;font-size:12.5px}.pg-answer h4{margin:.2rem 0;font-size:15px}
.pg-answer th,.pg-answer td{padding:.2rem .45rem;border-bottom:1px solid #8884;text-align:right;vertical-align:top}
.pg-answer th,.pg-answer td,.pg-answer tr{background:none;color:inherit}
.pg-answer td{white-space:nowrap}.pg-answer th{font-weight:600;opacity:.75}
.pg-answer .pg-l{text-align:left}.pg-answer td.pg-l{white-space:normal;max-width:34rem;overflow-wrap:anywhere}
.pg-answer>table td.pg-l:nth-child(2){min-width:min(13rem,60vw)}
.pg-answer .pg-id{opacity:.7;font-family:ui-monospace,monospace;font-size:11.5px}.pg-answer .pg-text{opacity:.8}
.pg-answer .pg-bar{display:inline-block;height:.7em}.pg-answer .pg-no{opacity:.6;text-decoration:line-through}
.pg-answer .pg-lists{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(250px,100%),1fr));gap:1rem}
.pg-answer .pg-lists{margin-top:.8rem}.pg-lists>div{min-width:0;overflow-x:auto}
.pg-answer .pg-warn{border-left:3px solid #d9691e;padding-left:.5em;margin:.2rem 0}
.pg-lists td .pg-text{display:-webkit-box;-webkit-line-clamp:2;-webkit-box-orient:vertical;overflow:hidden}
.pg-lists td br:has(+.pg-text){display:none}
.pg-answer .pg-lists table{width:100%}.pg-answer .pg-lists th,.pg-answer .pg-lists td{padding:.2rem .25rem}
.pg-answer .pg-dot{display:inline-block;width:.7em;height:.7em;border-radius:50%;margin-right:.35em}
.pg-answer summary{cursor:pointer;opacity:.8;font-size:12.5px}.pg-answer .pg-lists td.pg-l{max-width:15rem;width:99%}
""".replace("\n", "")
_LEGEND = (
    "raw: the source's own score. calibrated: this score on the scale that all sources share. contributes: the "
    "source's part of the fused value."
)


def answer_html(view: Mapping[str, Any]) -> str:
    """Render the output of ``Result.view`` as HTML, without scripts and external requests; all texts are escaped."""
    view = tell(view)
    sources, rows = view["sources"], {row["id"]: row for row in view["rows"]}
    colours = source_colours(one["name"] for one in sources)
    chosen = sorted((row for row in rows.values() if row["position"]), key=lambda row: int(row["position"]))
    parts = [f'<div class="pg-answer"><style>{_STYLE}</style>']
    if view["question"]:
        parts.append(f"<h4>{escaped(view['question'])}</h4>")
    parts.append(f"<div title='{escaped(view['confidence_said'])}'>{escaped(summary(view))}</div>")
    parts += [f'<div class="pg-warn">warning: {escaped(line)}</div>' for line in view["warnings"]]
    if chosen:
        parts.append(_answer_table(view, chosen, colours))
    if rows:
        parts.append(f'<div class="pg-text">{escaped(_LEGEND)}</div>')
    lists = "".join(_list_table(view, one, rows, colours[one["name"]]) for one in sources)
    return "".join([*parts, f'<div class="pg-lists">{lists}</div></div>'])


def summary(view: Mapping[str, Any]) -> str:
    """Return one line with the numbers of results and candidates, the reason for an empty answer, and the confidence.

    >>> summary({"rows": [], "why_empty": "every source searched and found nothing", "confidence_said": "unknown"})
    'no results: every source searched and found nothing; confidence unknown'
    """
    count = sum(row["position"] is not None for row in view["rows"])
    said = f"{count} of {len(view['rows'])} candidates" if count else f"no results: {view['why_empty']}"
    confidence, _, _ = view["confidence_said"].partition("\n")
    return f"{said}; confidence {confidence}"


def _answer_table(view: Mapping[str, Any], chosen: Sequence[Mapping[str, Any]], colours: Mapping[str, str]) -> str:
    names = [one["name"] for one in view["sources"] if one["weight"] is not None]
    longest = max((sum(abs(_part(row, name)) for name in names) for row in chosen), default=0.0) or 1.0
    heads = "".join(
        f"<th>{_dot(colours[one['name']])}{escaped(one['name'])}<br>weight {one['weight']:.3f}</th>"
        for one in view["sources"]
        if one["weight"] is not None
    )
    body = []
    for row in chosen:
        bars = "".join(
            f'<span class="pg-bar" style="background:{colours[name]};'
            f"width:{90 * abs(_part(row, name)) / longest:.1f}px;"
            f'opacity:{1 if _part(row, name) >= 0 else 0.35}"></span>'
            for name in names
        )
        cells = "".join(f"<td>{_said_by(row['sources'].get(name))}</td>" for name in names)
        further = ""
        if row["bonus"] or row["prior"] != 1.0:
            further = f"<br>bonus {row['bonus']:+.3f}, prior × {row['prior']:.3f}"
        body.append(
            f'<tr><td>{row["position"]}</td><td class="pg-l">{_passage(view, row, SNIPPET, row["why"])}</td>'
            f"<td>{row['score']:.4f}{further}</td><td class='pg-l'>{bars}</td>{cells}</tr>"
        )
    return (
        "<table><thead><tr><th>#</th><th class='pg-l'>passage</th><th>score</th><th class='pg-l'>contributions</th>"
        f"{heads}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    )


def _said_by(one: Mapping[str, Any] | None) -> str:
    if one is None or one["contribution"] is None:
        return "–"
    rank = "not returned" if one["rank"] is None else f"rank {one['rank']:g}, raw {_number(one['raw'])}"
    return f"{rank}<br>calibrated {one['calibrated']:.3f}<br>contributes {one['contribution']:+.3f}"


def _list_table(
    view: Mapping[str, Any], source: Mapping[str, Any], rows: Mapping[str, Mapping[str, Any]], colour: str
) -> str:
    weight = "not fused" if source["weight"] is None else f"weight {source['weight']:.3f}"
    said = f"{source['status']}, {source['hits']} hits, {weight}, calibration {source['calibration'] or '–'}"
    notes = "".join(f"<br>{escaped(line)}" for line in (*filter(None, [source["reason"]]), *source["notes"]))
    head = "<tr><th>rank</th><th class='pg-l'>passage</th><th>raw<br>calibrated<br>contributes</th></tr>"
    lines = [_list_row(view, rows[name], source["name"]) for name in source["ids"]]
    table = "<table>" + head + "".join(lines[:SHOWN]) + "</table>" if lines else ""
    if lines[SHOWN:]:
        more = "<table>" + head + "".join(lines[SHOWN:]) + "</table>"
        table += f"<details><summary>{len(lines) - SHOWN} more</summary>{more}</details>"
    name = escaped(source["name"])
    return f'<div><h4>{_dot(colour)}{name}</h4><div class="pg-text">{escaped(said)}{notes}</div>{table}</div>'


def _list_row(view: Mapping[str, Any], row: Mapping[str, Any], name: str) -> str:
    one = row["sources"][name]
    state = f"#{row['position']}" if row["position"] else {"accepted": "", "ambiguous": "?"}.get(row["verdict"], "✗")
    mark = ' class="pg-no"' if row["verdict"] == "rejected" else ""
    return (
        f"<tr{mark} title='{escaped(row['verdict'])}'><td>{one['rank']:g}<br><b>{state}</b></td>"
        f'<td class="pg-l">{_passage(view, row, 90)}</td>'
        f"<td>{_number(one['raw'])}<br>{_number(one['calibrated'])}<br>{_number(one['contribution'])}</td></tr>"
    )


def _passage(view: Mapping[str, Any], row: Mapping[str, Any], length: int, why: str = "") -> str:
    held = view["passages"].get(row["id"], {"title": "", "text": ""})
    title = f"<b><bdi>{escaped(held['title'])}</bdi></b> " if held["title"] else ""
    said = f"<br>{escaped(why)}" if why else ""
    text = f'<br><span class="pg-text"><bdi>{escaped(cut(held["text"], length))}</bdi></span>' if held["text"] else ""
    return f'{title}<span class="pg-id"><bdi>{escaped(row["id"])}</bdi></span>{said}{text}'


def _part(row: Mapping[str, Any], name: str) -> float:
    return float((row["sources"].get(name) or {}).get("contribution") or 0.0)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _dot(colour: str) -> str:
    return f'<span class="pg-dot" style="background:{colour}"></span>'
