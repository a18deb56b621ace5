"""An entity graph of passages, and sources that rank passages by personalized PageRank on this graph.

Imports of the form ``name as name`` are for the framework integrations, which import from this module only.
"""

from phasegraph.graph.chunk_graph import ChunkGraph, ChunkGraphSource, build_chunk_graph
from phasegraph.graph.corpus.chroma import ChromaVectors as ChromaVectors
from phasegraph.graph.corpus.chroma import check_store as check_store
from phasegraph.graph.corpus.chroma import open_folder as open_folder
from phasegraph.graph.corpus.corpus import Corpus as Corpus
from phasegraph.graph.corpus.corpus import sample_corpus as sample_corpus
from phasegraph.graph.corpus.document_table import DocumentTable as DocumentTable
from phasegraph.graph.corpus.folder import check_new as check_new
from phasegraph.graph.corpus.lookup import CorpusLookup as CorpusLookup
from phasegraph.graph.corpus.near_duplicates import NearDuplicates as NearDuplicates
from phasegraph.graph.corpus.near_duplicates import near_duplicates as near_duplicates
from phasegraph.graph.corpus.passage_input import Keys as Keys
from phasegraph.graph.corpus.passage_input import check_passages as check_passages
from phasegraph.graph.corpus.passage_input import check_source_key as check_source_key
from phasegraph.graph.corpus.passage_input import fields_of as fields_of
from phasegraph.graph.corpus.passage_input import metadata_hint as metadata_hint
from phasegraph.graph.experimental.llm_extraction import ModelSettings, extract_with_model
from phasegraph.graph.experimental.semflow import FlowParameters, SemFlowSource
from phasegraph.graph.flat import LexicalSource, VectorSource
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.graph.index.records import PassageRecord as PassageRecord
from phasegraph.graph.index.records import check_plain as check_plain
from phasegraph.graph.model.building import Triples as Triples
from phasegraph.graph.model.building import build_graph, read_openie
from phasegraph.graph.model.building import check_title_key as check_title_key
from phasegraph.graph.model.building import graph_of_documents as graph_of_documents
from phasegraph.graph.model.entity_graph import EdgeWeights, EntityGraph, Extraction, graph_from_extractions
from phasegraph.graph.model.entity_graph import check_kind as check_kind
from phasegraph.graph.model.rules import RuleExtractor
from phasegraph.graph.model.storage import load_graph, save_graph
from phasegraph.graph.model.synonyms import NameSynonyms
from phasegraph.graph.model.words import Gazetteer
from phasegraph.graph.model.words import normalise_name as normalise_name
from phasegraph.graph.summaries.clusters import ClusterSettings
from phasegraph.graph.summaries.models import filter_facts_with, summarise_with
from phasegraph.graph.summaries.tree import Summary, SummarySource, SummaryTree, extractive
from phasegraph.graph.summaries.tree import summaries_in as summaries_in
from phasegraph.graph.walk.fact_filter import FactFilter
from phasegraph.graph.walk.facts import FactIndex
from phasegraph.graph.walk.restricting import passage_ids as passage_ids
from phasegraph.graph.walk.settings import LinkSettings, WalkSettings
from phasegraph.graph.walk.source import GraphSource
from phasegraph.graph.walk.walker import not_a_graph as not_a_graph
from phasegraph.graph.walk.walker import prepare as prepare

__all__ = [
    "ChunkGraph",
    "ChunkGraphSource",
    "ClusterSettings",
    "EdgeWeights",
    "EntityGraph",
    "Extraction",
    "FactFilter",
    "FactIndex",
    "FlowParameters",
    "Gazetteer",
    "GraphIndex",
    "GraphSource",
    "LexicalSource",
    "LinkSettings",
    "ModelSettings",
    "NameSynonyms",
    "RuleExtractor",
    "SemFlowSource",
    "Summary",
    "SummarySource",
    "SummaryTree",
    "VectorSource",
    "WalkSettings",
    "build_chunk_graph",
    "build_graph",
    "extract_with_model",
    "extractive",
    "filter_facts_with",
    "graph_from_extractions",
    "load_graph",
    "read_openie",
    "save_graph",
    "summarise_with",
]
