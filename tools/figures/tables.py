"""Convert results to the texts that pages quote: tables, and sentences that depend on the figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

Found = Mapping[str, Any]
Render = Callable[[Found], str]
LABELS: Mapping[str, str] = MappingProxyType(
    {
        "vector": "vectors alone",
        "bm25": "BM25 alone",
        "graph": "our walk alone",
        "ensemble": "`EnsembleRetriever` (LangChain)",
        "fusion-reciprocal": "`QueryFusionRetriever` (LlamaIndex), reciprocal_rerank",
        "fusion-relative": "`QueryFusionRetriever` (LlamaIndex), relative_score",
        "ensemble-three": "`EnsembleRetriever` with BM25",
        "fusion-reciprocal-three": "`QueryFusionRetriever`, reciprocal_rerank, with BM25",
        "fusion-relative-three": "`QueryFusionRetriever`, relative_score, with BM25",
        "rrf-words": "vectors and BM25 by reciprocal ranks, as in `EnsembleRetriever`",
        "relative-words": "vectors and BM25 by relative scores, as in `QueryFusionRetriever`",
        "relative-three": "vectors, BM25 and our walk by relative scores",
        "paper": "the paper's rule",
        "default": "**phasegraph's default**",
        "default-three": "**phasegraph's default** with BM25",
    }
)
FRAMEWORKS = tuple(name for name in LABELS if name.startswith(("ensemble", "fusion-")))
OF_README = ("vector", "bm25", "rrf-words", "relative-words", "default")


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def brief(found: Found) -> dict[str, Any]:
    """Return the parts of an evaluation's table that pages quote: without tests of every measure, and without times."""
    systems = {
        name: {key: value for key, value in row.items() if not isinstance(value, Mapping) or key == "intervals"}
        for name, row in found["systems"].items()
    }
    kept = {key: value for key, value in found.items() if key in ("dataset", "queries", "limit", "scored", "by")}
    return {**kept, "systems": systems}


def with_interval(row: Found, measure: str) -> str:
    """Return a system's value of a measure with its 95 % interval as text, in percent."""
    low, high = row["intervals"][measure]
    return f"{row[measure]:.1f} [{low:.0f}, {high:.0f}]"


def share(value: float | None) -> str:
    """Return a percentage with one decimal as text; a dash for None, if the measure leaves out every question."""
    return "–" if value is None else f"{value:.1f}"


def p_text(value: float | None) -> str:
    """Return a p-value as text with three decimals; "<.001" below .001, and "" for None."""
    return "" if value is None else "<.001" if value < 0.001 else f"{value:.3f}"


def readme(found: Found) -> str:
    """Return the README's table: one measure of each of the two bundled data sets.

    A text about the default's difference to the best other row follows.
    """
    hops, manual = found["multi-hop"], found["manual"]
    rows = [
        [LABELS[name], with_interval(hops["systems"][name], "LastHop@10"), with_interval(of, "Recall@10")]
        for name, of in ((name, manual["systems"][name]) for name in OF_README)
    ]
    columns = ["", f"{hops['queries']} multi-hop questions", f"{manual['queries']} questions about a manual"]
    said = [
        f"{kind}, {beside(one['systems'], measure)}"
        for kind, one, measure in (
            ("On multi-hop questions", hops, "LastHop@10"),
            ("On the manual", manual, "Recall@10"),
        )
    ]
    return table(columns, rows) + "\n\n" + " ".join(said)


def beside(systems: Found, measure: str) -> str:
    """Return a sentence about the default's difference to the best other system of the README's table."""
    best = max(OF_README[:-1], key=lambda name: systems[name][measure])
    gap = standing(systems["default"][measure] - systems[best][measure])
    return f"phasegraph is {gap} the best other row ({LABELS[best]})."


def demo(found: Found) -> str:
    """Return the table of all systems of the demonstration, and a text about the default's gain."""
    rows = []
    for name, row in found["systems"].items():
        alone = name == "vector"
        cells = [LABELS[name], f"{row['LastHop@5']:.1f}", with_interval(row, "LastHop@10"), f"{row['FullSup@10']:.1f}"]
        cells += [f"{row['Recall@5']:.1f}", "" if alone else f"{row['wins@10']} / {row['losses@10']}"]
        rows.append([*cells, "" if alone else p_text(row["p_holm@10"])])
    columns = ["system", "LastHop@5", "LastHop@10 [95 %]", "FullSup@10", "Recall@5", "won / lost @10", "p@10"]
    return table(columns, rows) + "\n\n" + gains(found)


