"""Convert query bundles to rewritten queries of the core, and copy them for each search."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from llama_index.core.schema import QueryBundle

from phasegraph.retrieval import RewrittenQuery


@dataclass
class _WatchedBundle(QueryBundle):
    """A query bundle that records in `readers` if a retriever read the texts to embed.

    A retriever reads the property ``embedding_strs``. Code that only serializes a bundle reads the fields.
    """

    readers: list[str] = field(default_factory=list, repr=False, compare=False)

    @property
    def embedding_strs(self) -> list[str]:
        """The texts to embed; reading this property is recorded."""
        self.readers[:] = ["a retriever"]
        return super().embedding_strs

    def is_read(self) -> bool:
        """Return True if a retriever read the texts to embed."""
        return bool(self.readers)


def rewritten_query(bundle: QueryBundle) -> RewrittenQuery:
    """Convert a query bundle, which has texts to embed, to the object that a rewriter returns."""
    watched = _WatchedBundle(bundle.query_str, bundle.image_path, bundle.custom_embedding_strs, bundle.embedding)
    return RewrittenQuery(watched.query_str, tuple(watched.custom_embedding_strs or ()), watched, watched.is_read)


def own_bundle(bundle: QueryBundle, query: str) -> QueryBundle:
    """Return a copy of the bundle with `query`; a copy is needed, because retrievers store embeddings in it."""
    if query != bundle.query_str:
        return QueryBundle(query)
    texts = bundle.custom_embedding_strs
    return replace(bundle, custom_embedding_strs=None if texts is None else list(texts))
