"""Functions and classes that the LangChain and LlamaIndex integrations use; they are not a public interface.

A framework's retriever converts its arguments to :class:`SourceSpec` objects and a :class:`FusionEngine`. For each
call, it binds its sources to the query, and converts each :class:`SelectedHit` of the answer to a document or node.
"""

from phasegraph._support.progress import with_progress
from phasegraph._support.question_vector import aquestion_vector, question_vector
from phasegraph._support.recent import Recent
from phasegraph._support.renamed import accepts_old_names, new_name, old_names, renamed_arguments
from phasegraph._support.validation import LONGEST_QUERY, check_count, check_query, known_arguments, unexpected_argument
from phasegraph.embedding.identity import EmbeddingModel
from phasegraph.errors import warn
from phasegraph.retrieval.access import HitAccess
from phasegraph.retrieval.answer import SelectedHit, warn_without_text
from phasegraph.retrieval.attempts import Attempts
from phasegraph.retrieval.by_document import Content, Described
from phasegraph.retrieval.directions import known_direction, postgres_search
from phasegraph.retrieval.driver import Sources
from phasegraph.retrieval.engine import Accept, FusionEngine
from phasegraph.retrieval.faiss_rows import SelectedIndex
from phasegraph.retrieval.filters import note_dropped
from phasegraph.retrieval.framework import Framework, HitLookup
from phasegraph.retrieval.graph_search import GraphSearch
from phasegraph.retrieval.identity import corpus_ids, is_text_id, resolve_id
from phasegraph.retrieval.indexing import Indexing
from phasegraph.retrieval.joining import named_by_text
from phasegraph.retrieval.kept import KeptPassages
from phasegraph.retrieval.lists import ListFuser, list_pipeline
from phasegraph.retrieval.nearest import Nearest
from phasegraph.retrieval.once import Once
from phasegraph.retrieval.over_corpus import FusedPassages, GraphPassages, build_corpus
from phasegraph.retrieval.payloads import Payloads, with_hits
from phasegraph.retrieval.plain_hits import adapted, are_scored, head_and_score, plain_hit
from phasegraph.retrieval.provenance import (
    EvidenceBlock,
    evidence_blocks,
    is_taken,
    lacks_score,
    walk_block,
)
from phasegraph.retrieval.reading import (
    HitReader,
    answer_items,
    is_number,
    limited,
    parameters_of,
    with_passages,
)
from phasegraph.retrieval.representation import shown
from phasegraph.retrieval.source_config import PIPELINE, dphf
from phasegraph.retrieval.source_spec import Execution, HitFields, SourceSpec, as_specs, describe_type
from phasegraph.retrieval.stages.cached_models import ModelAnswers
from phasegraph.retrieval.stages.corrective import Corrective
from phasegraph.retrieval.stages.models import ModelFunction, Passage
from phasegraph.retrieval.stages.reranking import Rerank, read_kept
from phasegraph.retrieval.stages.rewriting import hyde, modality_hyde, multi_query, step_back
from phasegraph.retrieval.stages.rewritten_query import RewrittenQuery
from phasegraph.retrieval.stages.routing import (
    chat_router,
    compositional_router,
    fit_entropy_gates,
    keyword_router,
    neighbour_entropy,
    neighbour_entropy_router,
    oracle_router,
)
from phasegraph.retrieval.stages.settings import StageAdapter
from phasegraph.retrieval.surface import Calibrating, ResultCallback, version_attribute
from phasegraph.retrieval.wrapped import SourceCall, WrappedSource
from phasegraph.selection import SelectionPolicy
from phasegraph.sources.protocol import (
    AnySource,
    FilterRefusedError,
    MalformedAnswerError,
    Upstream,
    as_ranking,
)
from phasegraph.sources.settings import CALL_TIMEOUT
from phasegraph.sources.source_task import asearch_of, search_of
from phasegraph.sources.workers import await_on, caller_loop, in_thread, turn

__all__ = [
    "CALL_TIMEOUT",
    "LONGEST_QUERY",
    "PIPELINE",
    "Accept",
    "AnySource",
    "Attempts",
    "Calibrating",
    "Content",
    "Corrective",
    "Described",
    "EmbeddingModel",
    "EvidenceBlock",
    "Execution",
    "FilterRefusedError",
    "Framework",
    "FusedPassages",
    "FusionEngine",
    "GraphPassages",
    "GraphSearch",
    "HitAccess",
    "HitFields",
    "HitLookup",
    "HitReader",
    "Indexing",
    "KeptPassages",
    "ListFuser",
    "MalformedAnswerError",
    "ModelAnswers",
    "ModelFunction",
    "Nearest",
    "Once",
    "Passage",
    "Payloads",
    "Recent",
    "Rerank",
    "ResultCallback",
    "RewrittenQuery",
    "SelectedHit",
    "SelectedIndex",
    "SelectionPolicy",
    "SourceCall",
    "SourceSpec",
    "Sources",
    "StageAdapter",
    "Upstream",
    "WrappedSource",
    "accepts_old_names",
    "adapted",
    "answer_items",
    "aquestion_vector",
    "are_scored",
    "as_ranking",
    "as_specs",
    "asearch_of",
    "await_on",
    "build_corpus",
    "caller_loop",
    "chat_router",
    "check_count",
    "check_query",
    "compositional_router",
    "corpus_ids",
    "describe_type",
    "dphf",
    "evidence_blocks",
    "fit_entropy_gates",
    "head_and_score",
    "hyde",
    "in_thread",
    "is_number",
    "is_taken",
    "is_text_id",
    "keyword_router",
    "known_arguments",
    "known_direction",
    "lacks_score",
    "limited",
    "list_pipeline",
    "modality_hyde",
    "multi_query",
    "named_by_text",
    "neighbour_entropy",
    "neighbour_entropy_router",
    "new_name",
    "note_dropped",
    "old_names",
    "oracle_router",
    "parameters_of",
    "plain_hit",
    "postgres_search",
    "question_vector",
    "read_kept",
    "renamed_arguments",
    "resolve_id",
    "search_of",
    "shown",
    "step_back",
    "turn",
    "unexpected_argument",
    "version_attribute",
    "walk_block",
    "warn",
    "warn_without_text",
    "with_hits",
    "with_passages",
    "with_progress",
]
