"""The functions by which an integration reads its hits: texts to embed, titles, stored vectors and query words."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import ArrayLike

from phasegraph._support.clock import Deadline
from phasegraph._support.shared import go_on
from phasegraph.errors import IntegrityError, InvalidInputError
from phasegraph.fusion.context import Context
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.lexical import ChangedWords, CountedTexts, HitWords, LexicalIndex, read_hits
from phasegraph.ranking import Ranking
from phasegraph.sources.steps import await_all
from phasegraph.sources.workers import Late, in_thread

if TYPE_CHECKING:
    from phasegraph.graph import Corpus

EmbedTexts: TypeAlias = Callable[[list[str]], ArrayLike]

AwaitTexts: TypeAlias = Callable[[list[str]], Awaitable[ArrayLike]]

LONGEST_TEXT = 200_000
"""Maximum number of characters of a hit's text in which the query's words are searched."""


def _no_metadata(_: object) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class HitAccess:
    """Functions that read a framework's documents or nodes.

    `text` returns the text of a hit, or "" if the hit has only an id. `to_embed` returns the text to embed; if
    `to_embed` is None, `text` is used. `vector` returns the embedding that is stored in a hit, or None.
    ``embed(texts)`` calls the embedding model of a source, and returns an array of shape (n, d). `aembed` is the
    model's own coroutine function; if it is None, asynchronous calls run `embed` in a worker. `corpus` is the corpus of
    the passages, or None. If its index contains word counts, hits from the corpus are not split into words again.
    """

    text: Callable[[Any], str] = str
    metadata: Callable[[Any], Mapping[str, Any]] = _no_metadata
    to_embed: Callable[[Any], str] | None = None
    vector: Callable[[Any], Sequence[float] | None] | None = None
    embed: EmbedTexts | None = None
    aembed: AwaitTexts | None = None
    corpus: Corpus | None = None

    def check(self, pipeline: FusionPipeline) -> None:
        """Raise InvalidInputError if the pipeline's selection needs embeddings, and no embeddings are available."""
        policy = pipeline.selection
        if policy is not None and policy.needs_embeddings and self.embed is None and self.vector is None:
            raise InvalidInputError(
                f"selection by {policy.method} needs embeddings of the candidates, and no source has an embedding "
                "model: use a vector store that has an embedding model, or a selection that needs no embeddings"
            )

    def carried(self, ids: Sequence[str], rankings: Sequence[Ranking]) -> list[Any] | None:
        """Return the embeddings stored in the hits; None if an embedding is missing, or the dimensions differ."""
        if self.vector is None:
            return None
        found = []
        for identifier in ids:
            vectors = (self.vector(one.payloads[identifier]) for one in rankings if identifier in one.payloads)
            found.append(next((vector for vector in vectors if vector is not None and len(vector)), None))
        known = [len(vector) for vector in found if vector is not None]
        return found if len(known) == len(ids) and len(set(known)) == 1 else None

    def texts(self, ids: Sequence[str], rankings: Sequence[Ranking]) -> list[str]:
        """Return the text to embed for each candidate, from the first source with a text; "" if no source has one."""
        read, found = self.to_embed or self.text, []
        for identifier in ids:
            texts = (read(one.payloads[identifier]) for one in rankings if identifier in one.payloads)
            found.append(next(filter(None, texts), ""))
        return found

    def context(self, query: str, read: Sequence[Ranking] | None = None) -> Context:
        """Return the data for priors and selection: the query, the current time, and functions that read the hits.

        With rankings to `read`, the data include the query's words that the texts of their hits contain.
        """
        words = None if read is None else self.words(query, read)
        return Context(query=query, now=time.time(), metadata_of=self.metadata, text_of=self.text, words=words)

    def words(self, query: str, rankings: Sequence[Ranking]) -> HitWords:
        """Find the query's words in the texts and titles of the hits."""
        hits: list[Callable[[str], Any]] = [one.payloads.get for one in rankings]

        def read(identifier: str) -> tuple[str, object]:
            """Return the text and the title of a hit, from the first source that has its text."""
            go_on()
            for hit_of in hits:
                hit = hit_of(identifier)
                if hit is not None and (held := self.text(hit)):
                    return held, self.metadata(hit).get("title")
            return "", None

        def text(identifier: str) -> str:
            held, title = read(identifier)
            held = held[:LONGEST_TEXT]
            named = held and isinstance(title, str) and not held.startswith(f"{title}\n")
            return f"{title}\n{held}" if named else held

        return read_hits(query, rankings, text, self._counted(read))

    def _counted(self, read: Callable[[str], tuple[str, object]]) -> CountedTexts | None:
        """Return a lookup of the corpus's word counts, for hits with the same text and title as a corpus passage.

        ``read(id)`` returns the text and the title of a hit. With the lookup, the texts of these hits need not be split
        into words again. Return None if there is no corpus, its files are damaged, or it has no word counts.
        """
        if self.corpus is None:
            return None
        index = self.corpus.seen.index  # read once, because another thread may add or delete passages
        records, graph = index.records, index.graph.view
        lexical = graph.lexical
        try:
            graph.check_files()
        except IntegrityError:  # the source of this corpus reports it
            return None

        def row_of(identifier: str) -> int:
            record, (held, title) = records.get(identifier), read(identifier)
            if record is None or len(held) > LONGEST_TEXT or record.text != held:
                return -1
            return graph.passage_rows[identifier] if title == (record.title or None) else -1

        return CountedTexts(lexical, row_of) if isinstance(lexical, LexicalIndex | ChangedWords) else None

    def vectors(self, ids: Sequence[str], rankings: Sequence[Ranking]) -> ArrayLike:
        """Return the embeddings of the n candidates, from the hits or from the model, as an array of shape (n, d).

        Raise InvalidInputError if some hits have no embedding and there is no model.
        """
        carried = self.carried(ids, rankings)
        if carried is not None:
            return carried
        if self.embed is None:
            raise InvalidInputError(
                "selection needs embeddings: no source has an embedding model, and some hits have no embedding: use a "
                "vector store that has an embedding model, or a selection that needs no embeddings"
            )
        return self.embed(self.texts(ids, rankings))

    async def avectors(self, ids: Sequence[str], rankings: Sequence[Ranking], deadline: Deadline) -> ArrayLike:
        """Return the same embeddings as :meth:`vectors` without blocking the event loop.

        Raise Late at the deadline. An error of the model is raised unchanged, also a TimeoutError.
        """
        if self.embed is None or self.carried(ids, rankings) is not None:
            return self.vectors(ids, rankings)
        texts = self.texts(ids, rankings)
        made = in_thread(self.embed, texts) if self.aembed is None else self.aembed(texts)
        try:
            [(vectors, error)] = await deadline.clock.wait_for(await_all([made]), deadline.due)
        except TimeoutError:
            raise Late from None
        if error is not None:
            raise error
        found: ArrayLike = vectors
        return found
