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
