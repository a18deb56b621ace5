"""LlamaIndex's knowledge-graph retrievers over the slice and its triples."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from llama_index.core import PropertyGraphIndex, StorageContext
from llama_index.core.graph_stores import SimpleGraphStore, SimplePropertyGraphStore
from llama_index.core.graph_stores.types import KG_NODES_KEY, KG_RELATIONS_KEY, EntityNode, Relation
from llama_index.core.indices.property_graph import (
    CustomPGRetriever,
    CypherTemplateRetriever,
    LLMSynonymRetriever,
    PGRetriever,
    VectorContextRetriever,
)
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.retrievers import KnowledgeGraphRAGRetriever
from llama_index.core.schema import NodeWithScore, TransformComponent
from matrix_rows import Graph
from matrix_servers import Servers, need
from matrix_slice import LlamaIndexVectors, Slice, real_slice
from pydantic import BaseModel

CHUNKS_OF = (
    "MATCH (c:Chunk)-[:MENTIONS]->(e:__Entity__) WHERE e.name IN $names RETURN c.id AS id, c.text AS text, "
    "count(*) AS hits ORDER BY hits DESC, id LIMIT 20"
)


def named(name: str) -> str:
    """An entity's name as LlamaIndex's synonym retriever looks for it."""
    return name.strip().replace('"', " ").capitalize()


def names_in(text: str) -> list[str]:
    """Entities of the slice that a text names."""
    lowered = text.lower()
    known = {named(end) for rows in real_slice().triples.values() for s, _, o in rows for end in (s, o)}
    return sorted(one for one in known if len(one) > 3 and one.lower() in lowered)


class Names(CustomLLM):
    """A model that finds the names of known entities in its prompt."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text="^".join(names_in(prompt)))

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        yield self.complete(prompt)

    def structured_predict(self, output_cls: Any, prompt: Any, *given: Any, **kwargs: Any) -> Any:
        return output_cls(names=names_in(prompt.template))


class Entities(BaseModel):
    """Parameters of the Cypher template."""

    names: list[str]


class Bundled(TransformComponent):
    """Extracts the first bundled triples of a passage."""

    most: int

    def __call__(self, nodes: Any, **kwargs: Any) -> Any:
        for node in nodes:
            rows = real_slice().triples.get(node.node_id, [])[: self.most]
            facts = [(named(s), p or "related", named(o)) for s, p, o in rows]
            node.metadata[KG_NODES_KEY] = [EntityNode(name=name) for s, _, o in facts for name in (s, o)]
            node.metadata[KG_RELATIONS_KEY] = [
                Relation(label=p, source_id=EntityNode(name=s).id, target_id=EntityNode(name=o).id) for s, p, o in facts
            ]
        return nodes


def property_graph(store: Any, data: Slice, most: int) -> PropertyGraphIndex:
    """A property graph that the framework itself builds, of so many triples per passage."""
    nodes = data.nodes()
    for node in nodes:
        node.embedding = None
        node.metadata = {"title": node.metadata["title"]}
    return PropertyGraphIndex(
        nodes,
        kg_extractors=[Bundled(most=most)],
        property_graph_store=store,
        embed_model=LlamaIndexVectors(),
        llm=Names(),
        use_async=False,
        embed_kg_nodes=True,
    )


def in_memory_graph(data: Slice) -> tuple[PropertyGraphIndex, Callable[[], object]]:
    return property_graph(SimplePropertyGraphStore(), data, 100), lambda: None


def neo4j_graph(data: Slice, servers: Servers) -> tuple[PropertyGraphIndex, Callable[[], object]]:
    """On the server; the framework sends every relation by itself, so only a few of each passage."""
    need("llama_index.graph_stores.neo4j")
    from llama_index.graph_stores.neo4j import Neo4jPropertyGraphStore

    uri, user, password = servers.neo4j
    store = Neo4jPropertyGraphStore(username=user, password=password, url=uri, refresh_schema=False)

    def close() -> None:
        store.structured_query("MATCH (n:__Node__) DETACH DELETE n")
        store.close()

    return property_graph(store, data, 3), close


def sub_retriever(kind: str, where: str, text: bool, data: Slice, servers: Servers) -> Graph:
    """One of the property graph's own retrievers."""
    make = partial(neo4j_graph, data, servers) if where == "Neo4j" else partial(in_memory_graph, data)
    index = servers.shared(where, make)
    store = index.property_graph_store
    options: dict[str, Any] = {"include_text": text, "path_depth": 1}
    made: Any
    if kind == "vector":
        made = VectorContextRetriever(
            store, vector_store=index.vector_store, embed_model=index._embed_model, similarity_top_k=5, **options
        )
    elif kind == "synonym":
        made = LLMSynonymRetriever(store, llm=Names(), **options)
    else:
        made = CypherTemplateRetriever(store, Entities, CHUNKS_OF, llm=Names())
    return Graph(made)


class Nearest(CustomPGRetriever):
    """A retriever of one's own, which returns the passages nearest to the query."""

    def init(self, data: Slice, **kwargs: Any) -> None:
        self.data = data

    def custom_retrieve(self, query_str: str) -> list[NodeWithScore]:
        cosines = self.data.vectors @ np.array(LlamaIndexVectors().get_query_embedding(query_str))
        nodes = self.data.nodes()
        return [NodeWithScore(node=nodes[row], score=float(cosines[row])) for row in np.argsort(-cosines)[:20].tolist()]


def custom(together: bool, data: Slice, servers: Servers) -> Graph:
    """A custom retriever, by itself or beside one of the framework's in a PGRetriever."""
    own = Nearest(SimplePropertyGraphStore(), data=data)
    if not together:
        return Graph(own)
    words = sub_retriever("synonym", "SimplePropertyGraphStore", False, data, servers).given
    return Graph(PGRetriever([own, words], use_async=False))


def knowledge_graph_rag(data: Slice, servers: Servers) -> Graph:
    store = SimpleGraphStore()
    for rows in data.triples.values():
        for subject, predicate, target in rows:
            store.upsert_triplet(named(subject), predicate, named(target))
    retriever = KnowledgeGraphRAGRetriever(
        storage_context=StorageContext.from_defaults(graph_store=store),
        llm=Names(),
        entity_extract_fn=names_in,
        synonym_expand_fn=lambda text: [],
    )
    retriever._entity_extract_template = retriever._synonym_expand_template = None  # they look for word lists online
    return Graph(retriever)
