"""Every surface of a retriever that carries ids, texts or counts. What is new here fails a test until it is listed.

`LISTED` says, per class or kind, which surface shows each of its parts; each surface in `SURFACES` has a test with two
tenants in ``test_surfaces.py``, in both frameworks, in memory and on Neo4j.
"""

from __future__ import annotations

from collections.abc import Mapping

SURFACES: Mapping[str, str] = {
    "hits": "documents and nodes: id, text, metadata, scores",
    "evidence": "why a hit stands where it stands: under metadata_key, by Result.evidence, paths of a walk",
    "candidates": "what was decided upon: every source's ranking, its payloads and what it states of its collection",
    "reports": "reports of sources: status, reason, counts, notes",
    "verdicts": "warnings, reasons, agreement and confidence of a Result",
    "warnings": "Python warnings",
    "logs": "records of any logger",
    "exceptions": "messages, notes, causes and tracebacks of what is raised",
    "hooks": "what on_result is given",
    "traces": "callbacks of LangChain; events, spans and callback payloads of LlamaIndex",
    "spans": "OpenTelemetry spans of results",
    "reprs": "repr and str of retrievers, results and reports",
    "pickles": "the bytes of a pickled Result, which hold whatever can be reached from it",
    "files": "the file that save writes after calibrating",
    "caches": "the answer to one tenant after another one asked the same of the same retriever",
}

SETTING, TENANT = "a setting", "what tells tenants apart"
OPERATOR = "the whole corpus, for its owner: builds, changes, opens or keeps it"
INSIDE = "numbers and rows of what it is handed: it shows nothing itself"
SERVED = "what a folder's server answers, which tests/serving tests with two tenants"
NEITHER = (SETTING, TENANT, OPERATOR, INSIDE, SERVED)

