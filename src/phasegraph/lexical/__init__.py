"""Search by words: tokenizers, a BM25 index of a collection, and a search for query words in the texts of hits."""

from phasegraph.lexical.changes import ChangedWords as ChangedWords
from phasegraph.lexical.hits import CountedTexts, HitWords, read_hits
from phasegraph.lexical.index import LexicalIndex
from phasegraph.lexical.index import LexicalPart as LexicalPart
from phasegraph.lexical.tokenizers import CJK as CJK
from phasegraph.lexical.tokenizers import TOKENIZERS, Tokenizer, places_of, split, tokenizer_of
from phasegraph.lexical.tokenizers import WITHOUT_PARTS as WITHOUT_PARTS

__all__ = [
    "TOKENIZERS",
    "CountedTexts",
    "HitWords",
    "LexicalIndex",
    "Tokenizer",
    "places_of",
    "read_hits",
    "split",
    "tokenizer_of",
]
