"""Running the studies over the data sets of a folder, part by part, and writing the pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from findings import FINDINGS
from page import Page, p_value, share, table
from paper import paper_page
from phasegraph._typing import IntArray
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.datasets import Dataset, load_dataset
from phasegraph.evaluation.experiment import THREE, TWO, Table, compare, run_systems
from phasegraph.evaluation.measures import Measure
from phasegraph.evaluation.runs import write_text
from phasegraph.evaluation.source_runs import ExperimentInput, SourceRun, search_sources
from phasegraph.ranking import cap_ranking
from published import ablation_page, thresholds_page
from robust import robust_input, robust_page, standings
from semflow import can_walk, semflow_page
from studies import STUDIES, Study

SETS = ("musique", "2wiki")
MEASURES = (Measure("LastHop", 5), Measure("LastHop", 10), Measure("Recall", 5))
Say = Callable[[str], object]


def reproduce(folder: str | Path, out: str | Path, *, say: Say = lambda line: None) -> list[Path]:
    """Write every page of the reproduction.

    Parameters
    ----------
    folder : path
        Holds the data sets ``musique`` and ``2wiki`` and the folder ``published``, or is itself one data set.
    out : path
        Folder for the pages (Markdown) and ``figures.json`` with every number in full.
    say : callable, optional
        Told what is being done, and what is left out because it is not there.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    InvalidInputError
        If the folder holds nothing to work on.
    """
    root, target = Path(folder), Path(out)
    datasets = _datasets(root, say)
    judged = _judged_sets(root, datasets)
    published = _published(root, bool(judged), say)
    pages: list[Page] = []
    figures: dict[str, object] = {}
    tables: dict[str, dict[str, dict[str, Table]]] = {}
    for name, dataset in datasets.items():
        say(f"{name}: searching")
        tables[name] = run_studies(dataset, search_whole(dataset), say)
    for study in STUDIES if datasets else ():
        of_study = {name: found[study.name] for name, found in tables.items()}
        pages.append(study_page(study, of_study))
        figures[study.name] = {
            name: {part: one.to_dict() for part, one in parts.items()} for name, parts in of_study.items()
        }
    walked = next((dataset for dataset in judged if can_walk(dataset)), None)
    if walked is None:
        say("left out: SemFlowRAG's walk (no data set with embedded facts)")
    else:
        say(f"{walked.name}: SemFlowRAG's walk")
        page, found = semflow_page(walked)
        pages.append(page)
        figures[page.name] = {walked.name: {"all": found.to_dict()}}
    return _write(target, [*pages, *_robust(judged, say), paper_page(), *published], figures)


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
    """Every data set there is; those already read are not read again."""
    folders = [root] if (root / "corpus.jsonl").is_file() else sorted(p.parent for p in root.glob("*/corpus.jsonl"))
    read = {dataset.path: dataset for dataset in datasets.values()}
    return [read[folder] if folder in read else load_dataset(folder) for folder in folders]


def _published(root: Path, datasets: bool, say: Say) -> list[Page]:
    """The pages on published results, where they are there."""
    folder = root / "published"
    if (folder / "sscc.json").is_file():
        say("published: thresholds and ablation")
        return [thresholds_page(folder), ablation_page(folder)]
    if not datasets:
        raise InvalidInputError(f"{root}: must hold data sets ({', '.join(SETS)}) or 'published'; it has neither")
    say(f"left out: {folder} (not there)")
    return []


def _robust(judged: Sequence[Dataset], say: Say) -> list[Page]:
    """The page on the default's regret, over every data set there is."""
    found = []
    for dataset in judged:
        say(f"{dataset.name}: regret and a wrong graph")
        found += standings(dataset, search_sources(robust_input(dataset), TWO))
    return [robust_page(found)] if found else []


def search_whole(dataset: Dataset) -> dict[str, SourceRun]:
    """Every source once: the graph's whole lists, as many of the others as any study asks for."""
    longest = max(study.limit for study in STUDIES)
    runs = search_sources(
        ExperimentInput(dataset, min(longest, len(dataset.passages))), [name for name in THREE if name != "graph"]
    )
    return search_sources(ExperimentInput(dataset, len(dataset.passages)), ["graph"], runs)


def run_studies(
    dataset: Dataset, runs: Mapping[str, SourceRun], say: Say = lambda line: None
) -> dict[str, dict[str, Table]]:
    """Every study on both parts of a data set, from the same searches."""
    found = {}
    for study in STUDIES:
        say(f"{dataset.name}: {study.name}")
        found[study.name] = run_study(study, dataset, runs)
    return found


