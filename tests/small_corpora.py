"""Small corpora that several tests of the graph share."""

import numpy as np

from phasegraph.graph import build_graph

PASSAGES = [
    {"id": "film", "title": "Vertigo", "text": "Vertigo is a film by Alfred Hitchcock with James Stewart."},
    {"id": "man", "title": "Alfred Hitchcock", "text": "Alfred Hitchcock was born in Leytonstone, a part of London."},
    {"id": "town", "title": "Leytonstone", "text": "Leytonstone lies in the east of London."},
    {"id": "city", "title": "Paris", "text": "Paris lies on the Seine."},
    {"id": "river", "title": "Seine", "text": "The Seine is a river; Paris lies on it."},
]
VECTORS = np.array([[1.0, 0.1, 0.0], [0.6, 0.8, 0.0], [0.0, 1.0, 0.2], [0.0, 0.0, 1.0], [0.1, 0.0, 1.0]])
GRAPH = build_graph(PASSAGES, embeddings=VECTORS)
QUERY = "In which town was the director of Vertigo born?"

TITLES = ["Ada", "Bo Diddley", "Paris", "The Seine (river)", "Ada Lovelace", "Order of the Seine", "", "Bo"]
TEXTS = [
    "Ada Lovelace met Bo Diddley in Paris by the Seine.",
    "Bo was born in Paris. He joined the Order of the Seine.",
    "The Seine flows through Paris, where Ada sang.",
    "However, Ada and Bo Diddley left Cy Twombly.",
]


def passage(number: int, title: int, text: int) -> dict[str, str]:
    """A passage with a title of `TITLES` and a text of `TEXTS`."""
    return {"id": f"p{number}", "title": TITLES[title], "text": TEXTS[text]}
