"""A page of the reproduction: prose and tables, written as Markdown."""

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
        What is concluded from the tables, below them.
    figures : mapping of str to object
        Numbers as JSON types, for ``figures.json``; empty for a page that keeps none.
    """

    name: str
    title: str
    parts: tuple[str, ...]
    verdicts: tuple[Verdict, ...] = ()
    figures: Mapping[str, object] = field(default_factory=dict)

    def text(self) -> str:
        """The page as Markdown."""
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
    """A Markdown table; numbers with decimals as they are given."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def number(value: float, digits: int = 4) -> str:
    """A number with a fixed count of decimals."""
    return f"{value:.{digits}f}"


def share(value: float) -> str:
    """A share in [0, 1] as a percentage with one decimal."""
    return "–" if value != value else f"{100 * value:.1f}"


def interval(shares: tuple[float, float, float]) -> str:
    """A difference of shares in points, with the ends of its interval.

    >>> interval((0.012, -0.004, 0.03))
    '+1.2 [-0.4, +3.0]'
    """
    mean, low, high = (100 * value for value in shares)
    return "–" if mean != mean else f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"


def p_value(value: float) -> str:
    """A p-value, three significant digits."""
    return f"{value:.3g}"