def run_study(study: Study, dataset: Dataset, runs: Mapping[str, SourceRun]) -> dict[str, Table]:
    """One study on both parts of a data set; what is fitted for a part is fitted on the other."""
    rows = dict(study.split(dataset))
    parts = {part: _part(study, runs, wanted) for part, wanted in rows.items()}
    out = {}
    for part, other in zip(rows, reversed(rows), strict=True):
        if not len(rows[part]):
            continue
        inputs = ExperimentInput(dataset.subset(rows[part]), study.limit)
        systems = study.systems(dataset.name, {name: run.rankings for name, run in parts[other].items()})
        answers, left_out = run_systems(inputs, systems, max(measure.k for measure in MEASURES), parts[part])
        out[part] = compare(
            [replace(one, milliseconds=None) for one in answers],
            inputs.dataset.judgements,
            baseline=study.baseline,
            measures=MEASURES,
            dataset=dataset.name,
            limit=study.limit,
            left_out=left_out,
        )
    return out


def _part(study: Study, runs: Mapping[str, SourceRun], rows: IntArray) -> dict[str, SourceRun]:
    """The study's sources on some of the queries, their lists cut to its length."""
    wanted = rows.tolist()
    out = {}
    for name in study.sources:
        limit = study.graph_limit if name == "graph" and study.graph_limit is not None else study.limit
        cut = [cap_ranking(runs[name].rankings[row], limit, "list", frozenset()) for row in wanted]
        out[name] = SourceRun(name, tuple(cut), runs[name].milliseconds)
    return out


def study_page(study: Study, tables: Mapping[str, Mapping[str, Table]]) -> Page:
    """One page: a table per data set with both parts side by side, then what it says."""
    parts = [study.question]
    for name, both in tables.items():
        counts = ", ".join(f"{len(one.queries)} {part}" for part, one in both.items())
        lists = f"lists of {study.limit}" + ("" if study.graph_limit is None else ", whole graph lists")
        parts.append(f"**{name}** ({counts} queries, {lists}; W/L and exact McNemar p against {study.baseline})")
        parts.append(_side_by_side(both))
    claims = FINDINGS.get(study.name, ())
    return Page(study.name, study.title, tuple(parts), tuple(claim.verdict(tables) for claim in claims))


def _side_by_side(both: Mapping[str, Table]) -> str:
    columns = ["system"]
    for part in both:
        columns += [f"{part}: LastHop@5", "LastHop@10", "Recall@5", "W/L@10", "p@10"]
    ten = Measure("LastHop", 10)
    rows = []
    for row in next(iter(both.values())).rows:
        cells = [row.name]
        for one in both.values():
            found = one[row.name]
            cells += [share(found.means[measure]) for measure in MEASURES]
            cells += [f"{found.wins[ten]}/{found.losses[ten]}", p_value(found.p[ten])]
        rows.append(cells)
    return table(columns, rows)


INTRO = (
    "Regenerate with `python tools/reproduce DATA --out docs/reproduction`; no network is used. Every study keeps two "
    "parts of the queries apart (by the MD5 of their ids); what is fitted for one part is fitted on the other, without "
    "labels. The graph source is ours, not the papers'. `figures.json` holds every number in full, intervals included."
)


def _tally(pages: Sequence[Page]) -> str:
    """How many of the claims hold, and which do not."""
    verdicts = [(page, one) for page in pages for one in page.verdicts]
    refused = [page for page, one in verdicts if one.holds is False]
    where = ", ".join(f"[{page.title}]({page.name}.md): {refused.count(page)}" for page in dict.fromkeys(refused))
    text = (
        "Below the tables stand claims, most of them the papers', each with the figures that decide it and the bounds "
        f"it is held to. {sum(one.holds is True for _, one in verdicts)} of {len(verdicts)} hold"
    )
    open_ones = sum(one.holds is None for _, one in verdicts)
    text += f", {open_ones} cannot be decided on this data" if open_ones else ""
    return text + (f". Refused: {where}." if refused else "; none is refused.")


def _write(target: Path, pages: Sequence[Page], figures: Mapping[str, object]) -> list[Path]:
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for page in pages:
        path = target / f"{page.name}.md"
        write_text(path, page.text())
        written.append(path)
    path = target / "figures.json"
    write_text(path, json.dumps(figures, indent=1, sort_keys=True, allow_nan=False) + "\n")
    index = target / "README.md"
    links = [f"- [{page.title}]({page.name}.md)" for page in pages]
    write_text(index, "\n\n".join(["# Reproduction", INTRO, _tally(pages), "\n".join(links)]) + "\n")
    return [*written, path, index]
