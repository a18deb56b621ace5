"""Run the studies over the data sets of a folder, part by part, and write the pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from answers import answers_page
from claims import LAST
from contamination import contamination_page
from datasheet import datasheet_page
from findings import FINDINGS
from heterogeneity import heterogeneity_page
from page import Page, interval, p_value, share, table
from paper import paper_page
from phasegraph._support.files import one_writer
from phasegraph._support.typing import IntArray
from phasegraph.candidates import cap_ranking
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.datasets import Dataset, load_dataset
from phasegraph.evaluation.experiment import Table, compare
from phasegraph.evaluation.measures import Measure
from phasegraph.evaluation.runs import write_text
from phasegraph.evaluation.source_runs import ExperimentInput, SourceRun, search_sources
from phasegraph.evaluation.system_runs import run_systems
from phasegraph.evaluation.systems import TWO
from published import ablation_page, thresholds_page
from rerankers import RERANKING_FINDINGS, RERANKINGS
from robust import robust_input, robust_page, standings
from routing import routing_page
from semflow import can_walk, semflow_page
from studies import STUDIES, Study
from sweep import sweep_page

SETS = ("musique", "2wiki")
PATIENCE = 60.0
"""Seconds to wait for another program that writes pages to the same folder."""
BUNDLED = Path(__file__).resolve().parents[2] / "data"
"""Where the data sets are that come with the repository."""
ALL_STUDIES = (*STUDIES, *RERANKINGS)
CLAIMS = {**FINDINGS, **RERANKING_FINDINGS}
Say = Callable[[str], object]

Experiment = Callable[[Mapping[str, Dataset], Sequence[Dataset], Say], "Page | None"]
"""``experiment(data sets of the studies by name, all data sets there are, say)``: a page."""


def reproduce(
    folder: str | Path,
    out: str | Path,
    *,
    only: Collection[str] = (),
    experiments: Mapping[str, Experiment] = MappingProxyType({}),
    say: Say = lambda line: None,
) -> list[Path]:
    """Write every page of the reproduction, or some of them.

    Parameters
    ----------
    folder : path
        Contains the data sets ``musique`` and ``2wiki`` and the folder ``published``, or is itself one data set.
    out : path
        Folder for the pages (Markdown), and for ``figures.json`` with every number to ten digits.
    only : collection of str, optional
        Names of pages; the other pages and their figures do not change. Default: every page.
    experiments : mapping of str to callable, optional
        By page name, experiments that replace those of ``EXPERIMENTS``, for example one with a model.
    say : callable, optional
        Receives a text about each step, and about each page that is left out because its data is missing.

    Returns
    -------
    list of Path
        The written files.

    Raises
    ------
    InvalidInputError
        If the folder contains no data set, or a name in `only` is not the name of a page.
    """
    unknown = sorted(set(only) - set(PAGES))
    if unknown:
        raise InvalidInputError(f"only must name pages among {', '.join(PAGES)}; got {', '.join(unknown)}")
    chosen = frozenset(only or PAGES)
    root, target = Path(folder), Path(out)
    datasets = _datasets(root, say)
    judged = _judged_sets(root, datasets)
    pages = _published(root, judged, chosen, say)
    studies = [study for study in ALL_STUDIES if study.name in chosen and datasets]
    tables: dict[str, dict[str, dict[str, Table]]] = {}
    for name, dataset in datasets.items() if studies else ():
        say(f"{name}: searching")
        tables[name] = run_studies(dataset, search_whole(dataset, studies), studies, say)
    for study in studies:
        of_study = {name: found[study.name] for name, found in tables.items()}
        pages.append(study_page(study, of_study))
    for name, experiment in {**EXPERIMENTS, **experiments}.items():
        found = experiment(datasets, judged, say) if name in chosen else None
        if found is not None:
            pages.append(found)
    if "robust-default" in chosen:
        pages += _robust(judged, say)
    if "paper-statistics" in chosen:
        pages.append(paper_page())
    if "datasheet" in chosen and judged:
        pages.append(datasheet_page([*judged, *_bundled({one.name for one in judged})]))
    return _write(target, pages)


def _semflow(datasets: Mapping[str, Dataset], judged: Sequence[Dataset], say: Say) -> Page | None:
    """Return the page `semflow` on the first data set with embedded facts; None if no data set has such facts."""
    walked = next((dataset for dataset in judged if can_walk(dataset)), None)
    if walked is None:
        say("left out: SemFlowRAG's walk (no data set with embedded facts)")
        return None
    say(f"{walked.name}: SemFlowRAG's walk")
    page, found = semflow_page(walked)
    return replace(page, figures={walked.name: {"all": found.to_dict()}})


EXPERIMENTS: Mapping[str, Experiment] = {
    "semflow": _semflow,
    "rules-sweep": sweep_page,
    "shared-graph": contamination_page,
    "hard-slice-answers": answers_page,
}
"""By page: what is no table of systems on two parts of the queries."""
PAGES = (
    *(study.name for study in ALL_STUDIES),
    *EXPERIMENTS,
    "robust-default",
    "paper-statistics",
    "acceptance-thresholds",
    "ablation",
    "heterogeneity",
    "routing",
    "datasheet",
)


def _datasets(root: Path, say: Say) -> dict[str, Dataset]:
    if (root / "corpus.jsonl").is_file():
        return {root.resolve().name: load_dataset(root)}
    found = {}
    for name in SETS:
        if (root / name).is_dir():
            found[name] = load_dataset(root / name)
        else:
            say(f"left out: {root / name} (not there)")
    return found


def _judged_sets(root: Path, datasets: Mapping[str, Dataset]) -> list[Dataset]:
    """Return every data set below `root`; a data set that is in `datasets` is not read again."""
    folders = [root] if (root / "corpus.jsonl").is_file() else sorted(p.parent for p in root.glob("*/corpus.jsonl"))
    read = {dataset.path: dataset for dataset in datasets.values()}
    return [read[folder] if folder in read else load_dataset(folder) for folder in folders]


def _bundled(known: Collection[str]) -> list[Dataset]:
    """Return the data sets that the repository contains, except those whose name is in `known`."""
    folders = sorted(path.parent for path in BUNDLED.glob("*/corpus.jsonl"))
    return [load_dataset(folder) for folder in folders if folder.name not in known]


def _published(root: Path, judged: Sequence[Dataset], chosen: Collection[str], say: Say) -> list[Page]:
    """Return the chosen pages about published results; an empty list if the folder `published` is missing.

    Raise InvalidInputError if there is no data set either.
    """
    folder = root / "published"
    if (folder / "sscc.json").is_file():
        say("published: thresholds, ablation, effects by heterogeneity, and the entropy router")
        mixed = next((one for one in judged if any("modality" in passage.extra for passage in one.passages)), None)
        makers: Mapping[str, Callable[[], Page]] = {
            "acceptance-thresholds": lambda: thresholds_page(folder),
            "ablation": lambda: ablation_page(folder),
            "heterogeneity": lambda: heterogeneity_page(folder, mixed),
            "routing": lambda: routing_page(folder, judged),
        }
        return [make() for name, make in makers.items() if name in chosen]
    if not judged:
        raise InvalidInputError(f"{root}: must hold data sets ({', '.join(SETS)}) or 'published'; it has neither")
    say(f"left out: {folder} (not there)")
    return []


def _robust(judged: Sequence[Dataset], say: Say) -> list[Page]:
    """Return a list with the page `robust-default` over all data sets; an empty list if there is no data set."""
    found = []
    for dataset in judged:
        say(f"{dataset.name}: regret and a wrong graph")
        found += standings(dataset, search_sources(robust_input(dataset), TWO))
    return [robust_page(found)] if found else []


def search_whole(dataset: Dataset, studies: Sequence[Study]) -> dict[str, SourceRun]:
    """Search every source of the studies once, with the longest list that any study needs; return the results.

    The results are by source.
    """
    names = {name for study in studies for name in study.sources}
    longest = max(study.limit for study in studies)
    graph = max(study.limit if study.graph_limit is None else study.graph_limit for study in studies)
    size = len(dataset.passages)
    runs = search_sources(ExperimentInput(dataset, min(longest, size)), sorted(names - {"graph"}))
    return search_sources(ExperimentInput(dataset, min(graph, size)), sorted(names), runs)


def run_studies(
    dataset: Dataset, runs: Mapping[str, SourceRun], studies: Sequence[Study], say: Say = lambda line: None
) -> dict[str, dict[str, Table]]:
    """Run the studies on both parts of a data set's queries, with the search results `runs`.

    Return the tables by study and part.
    """
    found = {}
    for study in studies:
        say(f"{dataset.name}: {study.name}")
        found[study.name] = run_study(study, dataset, runs)
    return found


def run_study(study: Study, dataset: Dataset, runs: Mapping[str, SourceRun]) -> dict[str, Table]:
    """Run one study on both parts of a data set's queries, and return a table for each part.

    Values that a part needs are fitted on the other part. A part without queries is left out.
    """
    rows = dict(study.split(dataset))
    parts = {part: _part(study, runs, wanted) for part, wanted in rows.items()}
    out = {}
    for part, other in zip(rows, reversed(rows), strict=True):
        if not len(rows[part]):
            continue
        inputs = ExperimentInput(dataset.subset(rows[part]), study.limit)
        systems = study.systems(dataset.name, {name: run.rankings for name, run in parts[other].items()})
        answers, left_out = run_systems(inputs, systems, max(measure.k for measure in study.measures), parts[part])
        out[part] = compare(
            [replace(one, milliseconds=None) for one in answers],
            inputs.dataset.judgements,
            baseline=study.baseline,
            measures=study.measures,
            dataset=dataset.name,
            limit=study.limit,
            left_out=left_out,
            corpus=dataset.contents,
        )
    return out


def _part(study: Study, runs: Mapping[str, SourceRun], rows: IntArray) -> dict[str, SourceRun]:
    """Return the results of the study's sources for the queries in `rows`, cut to the study's list lengths."""
    wanted = rows.tolist()
    out = {}
    for name in study.sources:
        limit = study.graph_limit if name == "graph" and study.graph_limit is not None else study.limit
        cut = [cap_ranking(runs[name].rankings[row], limit, "list", frozenset()) for row in wanted]
        out[name] = SourceRun(name, tuple(cut), runs[name].milliseconds)
    return out


def study_page(study: Study, tables: Mapping[str, Mapping[str, Table]]) -> Page:
    """Return the page of a study: for each data set a table with both parts side by side, and then the conclusions."""
    parts = [study.question]
    for name, both in tables.items():
        counts = ", ".join(f"{len(one.queries)} {part}" for part, one in both.items())
        lists = f"{study.limit} hits per source" + ("" if study.graph_limit is None else ", but all hits of the graph")
        parts.append(
            f"**{name}** ({counts} queries, {lists}; wins/losses (W/L) and the exact McNemar p compare "
            f"LastHop@10 with {study.baseline})"
        )
        parts.append(_side_by_side(both))
        if study.differences:
            parts.append(f"Differences from {study.baseline} in points, with paired 95 % bootstrap intervals:")
            parts.append(_differences(both, study.differences))
    claims = CLAIMS.get(study.name, ())
    verdicts = tuple(claim.verdict(tables) for claim in claims)
    figures = {name: {part: one.to_dict() for part, one in both.items()} for name, both in tables.items()}
    return Page(study.name, study.title, tuple(parts), verdicts, figures)


def _side_by_side(both: Mapping[str, Table]) -> str:
    measures = next(iter(both.values())).measures
    columns = ["system"]
    for part in both:
        first, *others = map(str, measures)
        columns += [f"{part}: {first}", *others, "W/L@10", "p@10"]
    rows = []
    for row in next(iter(both.values())).rows:
        cells = [row.name]
        for one in both.values():
            found = one[row.name]
            cells += [share(found.means[measure]) for measure in measures]
            cells += [f"{found.wins[LAST]}/{found.losses[LAST]}", p_value(found.p[LAST])]
        rows.append(cells)
    return table(columns, rows)


def _differences(both: Mapping[str, Table], measures: Sequence[Measure]) -> str:
    """Return a Markdown table with each system's differences to the baseline in points, and their 95 % intervals."""
    first = next(iter(both.values()))
    columns = ["system", *(f"{part}: {measure}" for part in both for measure in measures)]
    rows = [
        [row.name, *(interval(one[row.name].differences[measure]) for one in both.values() for measure in measures)]
        for row in first.rows
        if row.name != first.baseline
    ]
    return table(columns, rows)