LISTED: Mapping[str, Mapping[str, str]] = {
    "Result": {
        **dict.fromkeys(("ids", "scores", "fused", "contributions", "calibrated", "weights", "bonuses"), "evidence"),
        **dict.fromkeys(("priors", "rows", "accepted", "extras"), "pickles"),
        **dict.fromkeys(
            ("agreement", "degraded", "reason", "warnings", "confidence_evidence", "confidence"), "verdicts"
        ),
        **dict.fromkeys(("entropies", "evidence"), "evidence"),
        "candidates": "candidates",
        "reports": "reports",
    },
    "Ranking": {
        **dict.fromkeys(("ids", "scores", "raw", "payloads", "size", "background", "reason", "dropped"), "candidates"),
        **dict.fromkeys(("words", "positions", "row_of"), "pickles"),
        **dict.fromkeys(("source", "rank_only", "distances", "from_hits", "without"), SETTING),
    },
    "Candidates": {
        **dict.fromkeys(("ids", "rankings", "positions", "returned", "scores", "spread"), "candidates"),
        "sources": SETTING,
    },
    "SourceReport": {
        **dict.fromkeys(
            (
                "status",
                "reason",
                "error_class",
                "milliseconds",
                "hits",
                "dropped",
                "notes",
                "calibration",
                "out_of_range_share",
                "answered",
                "calibrated",
                "degraded",
                "drifted",
                "missing",
            ),
            "reports",
        ),
        **dict.fromkeys(("source", "of"), SETTING),
    },
    "Evidence": dict.fromkeys(
        (
            "id",
            "position",
            "score",
            "fused",
            "bonus",
            "prior",
            "sources",
            "energy",
            "entropy",
            "set_entropy",
        ),
        "evidence",
    ),
    "SourceEvidence": {
        **dict.fromkeys(("rank", "raw", "score", "calibrated", "weight", "contribution", "payload"), "evidence"),
        "source": SETTING,
    },
    "the walk's evidence": dict.fromkeys(("path", "seeds", "words"), "evidence"),
    "methods of retrievers": {
        **dict.fromkeys(("explain", "aexplain"), "candidates"),
        **dict.fromkeys(("calibrate", "acalibrate", "fitted_pipeline", "save", "load_pipeline"), "files"),
        **dict.fromkeys(("whole_filter", "whole_filters", "within"), TENANT),
        **dict.fromkeys(("exchange", "for_call"), "hits"),
        **dict.fromkeys(
            (
                "add_documents",
                "aadd_documents",
                "add_nodes",
                "aadd_nodes",
                "delete",
                "adelete",
                "load",
                "kept_ids",
                "from_documents",
                "from_vectorstore",
                "from_nodes",
                "from_index",
                "from_neo4j",
                "lookup",
                "look_up",
                "graph",
            ),
            OPERATOR,
        ),
        **dict.fromkeys(("depends_on", "k", "similarity_top_k", "walks"), SETTING),
    },
    "arguments of retrievers": {
        "on_result": "hooks",
        "metadata_key": "evidence",
        "score_key": "hits",
        "callback_manager": "traces",
        **dict.fromkeys(("filter", "filters", "require_filter"), TENANT),
        **dict.fromkeys(("vector", "graph", "retrievers", "documents", "nodes", "seeds"), "hits"),
        **dict.fromkeys(("object_map", "objects"), "hits"),
        **dict.fromkeys(("embeddings", "embed_model", "pipeline"), OPERATOR),
        **dict.fromkeys(
            (
                "name",
                "tags",
                "metadata",
                "k",
                "similarity_top_k",
                "weights",
                "accept",
                "selection",
                "limit",
                "timeout",
                "max_query_length",
                "strict",
                "verbose",
                "unknown",
            ),
            SETTING,
        ),
    },
    "modules and rooms": {
        **dict.fromkeys(
            (
                "phasegraph/acceptance",
                "phasegraph/calibration",
                "phasegraph/confidence",
                "phasegraph/fusion",
                "phasegraph/lexical",
                "phasegraph/priors",
                "phasegraph/rescoring",
                "phasegraph/selection",
                "phasegraph/graph",
                "phasegraph/retrieval/nearest",
                "phasegraph/retrieval/faiss_rows",
                "phasegraph/retrieval/plain_hits",
                "phasegraph/retrieval/source_config",
                "phasegraph/retrieval/stages",
                "phasegraph/sources/settings",
                "phasegraph/sources/workers",
                "phasegraph/sources/protocol",
            ),
            INSIDE,
        ),
        **dict.fromkeys(
            (
                "phasegraph/cli",
                "phasegraph/evaluation",
                "phasegraph/tuning",
                "phasegraph/testing",
                "langchain_phasegraph/contents",
                "langchain_phasegraph/corpus",
                "langchain_phasegraph/llm",
                "llama_index/retrievers/phasegraph/corpus",
                "llama_index/retrievers/phasegraph/property_graph",
            ),
            OPERATOR,
        ),
        **dict.fromkeys(("phasegraph/neo4j", "phasegraph/sources/gatherer", "phasegraph/ranking"), "candidates"),
        **dict.fromkeys(("phasegraph/result", "phasegraph/retrieval/provenance"), "evidence"),
        **dict.fromkeys(("phasegraph/pipeline", "phasegraph/serialization"), "files"),
        **dict.fromkeys(("phasegraph/retrieval/kept", "phasegraph/retrieval/recent"), "caches"),
        **dict.fromkeys(
            ("phasegraph/retrieval/deletions", "phasegraph/retrieval/identity", "phasegraph/retrieval/reading"),
            "reports",
        ),
        "phasegraph/errors": "exceptions",
        "phasegraph/retrieval/engine": "hooks",
        "phasegraph/tracing": "spans",
        "phasegraph/serving": SERVED,
        **dict.fromkeys(
            (
                "langchain_phasegraph/base",
                "langchain_phasegraph/retriever",
                "langchain_phasegraph/entity_graph",
                "langchain_phasegraph/lists",
                "langchain_phasegraph/sources",
                "langchain_phasegraph/conversion",
                "llama_index/retrievers/phasegraph/base",
                "llama_index/retrievers/phasegraph/entity_graph",
                "llama_index/retrievers/phasegraph/retriever_sources",
                "llama_index/retrievers/phasegraph/conversion",
                "llama_index/retrievers/phasegraph/postprocessor",
            ),
            "hits",
        ),
        **dict.fromkeys(("langchain_phasegraph/filters", "llama_index/retrievers/phasegraph/filters"), TENANT),
    },
    # Modules, by what they do with what they see of a call; `test_surfaces.py` reads the sources.
    "modules that warn": dict.fromkeys(
        (
            "phasegraph/_files",
            "phasegraph/errors",
            "langchain_phasegraph/conversion",
            "langchain_phasegraph/entity_graph",
            "llama_index/retrievers/phasegraph/conversion",
            "llama_index/retrievers/phasegraph/entity_graph",
            "phasegraph/retrieval/deletions",
            "phasegraph/retrieval/engine",
            "phasegraph/retrieval/identity",
            "phasegraph/retrieval/reading",
            "phasegraph/retrieval/source_config",
            "phasegraph/sources/gatherer",
            "phasegraph/graph/chroma",
            "phasegraph/graph/corpus",
            "phasegraph/pipeline",
            "phasegraph/acceptance/drift",
        ),
        "warnings",
    ),
    "modules that log": dict.fromkeys(("phasegraph/errors", "phasegraph/sources/workers"), "logs"),
    "modules that note": dict.fromkeys(
        (
            "llama_index/retrievers/phasegraph/retriever_sources",
            "phasegraph/retrieval/deletions",
            "phasegraph/retrieval/identity",
            "phasegraph/retrieval/reading",
        ),
        "reports",
    ),
    "modules that remember calls": dict.fromkeys(
        (
            "langchain_phasegraph/entity_graph",
            "langchain_phasegraph/filters",
            "llama_index/retrievers/phasegraph/entity_graph",
            "llama_index/retrievers/phasegraph/filters",
            "llama_index/retrievers/phasegraph/retriever_sources",
            "phasegraph/graph/source",
            "phasegraph/retrieval/kept",
            "phasegraph/sources/gatherer",
            "phasegraph/neo4j/source",
            "phasegraph/retrieval/recent",
            "phasegraph/neo4j/connection",
        ),
        "caches",
    ),
}