def gains(found: Found) -> str:
    """Return a text about the default's gain in LastHop@10 over vectors, the frameworks' fusions and the walk."""
    systems = found["systems"]
    share = {name: row["LastHop@10"] for name, row in systems.items()}
    best = max((name for name in FRAMEWORKS if name in share), key=lambda name: share[name])
    low, high = systems["default"]["intervals"]["LastHop@10"]
    return (
        f"In LastHop@10 the default is {standing(share['default'] - share['vector'])} the vectors and "
        f"{standing(share['default'] - share[best])} the best of the frameworks' own fusions of these lists, "
        f"{LABELS[best]}. The walk alone is {standing(share['graph'] - share['vector'])} the vectors. The default is "
        f"{standing(share['default'] - share['graph'])} the walk; with BM25 as a third source it is "
        f"{standing(share['default-three'] - share['default'])} the default without. The default's interval is "
        f"{high - low:.0f} points wide, with {found['queries']} questions."
    )


def standing(difference: float) -> str:
    """Return a difference in points as text.

    >>> standing(29.0), standing(-0.5), standing(0.01)
    ('29.0 points above', '0.5 points below', 'level with')
    """
    if abs(difference) < 0.05:
        return "level with"
    return f"{abs(difference):.1f} points {'above' if difference > 0 else 'below'}"


def sets(found: Found) -> str:
    """Return the tables of recall on every data set, and of LastHop on those whose last hops are known.

    The first table also has the default's interval.
    """
    columns = ["", *(f"{name}, {one['queries']}" for name, one in found.items())]
    names = [name for name in LABELS if all(name in one["systems"] for one in found.values())]
    rows = [
        [LABELS[name], *(f"{_two(one, name)}{_half(one) if name == 'default' else ''}" for one in found.values())]
        for name in names
    ]
    known = {name: one for name, one in found.items() if one["scored"].get("LastHop@10")}
    last = [
        [LABELS[name], *(f"{one['systems'][name]['LastHop@10']:.1f}" for one in known.values())]
        for name in ("vector", "graph", "default")
    ]
    parts = [f"{name}, {one['scored']['LastHop@10']} of {one['queries']}" for name, one in known.items()]
    said = [
        "Recall@5 / Recall@10; in brackets half the width of the default's 95 % interval of Recall@5:",
        table(columns, rows),
        "LastHop@10, over the questions whose last hop is known:",
        table(["", *parts], last),
    ]
    strict = found.get("musique", {}).get("by")
    if strict:
        said.append(_strict(strict))
    return "\n\n".join(said)


def _two(one: Found, name: str) -> str:
    row = one["systems"][name]
    return f"{row['Recall@5']:.1f} / {row['Recall@10']:.1f}"


def _half(one: Found) -> str:
    low, high = one["systems"]["default"]["intervals"]["Recall@5"]
    return f" (±{(high - low) / 2:.1f})"


def _strict(by: Found) -> str:
    """Return a table of Recall@10 on the parts of musique, which differ in the origin of their gold passages."""
    names = ("vector", "bm25", "graph", "default")
    rows = [[part, *(f"{of[name]['Recall@10']:.1f}" for name in names)] for part, of in by["means"].items()]
    return f"Recall@10 on musique by `{by['field']}`:\n\n" + table(["", *(LABELS[name] for name in names)], rows)


def manual(found: Found) -> str:
    """Return the table of the simple methods and the default on one ordinary data set, and a text that compares."""
    found = found["manual"]
    systems = found["systems"]
    names = [name for name in LABELS if name in systems]
    rows = [
        [LABELS[name], with_interval(row, "Recall@5"), f"{row['Recall@10']:.1f}", f"{row['PageRecall@10']:.1f}"]
        for name, row in ((name, systems[name]) for name in names)
    ]
    return table(["", "Recall@5 [95 %]", "Recall@10", "pages in 10 chunks"], rows) + "\n\n" + against_simple(found)


def ordinary(found: Found) -> str:
    """Return the tables of recall of the simple methods and the default on every ordinary data set."""
    names = [name for name in LABELS if all(name in one["systems"] for one in found.values())]
    rows = [[LABELS[name], *(_two(one, name) for one in found.values())] for name in names]
    pages = [
        [LABELS[name], *(f"{one['systems'][name]['PageRecall@10']:.1f}" for one in found.values())] for name in names
    ]
    columns = ["", *(f"{name}, {one['queries']}" for name, one in found.items())]
    said = [f"{name}: {against_simple(one)}" for name, one in found.items()]
    parts = ["Recall@5 / Recall@10:", table(columns, rows), "Pages found in ten chunks:", table(columns, pages), *said]
    return "\n\n".join(parts)


