"""Drawings as SVG: with real text that is legible on a phone, and with colors that follow a dark page."""

from __future__ import annotations

from html import escape

from phasegraph._support.markup import source_colours

WIDTH = 520
"""Of every drawing: a column of a telephone shows 16 units as 11 pixels."""
_SOURCES = source_colours(["vector", "graph", "bm25"])
_DARK = {"vector": "#7fb2ff", "graph": "#ff9d57", "bm25": "#7fd08f"}
_LIGHT_PAGE = {
    "paper": "#ffffff",
    "card": "#f3f5f8",
    "ink": "#1c2430",
    "muted": "#5b6575",
    "line": "#98a2b0",
    "other": "#b4bcc7",
}
_DARK_PAGE = {
    "paper": "#1b1f27",
    "card": "#272d38",
    "ink": "#eef1f6",
    "muted": "#aab4c2",
    "line": "#77829a",
    "other": "#59637a",
}


class Drawing:
    """A drawing of shapes and texts with a given height.

    Parameters
    ----------
    title : str
        A description of the drawing, for readers who do not see it.
    height : float
    """

    def __init__(self, title: str, height: float) -> None:
        self.title, self.height = title, height
        self._parts: list[str] = []

    def box(
        self, x: float, y: float, width: float, height: float, *, fill: str, stroke: str = "", wide: float = 1.5
    ) -> None:
        """Draw a rectangle with round corners and a border; (x, y) is its upper left corner."""
        edge = f' class="stroke-{stroke}" stroke-width="{wide}"' if stroke else ""
        place = f'x="{x:.4g}" y="{y:.4g}" width="{width:.4g}" height="{height:.4g}"'
        self._parts.append(f'<g class="fill-{fill}"><rect {place} rx="8"{edge}/></g>')

    def bar(self, x: float, y: float, width: float, height: float, fill: str, opacity: float = 1.0) -> None:
        """Draw a bar of a diagram; (x, y) is its upper left corner."""
        place = f'x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"'
        self._parts.append(f'<rect class="fill-{fill}" {place} opacity="{opacity:g}"/>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 16,
        colour: str = "ink",
        anchor: str = "middle",
        bold: bool = False,
    ) -> None:
        """Draw a line of text at (x, y); y is the middle of its height, and `anchor` says which part is at x."""
        weight = ' font-weight="600"' if bold else ""
        self._parts.append(
            f'<text class="fill-{colour}" x="{x:.4g}" y="{y:.4g}" font-size="{size:g}" text-anchor="{anchor}"{weight} '
            f'dominant-baseline="central">{escape(text)}</text>'
        )

    def line(
        self, x: float, y: float, to_x: float, to_y: float, colour: str = "line", wide: float = 1.5, head: bool = False
    ) -> None:
        """Draw a line from (x, y) to (to_x, to_y); with `head`, draw an arrow."""
        end = f' marker-end="url(#head-{colour})"' if head else ""
        place = f'd="M{x:.4g} {y:.4g}L{to_x:.4g} {to_y:.4g}"'
        self._parts.append(f'<path class="stroke-{colour}" fill="none" stroke-width="{wide:g}" {place}{end}/>')

    def label(self, x: float, y: float, width: float, text: str, colour: str, *, size: float = 16) -> None:
        """Draw a filled box with one line of text; (x, y) is its center."""
        self.box(x - width / 2, y - 19, width, 38, fill=colour)
        self.text(x, y, text, size=size, colour="paper", bold=True)

    def svg(self) -> str:
        """Return the content of the SVG file."""
        light = {**_LIGHT_PAGE, **_SOURCES}
        dark = {**_DARK_PAGE, **_DARK}
        heads = "".join(
            f'<marker id="head-{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto">'
            f'<path class="fill-{name}" d="M0 0L8 4L0 8Z"/></marker>'
            for name in ("line", "graph")
        )
        named = "".join(f".fill-{name}{{fill:var(--{name})}}.stroke-{name}{{stroke:var(--{name})}}" for name in light)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height:g}" width="{WIDTH}" '
            f'height="{self.height:g}" role="img" aria-label="{escape(self.title)}" '
            f'font-family="system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif">\n'
            f"<style>:root{{{_variables(light)}}}"
            f"@media (prefers-color-scheme: dark){{:root{{{_variables(dark)}}}}}{named}</style>\n"
            f"<defs>{heads}</defs>\n"
            f'<rect class="fill-paper" width="{WIDTH}" height="{self.height:g}" rx="10"/>\n'
            + "\n".join(self._parts)
            + "\n</svg>\n"
        )


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in colours.items())
