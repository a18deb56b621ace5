"""Whether a source can be kept to some passages, and which ones there are to choose from."""

from __future__ import annotations

from collections.abc import Sequence

from phasegraph.errors import InvalidInputError
from phasegraph.graph.source.graph_source import GraphSource


def passage_ids(source: object, /) -> Sequence[str]:
    """Ids of the passages of a source that has ``within(allowed)``.

    Parameters
    ----------
    source : object
        A `GraphSource`, or one that has ``passage_ids()`` as well.

    Returns
    -------
    sequence of str
        What ``within`` may be given.

    Raises
    ------
    InvalidInputError
        If it cannot be kept to some of its passages.

    Examples
    --------
    >>> from phasegraph.graph import build_graph
    >>> passage_ids(GraphSource(build_graph([{"id": "a", "text": "Ada met Bo."}])))
    ('a',)
    """
    if isinstance(source, GraphSource):
        return source.graph.passages
    listed = getattr(source, "passage_ids", None)
    if not callable(listed) or not callable(getattr(source, "within", None)):
        raise InvalidInputError(f"a {type(source).__name__} cannot be filtered; give each tenant a corpus of its own")
    ids: Sequence[str] = listed()
    return ids