INTRO = (
    "These pages repeat experiments of the papers on our data. The graph source is phasegraph's walk, not the "
    "papers' graph. `python tools/reproduce DATA --out docs/reproduction` writes all pages, and `--only NAME` "
    "writes one page. No network is needed. Every study splits its queries into two parts by the MD5 of their ids. "
    "Settings for one part are fitted on the other part, without labels. `figures.json` contains all numbers "
    "to ten digits, with their intervals."
)


def _index(target: Path) -> str:
    """Return the text of the index: links to all written pages, and how many of their claims hold or are refused."""
    texts = {
        name: (target / f"{name}.md").read_text(encoding="utf-8") for name in PAGES if (target / f"{name}.md").exists()
    }
    links = {name: f"[{text.splitlines()[0].removeprefix('# ')}]({name}.md)" for name, text in texts.items()}
    count = {start: {name: text.count(f"\n- **{start}") for name, text in texts.items()} for start in STARTS}
    holds, refused, open_ones = (sum(of.values()) for of in count.values())
    tally = (
        "Each page ends with claims, most of them from the papers. A claim shows the measured values and the "
        f"values that it needs. {holds} of {holds + refused + open_ones} claims hold"
    )
    tally += f", {open_ones} cannot be decided on this data" if open_ones else ""
    where = ", ".join(f"{links[name]}: {times}" for name, times in count["Refused"].items() if times)
    tally += f". Number of refused claims by page: {where}." if refused else "; no claim is refused."
    return "\n\n".join(["# Reproduction", INTRO, tally, "\n".join(f"- {link}" for link in links.values())]) + "\n"


STARTS = ("Holds", "Refused", "Not decided")
"""How the verdicts on claims start."""


def _ten_digits(number: str) -> float:
    """Return a number of a JSON text, rounded to ten digits.

    Later digits vary between runs, because sums are added in different orders.
    """
    return float(f"{float(number):.10g}")


def _write(target: Path, pages: Sequence[Page]) -> list[Path]:
    """Write pages, their entries in `figures.json`, and the index of all pages; return the written files.

    The entries of other pages stay.
    """
    target.mkdir(parents=True, exist_ok=True)
    written = [target / f"{page.name}.md" for page in pages]
    kept, index = target / "figures.json", target / "README.md"
    with one_writer(target, patience=PATIENCE):
        for page, path in zip(pages, written, strict=True):
            write_text(path, page.text())
        known = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
        figures = {name: of for name, of in known.items() if name in PAGES}
        figures |= {page.name: json.loads(json.dumps(page.figures), parse_float=_ten_digits) for page in pages}
        found = {name: of for name, of in figures.items() if of}
        write_text(kept, json.dumps(found, indent=1, sort_keys=True, allow_nan=False) + "\n")
        write_text(index, _index(target))
    return [*written, kept, index]
