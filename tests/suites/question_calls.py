"""The texts, the question and the vectors with which both frameworks count the calls of an embedding model."""

from __future__ import annotations

import re
import zlib

QUERY = "Where was the director of Vertigo born?"
TEXTS = {
    "Vertigo": "Vertigo is a film by Alfred Hitchcock.",
    "Alfred Hitchcock": "Alfred Hitchcock was born in Leytonstone.",
    "Leytonstone": "Leytonstone is a part of London.",
    "Oslo": "Oslo is a city in Norway.",
}
NOTE = "the embedding of the question failed (OSError), so the walk used only names and words"


def vector_of_words(text: str) -> list[float]:
    """Return a vector that counts the words of a text."""
    counts = [0.1] * 64
    for word in re.findall(r"\w+", text.lower()):
        counts[zlib.crc32(word.encode()) % 64] += 1.0
    return counts
