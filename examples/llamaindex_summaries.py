"""Use a summary tree and a fact filter in LlamaIndex, without data or a server. The model has a fixed answer.

Run: pip install llama-index-retrievers-phasegraph 'phasegraph[summaries]'; python llamaindex_summaries.py
"""

from zlib import crc32

from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.schema import TextNode

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever, text_model
from phasegraph.graph import (
    ClusterSettings,
    Extraction,
    FactIndex,
    GraphSource,
    SummaryTree,
    filter_facts_with,
    graph_from_extractions,
)

TOWNS = ["Bergen", "Turku", "Riga", "Lund", "Visby", "Tromso"]
PASSAGES = {f"{what} {town}": f"The {what} of {town}. A {what} is {use}." for town in TOWNS
            for what, use in (("harbour", "where ships lie"), ("mill", "where corn is ground"))}  # fmt: skip


class Words(BaseEmbedding):
    """A stand-in for an embedding model, which counts words; replace it by your own embedding model."""

    def _get_text_embedding(self, text):
        vector = [0.0] * 64
        for word in text.lower().replace(".", " ").replace("?", " ").split():
            vector[crc32(word.encode()) % 64] += 1.0
        return vector

    def _get_query_embedding(self, query):
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query):
        return self._get_text_embedding(query)


class First(CustomLLM):
    """A stand-in for a language model, which chooses the first fact; replace it by your own model."""

    @property
    def metadata(self):
        return LLMMetadata()

    def complete(self, prompt, formatted=False, **kwargs):
        return CompletionResponse(text='{"facts": [1]}')

    def stream_complete(self, prompt, formatted=False, **kwargs):
        yield self.complete(prompt)


model = Words()
nodes = [TextNode(text=text, id_=name) for name, text in PASSAGES.items()]
vectors = model.get_text_embedding_batch(list(PASSAGES.values()))
passages = [{"id": name, "text": text} for name, text in PASSAGES.items()]

tree = SummaryTree.build(passages, vectors, clusters=ClusterSettings(reducer="pca"))
for one in tree.summaries:
    print(f"level {one.level}, {len(one.passages)} passages: {one.text[:48]}…")

# With resolve="summaries", the retriever returns summaries as hits, next to the passages of the index.
index = VectorStoreIndex(nodes, embed_model=model)
source = tree.source(model.get_query_embedding, resolve="summaries")
retriever = CalibratedFusionRetriever(retrievers={"vector": index, "summaries": source}, similarity_top_k=4)
for hit in retriever.retrieve("What is a harbour, where ships lie?"):
    print("  ", hit.metadata.get("summary_of", hit.node_id))

# Add a passage to the tree. Only the summary of the passage's group changes.
new = {"id": "mill Oulu", "text": "The mill of Oulu. A mill is where corn is ground."}
grown = tree.add([new], [model.get_text_embedding(new["text"])])
print("summaries kept:", sum(one in tree.summaries for one in grown.summaries), "of", len(grown.summaries))

# With a fact filter, a model chooses the facts at which the walk starts. This stand-in chooses the first fact.
facts = [("Bergen", "has", "harbour"), ("Lund", "has", "mill")]
records = [Extraction(f"{end} {start}", triples=[(start, verb, end)]) for start, verb, end in facts]
graph = graph_from_extractions(list(PASSAGES), records, embeddings=vectors)
known = FactIndex.of_extractions(graph, records, model.get_text_embedding_batch)
keep = filter_facts_with(text_model(First()))
walk = GraphSource(graph, embedder=model.get_query_embedding, facts=known, fact_filter=keep)
found = EntityGraphRetriever(walk, nodes, similarity_top_k=1).retrieve("Which town has a mill?")
print("walked to:", found[0].node_id)
