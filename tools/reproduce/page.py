"""A page of the reproduction: text and tables, written as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from claims import Verdict


@dataclass(frozen=True, slots=True)
class Page:
    """One Markdown page.

    Parameters
    ----------
    name : str
        File name without suffix.
    title : str
    parts : tuple of str
        Paragraphs and tables, in order.
    verdicts : tuple of Verdict
        The conclusions from the tables, which are below the tables.
    figures : mapping of str to object
        Numbers as JSON types, for ``figures.json``; empty if the page stores none.
    """

    name: str
    title: str
    parts: tuple[str, ...]
    verdicts: tuple[Verdict, ...] = ()
    figures: Mapping[str, object] = field(default_factory=dict)

    def text(self) -> str:
        """Return the page as Markdown."""
        end = [
            "\n".join(
                [
                    "Claims, and what the figures say about them. The brackets give the measured values, and "
                    "the values that the claim needs:",
                    "",
                    *(f"- {one.text}" for one in self.verdicts),
                ]
            )
        ]
        return "\n\n".join([f"# {self.title}", *self.parts, *(end if self.verdicts else ())]) + "\n"


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table; cells that are no text are converted by ``str``."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def number(value: float, digits: int = 4) -> str:
    """Return a number as text, with a fixed number of decimals."""
    return f"{value:.{digits}f}"


def share(value: float) -> str:
    """Return a share in [0, 1] as a percentage with one decimal, without the sign; a dash for NaN."""
    return "–" if value != value else f"{100 * value:.1f}"


def interval(shares: tuple[float, float, float]) -> str:
    """Return a difference of shares with the ends of its interval as text, in points; a dash for NaN.

    >>> interval((0.012, -0.004, 0.03))
    '+1.2 [-0.4, +3.0]'
    """
    mean, low, high = (100 * value for value in shares)
    return "–" if mean != mean else f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"


def p_value(value: float) -> str:
    """Return a p-value as text, with three significant digits."""
    return f"{value:.3g}"
