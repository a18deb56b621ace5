"""Adapt LlamaIndex models, query transforms, postprocessors and selectors to the stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llama_index.core.base.base_selector import BaseSelector, SelectorResult
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.indices.query.query_transform.base import BaseQueryTransform
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools.types import ToolMetadata

from llama_index.retrievers.phasegraph.query_bundles import rewritten_query
from llama_index.retrievers.phasegraph.retriever_traits import awaits
from phasegraph import InvalidInputError, InvalidTypeError, Ranking
from phasegraph.retrieval import ModelFunction, Passage, RewrittenQuery, StageAdapter, read_kept


class _TextModel(ModelFunction):
    """A function from prompt to text that calls a language model."""

    def __init__(self, llm: BaseLLM) -> None:
        order = type(llm).__mro__
        native, plain = (
            next(row for row, kind in enumerate(order) if name in vars(kind)) for name in ("acomplete", "complete")
        )
        super().__init__(llm, awaits=native <= plain)

    def __call__(self, prompt: str) -> str:
        return str(self.model.complete(prompt).text)

    async def _acall(self, prompt: str) -> str:
        return str((await self.model.acomplete(prompt)).text)


def text_model(llm: BaseLLM) -> Callable[[str], str]:
    """Convert a LlamaIndex language model to a function from prompt to text, for the core's extractor.

    Parameters
    ----------
    llm : BaseLLM
        A language model of LlamaIndex.

    Returns
    -------
    callable
        ``prompt -> text``.

    Raises
    ------
    InvalidTypeError
        If `llm` is not a language model.

    Examples
    --------
    >>> from llama_index.core.llms import MockLLM
    >>> text_model(MockLLM())("two words")
    'two words'
    """
    if not isinstance(llm, BaseLLM):
        raise InvalidTypeError(f"llm must be a language model of LlamaIndex; got {type(llm).__name__}")
    return _TextModel(llm)


class TransformStep:
    """A query rewriter that calls a query transform of LlamaIndex.

    If the transform returns texts to embed, the source embeds these texts instead of the query.
    """

    reads_queries = True

    def __init__(self, transform: BaseQueryTransform) -> None:
        self.transform = transform

    def __call__(self, query: str | RewrittenQuery) -> str | RewrittenQuery:
        """Return the transformed query: a text, or a RewrittenQuery if the transform returned texts to embed."""
        given = query.native if isinstance(query, RewrittenQuery) else QueryBundle(query)
        bundle = self.transform.run(given)
        if not isinstance(bundle, QueryBundle):
            raise InvalidTypeError(f"a query transform must return a QueryBundle; got {type(bundle).__name__}")
        return bundle.query_str if bundle.custom_embedding_strs is None else rewritten_query(bundle)


class PostprocessorModel(ModelFunction):
    """A reranker that calls a node postprocessor of LlamaIndex.

    If the scores of the returned nodes descend, the ranking has these scores. Otherwise, the ranking has only the order
    of the returned nodes.
    """

    reads_hits = True

    def __init__(self, model: BaseNodePostprocessor) -> None:
        super().__init__(model, awaits=awaits(model, "_postprocess_nodes", "_apostprocess_nodes"))

    def __call__(self, query: str, passages: Sequence[Passage]) -> Ranking:
        """Return the ranking of the nodes that the postprocessor keeps."""
        return _ranked(passages, self.model.postprocess_nodes(_nodes(passages), QueryBundle(query)))

    async def _acall(self, query: str, passages: Sequence[Passage]) -> Ranking:
        return _ranked(passages, await self.model.apostprocess_nodes(_nodes(passages), QueryBundle(query)))


def _nodes(passages: Sequence[Passage]) -> list[NodeWithScore]:
    """Return a copy of the node of each passage; the copy has the passage's id, and no score."""
    held = [one.hit.node if isinstance(one.hit, NodeWithScore) else one.hit for one in passages]
    return [
        NodeWithScore(node=_copy(one, node if isinstance(node, BaseNode) else None))
        for one, node in zip(passages, held, strict=True)
    ]


