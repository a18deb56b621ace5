"""What both integrations stand on, and their only private contract with the core.

A retriever of a framework makes :class:`SourceSpec` of its arguments, a :class:`FusionEngine` of those, binds its
sources to each call, and turns the :class:`SelectedHit` of the answer into documents or nodes.
"""

from phasegraph._validation import LONGEST_QUERY, check_count, check_query, known_arguments, unexpected_argument
from phasegraph.errors import warn
from phasegraph.retrieval.engine import (
    Accept,
    Calibrating,
    FirstAnswers,
    FusionEngine,
    ResultCallback,
    SelectedHit,
    Sources,
    decide_lists,
    list_pipeline,
    with_progress,
    without_text,
)
from phasegraph.retrieval.identity import (
    SUMMARY_PREFIX,
    Deletions,
    LookUps,
    Payloads,
    corpus_ids,
    is_text_id,
    named_by_text,
    resolve_id,
)
from phasegraph.retrieval.kept import KeptPassages, Recent, version_of
from phasegraph.retrieval.nearest import Nearest, SelectedIndex
from phasegraph.retrieval.plain_hits import adapted, head_and_score, plain_hit
from phasegraph.retrieval.provenance import EvidenceBlock, evidence_blocks, is_taken, plain_evidence
from phasegraph.retrieval.reading import (
    Direction,
    HitAccess,
    HitReader,
    answer_items,
    completed,
    is_number,
    known_direction,
    limited,
    note_dropped,
    parameters_of,
    with_passages,
    within_filter,
)
from phasegraph.retrieval.rewriting import hyde, modality_hyde, multi_query, step_back
from phasegraph.retrieval.routing import (
    chat_router,
    compositional_router,
    keyword_router,
    neighbour_entropy_router,
    oracle_router,
)
from phasegraph.retrieval.source_config import (
    PIPELINE,
    Execution,
    HitFields,
    SourceSpec,
    as_specs,
    describe_type,
    dphf,
    shown,
)
from phasegraph.retrieval.stages import (
    Corrective,
    Passage,
    Rerank,
    StageAdapter,
)
from phasegraph.selection import SelectionPolicy
from phasegraph.sources.gatherer import asearch_of, search_of
from phasegraph.sources.protocol import (
    AnySource,
    FilterRefusedError,
    MalformedAnswerError,
    Upstream,
    as_ranking,
)
from phasegraph.sources.workers import in_thread, turn

__all__ = [
    "LONGEST_QUERY",
    "PIPELINE",
    "SUMMARY_PREFIX",
    "Accept",
    "AnySource",
    "Calibrating",
    "Corrective",
    "Deletions",
    "Direction",
    "EvidenceBlock",
    "Execution",
    "FilterRefusedError",
    "FirstAnswers",
    "FusionEngine",
    "HitAccess",
    "HitFields",
    "HitReader",
    "KeptPassages",
    "LookUps",
    "MalformedAnswerError",
    "Nearest",
    "Passage",
    "Payloads",
    "Recent",
    "Rerank",
    "ResultCallback",
    "SelectedHit",
    "SelectedIndex",
    "SelectionPolicy",
    "SourceSpec",
    "Sources",
    "StageAdapter",
    "Upstream",
    "adapted",
    "answer_items",
    "as_ranking",
    "as_specs",
    "asearch_of",
    "chat_router",
    "check_count",
    "check_query",
    "completed",
    "compositional_router",
    "corpus_ids",
    "decide_lists",
    "describe_type",
    "dphf",
    "evidence_blocks",
    "head_and_score",
    "hyde",
    "in_thread",
    "is_number",
    "is_taken",
    "is_text_id",
    "keyword_router",
    "known_arguments",
    "known_direction",
    "limited",
    "list_pipeline",
    "modality_hyde",
    "multi_query",
    "named_by_text",
    "neighbour_entropy_router",
    "note_dropped",
    "oracle_router",
    "parameters_of",
    "plain_evidence",
    "plain_hit",
    "resolve_id",
    "search_of",
    "shown",
    "step_back",
    "turn",
    "unexpected_argument",
    "version_of",
    "warn",
    "with_passages",
    "with_progress",
    "within_filter",
    "without_text",
]