def against_simple(found: Found) -> str:
    """Return a sentence: the default's difference to plain vectors, and to the best other method.

    The best other method is chosen after the measurement.
    """
    systems = found["systems"]
    ours = systems["default"]["Recall@5"]
    simple = {name: row["Recall@5"] for name, row in systems.items() if name not in ("graph", "default")}
    best = max(simple, key=lambda name: simple[name])
    return (
        f"In Recall@5 the default is {standing(ours - simple['vector'])} plain vectors, and "
        f"{standing(ours - simple[best])} the best other method: {LABELS[best]}."
    )


def rules(found: Found) -> str:
    """Return a table of every fusion rule on every data set, the best rule first.

    A text about the best and the worst rule, and about `linear` and `rrf`, follows.
    """
    first = next(iter(found.values()))
    names = [name for name in first if name not in ("vector", "graph")]
    mean = {name: sum(of[name]["Recall@5"] for of in found.values()) / len(found) for name in names}
    order = ["vector", "graph", *sorted(names, key=lambda name: (-mean[name], name))]
    rows = [
        [
            LABELS.get(name, f"`{name}`"),
            *(f"{of[name]['Recall@5']:.1f} / {share(of[name]['LastHop@10'])}" for of in found.values()),
        ]
        for name in order
    ]
    best, worst = order[2], order[-1]
    gaps = {
        rule: {
            name: of[rule]["Recall@5"] - max(of["vector"]["Recall@5"], of["graph"]["Recall@5"])
            for name, of in found.items()
        }
        for rule in ("linear", "rrf")
    }
    return (
        table(["", *found], rows)
        + f"\n\nThe mean of Recall@5 over these sets is highest for `{best}` ({mean[best]:.1f}) and lowest for "
        f"`{worst}` ({mean[worst]:.1f}). "
        + " ".join(
            f"`{rule}` is {standing(gap)} the better source on {name}, its worst set."
            for rule, of in gaps.items()
            for gap, name in [min((gap, name) for name, gap in of.items())]
        )
    )


def spread(found: Found) -> str:
    """Return a table of the worst and the best fusion rule on each data set, compared with the default's rule.

    The default's rule (`linear`) is the sum of calibrated values.
    """
    rows, gaps = [], {}
    for collection, of in found.items():
        values = {name: row["Recall@5"] for name, row in of.items() if name not in ("vector", "graph", "linear")}
        order = sorted(values, key=lambda name: (values[name], name))
        worst, best = (f"{values[name]:.1f} (`{name}`)" for name in (order[0], order[-1]))
        gaps[collection] = of["linear"]["Recall@5"] - values[order[-1]]
        rows.append([collection, worst, best, f"{gaps[collection]:+.1f}"])
    columns = ["", "lowest of the other rules", "highest of the other rules", "`linear` against the highest"]
    ahead = [collection for collection, gap in gaps.items() if gap < -0.05]
    said = f"Another rule is above `linear` on {', '.join(ahead)}." if ahead else "No other rule is above `linear`."
    return f"{table(columns, rows)}\n\n{said}"


def regret(found: Found) -> str:
    """Return a table of the default's worst regret, and of the worst harm of a wrong source, on every data set."""
    rows = []
    worst = {"two": [0.0, 0.0], "three": [0.0, 0.0]}
    for name, by_limit in found.items():
        cells: list[object] = [name]
        for label in ("two", "three"):
            lost = max(max(one[label]["regret"]) for one in by_limit.values())
            harm = max(max(values) for one in by_limit.values() for values in one[label]["harm"].values())
            worst[label] = [max(worst[label][0], lost), max(worst[label][1], harm)]
            cells += [f"{lost:.2f}", f"{harm:.1f}"]
        rows.append(cells)
    limits = ", ".join(next(iter(found.values())))
    return (
        table(["", "two sources: regret", "harm", "three sources: regret", "harm"], rows)
        + f"\n\nLists of {limits}, the worst of Recall@5 and Recall@10, in points. With two sources the default is at "
        f"most {worst['two'][0]:.2f} points below the best of vectors, walk, BM25, reciprocal rank and min-max sums, "
        f"with three {worst['three'][0]:.2f}. Another question's ranking in place of one source costs at most "
        f"{max(worst['two'][1], worst['three'][1]):.1f} points against the best single source that is left."
    )
