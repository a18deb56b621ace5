"""Hypothesis strategies shared by the law tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from phasegraph import Background, Ranking

NAMES = ("bm25", "graph", "vector")


@st.composite
def rankings(draw: st.DrawFn, *, minimum: int = 1, stated: bool = True) -> list[Ranking]:
    """One to three rankings over a small pool of ids: ties, short lists, tiny and large scores."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=minimum, max_size=3, unique=True))
    out = []
    for name in names:
        ids = draw(st.lists(st.integers(0, 14), min_size=1, max_size=12, unique=True))
        grid = draw(st.booleans())
        score = st.integers(0, 4).map(float) if grid else st.floats(0.001, 1.0).map(lambda x: round(x, 6))
        scores = draw(st.lists(score, min_size=len(ids), max_size=len(ids)))
        if sum(scores) == 0:
            scores[0] = 1.0
        background = None
        if stated and name == "graph" and draw(st.booleans()):
            background = Background(location=-8.0, scale=0.7, transform="log", floor=1e-4)
        out.append(Ranking(name, [f"p{i:02d}" for i in ids], np.array(scores), background=background))
    return out


IDS = (
    "a", "A", "ä", "a\u0308", "\u00c5", "\u212b", "İ", "ß", "ss", "ﬀ", "ﷺ", "١٢٣", "中文", "🏳️‍🌈",
    "\u202eabc", "a b", "a\u00a0b",
    "e" + "\u0301" * 300, "\u0f71\u0f72\u0f74" * 40, "\ud800", "\0", "1e999", "nan", "x" * 500,
)  # fmt: skip
"""Ids that must stay apart, whatever they look like: composed and not, compatibility forms, marks, a lone surrogate."""
TINY, HUGE = 5e-324, 1.7976931348623157e308


@st.composite
def extreme_rankings(draw: st.DrawFn, *, minimum: int = 1) -> list[Ranking]:
    """One to three rankings with scores from denormals to the largest float, of either sign, and ids of any script."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=minimum, max_size=3, unique=True))
    score = st.one_of(
        st.sampled_from([0.0, -0.0, TINY, -TINY, 3 * TINY, 2.3e-308, 1e-300, 1.0, 1e150, 1e300, HUGE, -HUGE]),
        st.floats(allow_nan=False, allow_infinity=False),
        st.floats(-1e-307, 1e-307),
        st.floats(0.001, 1.0),
    )
    out = []
    for name in names:
        ids = draw(st.lists(st.sampled_from(IDS), min_size=1, max_size=12, unique=True))
        scores = draw(st.lists(score, min_size=len(ids), max_size=len(ids)))
        out.append(Ranking(name, ids, np.array(scores)))
    return out
