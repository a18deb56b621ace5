"""The registry of quoted figures: for each command, the pages and blocks that quote its result.

To add a figure, write a command that writes JSON, a function from this JSON to Markdown (``tables``), and an entry
here. The page contains ``<!-- figures NAME -->`` and ``<!-- end of figures NAME -->``; the text is put between these
marks. A command that writes whole pages or notebooks names them in `writes`, and needs no function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import guides
import tables
from tables import Found, Render


@dataclass(frozen=True, slots=True)
class Figure:
    """One command, or several commands of one kind, and the places that quote the result.

    Parameters
    ----------
    commands : mapping of str to tuple of str
        Arguments by label; the first argument is a script of the repository or ``phasegraph``. ``{json}`` stands for
        the file of the result, ``{data}`` for the folder of the data sets, and ``{out}`` for the folder of the pages.
        The result of several commands is an object with their labels; one command has its own result.
    starts : tuple of str
        The places where the code that determines the figures starts: files, or ``file:name``.
    data : tuple of str
        The folders that the commands read: ``data/...`` of the repository, or names in the folder of the data sets.
    blocks : mapping of str to (page, function)
        For each block, its page and the function that makes its text from the result.
    writes : tuple of str
        Pages and notebooks that the command writes as a whole.
    keep : callable
        A function that selects the stored part of a command's result.
    results : (file, keys), optional
        The file of the repository in which the command stores its result, and the keys that it may write there.
    quick : bool
        Whether the check runs the command if its data exists; the command then takes only seconds.
    """

    commands: Mapping[str, tuple[str, ...]]
    starts: tuple[str, ...]
    data: tuple[str, ...] = ()
    blocks: Mapping[str, tuple[str, Render]] = field(default_factory=dict)
    writes: tuple[str, ...] = ()
    keep: Callable[[Found], Found] = dict
    results: tuple[str, tuple[str, ...]] | None = None
    quick: bool = False


EVALUATE = "src/phasegraph/apps/cli/commands/evaluate.py"
JSON = ("--json", "{json}")
BUNDLED, MANUAL = "data/musique-openie", "data/postgresql"
ORDINARY = ("perlfaq", "gitdocs", "pycode", "man-fr", "scifact")
REGRETTED = ("hetdocqa", "multihoprag", "musique-openie", "hotpotqa-small", "ordinary/perlfaq", "ordinary/pycode")
SIMPLE = "vector,bm25,rrf-words,relative-words,relative-three,graph,default"
CONFIDENT = ("2wiki-small", "hotpotqa-small", "musique-openie", "hetdocqa", "multihoprag", "2wiki", "musique")
OPEN = ("2wiki", "musique", "hotpotqa-small", "hetdocqa", "multihoprag")
EVERY_OPEN = (*OPEN, "2wiki-small", "musique-2hop", "musique-openie")
SYSTEMS = "vector,bm25,graph,ensemble,fusion-relative,ensemble-three,fusion-relative-three,paper,default,default-three"
NOTEBOOKS = ("examples/langchain_chroma_neo4j.ipynb", "examples/llamaindex_postgres_property_graph.ipynb")
INDEX = "docs/reproduction/README.md"


def _reproduced(
    *pages: str,
    starts: tuple[str, ...],
    data: tuple[str, ...],
    blocks: Mapping[str, tuple[str, Render]] = MappingProxyType({}),
    quick: bool = False,
) -> Figure:
    """Create a figure for pages of tools/reproduce that are made in one run.

    Pages that need no data set use only the repository's data.
    """
    return Figure(
        {"": ("tools/reproduce", "{data}" if data else "data", "--out", "{out}", "--only", *pages)},
        tuple(f"tools/reproduce/{one}" for one in starts),
        data,
        blocks,
        writes=(*(f"docs/reproduction/{page}.md" for page in pages), INDEX),
        results=("docs/reproduction/figures.json", pages),
        quick=quick,
    )


FIGURES: Mapping[str, Figure] = MappingProxyType(
    {
        "demo": Figure(
            {"": ("examples/demo.py", "--picture", "none", "--json", "{json}")},
            ("examples/demo.py",),
            (BUNDLED,),
            {"results-demo": ("docs/research/results.md", tables.demo)},
            keep=tables.brief,
            quick=True,
        ),
        "bundled": Figure(
            {
                kind: ("phasegraph", "evaluate", folder, "--systems", SIMPLE, *JSON)
                for kind, folder in (("multi-hop", BUNDLED), ("manual", MANUAL))
            },
            (EVALUATE,),
            (BUNDLED, MANUAL),
            {"readme": ("README.md", tables.readme), "manual": ("docs/research/results.md", tables.manual)},
            keep=tables.brief,
            quick=True,
        ),
        "example": Figure(
            {"": ("phasegraph", "explain", BUNDLED, "2hop__205146_62031", "--json", "{json}")},
            ("src/phasegraph/apps/cli/commands/explain.py",),
            (BUNDLED,),
            {"example": ("README.md", guides.example)},
            quick=True,
        ),
        "ordinary": Figure(
            {
                name: ("phasegraph", "evaluate", f"{{data}}/ordinary/{name}", "--systems", SIMPLE, *JSON)
                for name in ORDINARY
            },
            (EVALUATE,),
            tuple(f"ordinary/{name}" for name in ORDINARY),
            {"ordinary": ("docs/research/results.md", tables.ordinary), "when": ("README.md", guides.when)},
            keep=tables.brief,
        ),
        "protocol": Figure(
            {
                baseline: ("phasegraph", "evaluate", "{data}/hetdocqa", "--protocol", "hetdocqa", *more, *JSON)
                for baseline, more in (
                    ("vector", ()),
                    ("rrf-three", ("--baseline", "rrf-three", "--systems", ",".join(("rrf-three", *guides.ORDER)))),
                )
            },
            (EVALUATE,),
            ("hetdocqa",),
            {"protocol": ("docs/reference/data-and-measures.md", guides.protocol)},
            keep=guides.of_protocol,
        ),
        "confidence": Figure(
            {"": ("tools/research/confidence.py", "{data}", *CONFIDENT, "{json}")},
            ("tools/research/confidence.py",),
            CONFIDENT,
            {
                "confidence": ("docs/guide/thresholds.md", guides.confidence),
                "probabilities": ("docs/guide/thresholds.md", guides.probabilities),
            },
        ),
        "results-sets": Figure(
            {
                name: (
                    *("phasegraph", "evaluate", f"{{data}}/{name}", "--systems", SYSTEMS, *JSON),
                    *(("--by", "gold_source") if name == "musique" else ()),
                )
                for name in OPEN
            },
            (EVALUATE,),
            OPEN,
            {"results-sets": ("docs/research/results.md", tables.sets)},
            keep=tables.brief,
        ),
        "regret": Figure(
            {
                "": (
                    "tools/benchmarks/fusion_regret.py",
                    *(f"{{data}}/{name}" for name in REGRETTED),
                    *("--limits", "50", "--json", "{json}"),
                )
            },
            ("tools/benchmarks/fusion_regret.py",),
            REGRETTED,
            {"regret": ("docs/research/results.md", tables.regret)},
        ),
        "rules": Figure(
            {
                "": (
                    "tools/benchmarks/rules_quality.py",
                    *(f"{{data}}/{name}" for name in ("hetdocqa", "musique", "2wiki", "multihoprag")),
                    *JSON,
                )
            },
            ("tools/benchmarks/rules_quality.py",),
            ("hetdocqa", "musique", "2wiki", "multihoprag"),
            {
                "rules": ("docs/research/fusion-rules.md", tables.rules),
                "rules-spread": ("docs/research/results.md", tables.spread),
            },
        ),
        "notebooks": Figure(
            {"": ("tests/examples/write_outputs.py",)},
            ("tests/examples/write_outputs.py", *NOTEBOOKS),
            (BUNDLED,),
            writes=NOTEBOOKS,
        ),
        "studies": _reproduced(
            *("table-1", "against-rrf", "table-2-calibration", "table-2-temperature", "pool-caps", "pool-explosion"),
            *("rrf-or-convex", "rank-constant", "exact-match"),
            starts=("studies.py", "findings.py", "running.py:study_page", "running.py:run_study"),
            data=("musique", "2wiki"),
        ),
        "semflow": _reproduced("semflow", starts=("semflow.py",), data=("musique-openie",)),
        "robust-default": _reproduced("robust-default", starts=("robust.py",), data=EVERY_OPEN),
        "paper-statistics": _reproduced("paper-statistics", starts=("paper.py",), data=(), quick=True),
        "rerankings": _reproduced(
            *("reranker-last-hop", "ising"),
            starts=("rerankers.py", "running.py:study_page", "running.py:run_study"),
            data=("musique", "2wiki"),
        ),
        "rules-sweep": _reproduced("rules-sweep", starts=("sweep.py",), data=("musique", "2wiki")),
        "shared-graph": _reproduced(
            "shared-graph", starts=("contamination.py",), data=("musique", "2wiki", "hotpotqa-small", "hetdocqa")
        ),
        "hard-slice-answers": _reproduced("hard-slice-answers", starts=("answers.py",), data=("musique", "2wiki")),
        "published": _reproduced(
            *("acceptance-thresholds", "ablation", "heterogeneity"),
            starts=("published.py", "heterogeneity.py"),
            data=("published", "hetdocqa"),
            blocks={"stage-effects": ("docs/guide/stages.md", guides.effects)},
            quick=True,
        ),
        "routing": _reproduced("routing", starts=("routing.py",), data=("published", *EVERY_OPEN)),
        "datasheet": _reproduced(
            "datasheet", starts=("datasheet.py",), data=(*EVERY_OPEN, BUNDLED, MANUAL), quick=True
        ),
        "stores": Figure(
            {"": ("tests/matrix/make_table.py",)},
            ("tests/matrix/make_table.py",),
            (BUNDLED,),
            writes=("docs/guide/stores.md",),
        ),
    }
)