def _copy(passage: Passage, node: BaseNode | None) -> TextNode:
    made = TextNode(text=passage.text, id_=passage.id)
    if node is not None:
        made.metadata = dict(node.metadata)
        made.excluded_llm_metadata_keys = sorted(node.metadata)  # the text already contains the embedded metadata
        made.excluded_embed_metadata_keys = sorted(node.metadata)
    return made


def _ranked(passages: Sequence[Passage], kept: Any) -> Ranking:
    known = {one.id for one in passages}

    def read(hit: object) -> tuple[str | None, float | None]:
        if not isinstance(hit, NodeWithScore):
            raise InvalidTypeError(f"a postprocessor must return nodes with scores; got {type(hit).__name__}")
        return hit.node.node_id if hit.node.node_id in known else None, hit.score

    return read_kept(kept, read, model="postprocessor", hits="nodes", identified_by="ids")


class SelectorRouter:
    """A router that lets a LlamaIndex selector choose the sources; :func:`selector_router` creates it."""

    def __init__(self, selector: BaseSelector, descriptions: Mapping[str, str]) -> None:
        if not isinstance(selector, BaseSelector):
            raise InvalidTypeError(f"selector must be a selector of LlamaIndex; got {type(selector).__name__}")
        if not isinstance(descriptions, Mapping) or not descriptions:
            raise InvalidInputError("descriptions is empty: describe at least one source")
        self.selector, self.descriptions = selector, dict(descriptions)
        self._choices = [ToolMetadata(description=said, name=name) for name, said in descriptions.items()]

    def __call__(self, query: str) -> list[str]:
        """Return the names of the sources that the selector chose."""
        return self._named(self.selector.select(self._choices, str(query)))

    async def acall(self, query: str) -> list[str]:
        """Return the names of the sources that the selector chose, asynchronously."""
        return self._named(await self.selector.aselect(self._choices, str(query)))

    def _named(self, chosen: SelectorResult) -> list[str]:
        names = list(self.descriptions)
        found = [one.index for one in chosen.selections]
        if any(not 0 <= row < len(names) for row in found):
            raise InvalidInputError(f"a selector must choose positions 0 to {len(names) - 1}; got {found}")
        return [names[row] for row in dict.fromkeys(found)]


def selector_router(selector: BaseSelector, descriptions: Mapping[str, str]) -> Callable[[str], list[str]]:
    """Create a router that lets a LlamaIndex selector choose the sources, usually with one model call per query.

    Parameters
    ----------
    selector : BaseSelector
        For example ``LLMSingleSelector``, ``LLMMultiSelector`` or ``EmbeddingSingleSelector``.
    descriptions : mapping of str to str
        A description of the contents of each source, by source name.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an argument has a wrong type or is empty.
    """
    return SelectorRouter(selector, descriptions)


class LlamaIndexStages(StageAdapter):
    """Conversion of LlamaIndex objects for the stages: models, query transforms, postprocessors and selectors."""

    def is_model(self, given: Any) -> bool:
        """Return True if the argument is a language model, or None.

        None takes the place of the model in an offline replay, which uses only cached answers.
        """
        return given is None or isinstance(given, BaseLLM)

    def text_model(self, given: Any) -> Any:
        """Convert a language model to a function from prompt to text."""
        return text_model(given)

    def other(self, given: Any, names: tuple[str, ...]) -> Any:
        """Convert a query transform to a function that rewrites a query; other objects are returned unchanged."""
        return TransformStep(given) if isinstance(given, BaseQueryTransform) else given

    def reranker(self, given: Any) -> Any:
        """Convert a node postprocessor, or an argument that the base class accepts, to a reranker."""
        if isinstance(given, SimilarityPostprocessor):
            raise InvalidInputError(
                "rerank must order passages, but a SimilarityPostprocessor drops passages by their scores: give "
                "accept= for a threshold, or give the postprocessor to the query engine"
            )
        return PostprocessorModel(given) if isinstance(given, BaseNodePostprocessor) else super().reranker(given)

    def router(self, given: Any) -> Any:
        """Convert a selector, or an argument that the base class accepts, to a router over the source names."""
        if isinstance(given, BaseSelector):
            return SelectorRouter(given, {name: name for name in self.names})
        return super().router(given)
