"""Convert results to the texts that pages of the guide, or the start of the README, quote."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tables import Found, p_text, standing, table

ORDER = ("bm25", "rrf", "ensemble", "fusion-relative", "rrf-three", "default")
"""Systems of the protocol's table, the better known ones; Holm's correction covers all that were run."""


CONTENTS = {
    "perlfaq": "Perl's FAQs",
    "gitdocs": "Git's documentation",
    "pycode": "Python code",
    "man-fr": "French manual pages",
    "scifact": "abstracts of scientific articles",
}
"""What the documents of an ordinary collection are, by its name."""


def ordinal(number: float) -> str:
    """Return a rank as text.

    >>> [ordinal(place) for place in (1, 2, 3, 11, 16, 22)]
    ['1st', '2nd', '3rd', '11th', '16th', '22nd']
    """
    ends = {1: "st", 2: "nd", 3: "rd"}  # codespell:ignore nd
    return f"{number:g}{'th' if 10 < number % 100 < 14 else ends.get(int(number % 10), 'th')}"


def example(found: Found) -> str:
    """Return a text: a question, the ranks of its gold passage that vectors rank lowest, and the walk's path to it."""
    passages = found["passages"]
    titles = {one["id"]: one["title"] for one in passages}
    ranks = {one["id"]: {of["source"]: of["rank"] for of in one["sources"]} for one in passages}
    judged = [one for one in passages if one["judged"]]
    far = max(judged, key=lambda one: ranks[one["id"]]["vector"] or float("inf"))
    place = ranks[far["id"]]["vector"]
    by_vectors = f"rank **{far['title']}** {ordinal(place)}" if place else f"do not find **{far['title']}**"
    before = [f"**{one['title']}**" for one in passages if one["position"] < far["position"]]
    after = f", after {' and '.join(before)}," if 0 < len(before) < 3 else ""
    steps = re.split(r" > ", far["paths"][0].partition(": ")[2])
    named = [titles.get(step.strip("[]"), step.title()) for step in steps]
    path = [step for row, step in enumerate(named) if row == 0 or step.casefold() != named[row - 1].casefold()]
    return (
        f"> *{found['question']}*\n>\n"
        f"> Vectors {by_vectors}. phasegraph ranks it {ordinal(far['position'])}{after} and shows the path:\n"
        f"> `{' → '.join(path)}`"
    )


def when(found: Found) -> str:
    """Return a text that compares the default on ordinary documents with the best method without a walk.

    The best method is chosen for each collection after the measurement.
    """
    without = ("vector", "bm25", "rrf-words", "relative-words")
    gaps = {}
    for name, one in found.items():
        systems = one["systems"]
        gaps[name] = systems["default"]["Recall@5"] - max(systems[way]["Recall@5"] for way in without)
    least, most = min(gaps, key=gaps.__getitem__), max(gaps, key=gaps.__getitem__)
    return (
        f"**You may not need it.** On {len(gaps)} collections of ordinary documents (manuals, FAQs, code, abstracts), "
        f"phasegraph's Recall@5 is between {standing(gaps[least])} (on {CONTENTS[least]}) and {standing(gaps[most])} "
        f"(on {CONTENTS[most]}) the best of vectors, BM25 and their fusions. `phasegraph evaluate` on your own "
        'questions ends with a recommendation, which can be "plain vectors are enough".'
    )


def of_protocol(found: Found) -> dict[str, Any]:
    """Return the part of an evaluation that is stored: its protocol's verdicts, and each system's tested value."""
    rules = found["protocol"]
    return {"protocol": rules, "reached": {name: one[rules["measure"]] for name, one in found["systems"].items()}}


def protocol(found: Found) -> str:
    """Return HetDocQA's verdicts as text: for each system, its difference from vectors, and whether it is reliable.

    Then follows how many systems differ reliably from `rrf-three`, a fusion of three sources.
    """
    rules, reached = found["vector"]["protocol"], found["vector"]["reached"]
    rows = []
    for name in ORDER:
        of = rules["systems"][name]
        change = f"{of['difference']:+.1f} [{of['low']:+.1f}, {of['high']:+.1f}]"
        cells = [f"`{name}`", f"{reached[name]:.1f}", change, p_text(of["p_holm"]), p_text(of["p_groups"])]
        rows.append([*cells, f"{of['other_difference']:+.1f}", "yes" if of["reliable"] else "no"])
    columns = ["", rules["measure"], "difference [95 %]", "p (Holm)", "p of collections"]
    tested, signs = rules["queries"]
    return (
        f"The table shows results on HetDocQA's split {rules['tested']} ({tested} questions). The column "
        f'"difference on {rules["signs_from"]}" shows the difference on the split {rules["signs_from"]} ({signs} '
        "questions); its sign matters for the second condition. Our copy of HetDocQA has only these two splits. The "
        f"baseline `{rules['baseline']}` has the {rules['measure']} {reached[rules['baseline']]:.1f}. Holm's "
        f"correction covers all {len(rules['systems'])} systems of the run; the table shows {len(ORDER)} of these "
        "systems.\n\n"
        + table([*columns, f"difference on {rules['signs_from']}", "reliable"], rows)
        + f"\n\n{_reliable(rules)} A second run used `--baseline rrf-three`. "
        + f"{_reliable(found['rrf-three']['protocol'])} "
        + _default(found["rrf-three"]["protocol"])
    )


def _reliable(rules: Found) -> str:
    """Return a sentence: how many systems differ reliably from the baseline."""
    total = len(rules["systems"])
    count = sum(of["reliable"] for of in rules["systems"].values())
    if count == total:
        return (
            f"All {total} systems differ reliably from `{rules['baseline']}`, so this test does not say which system "
            "is best."
        )
    return f"{count or 'None'} of {total} systems differ{'s' * (count == 1)} reliably from `{rules['baseline']}`."


def _default(rules: Found) -> str:
    of = rules["systems"]["default"]
    change = f"{of['difference']:+.1f} [{of['low']:+.1f}, {of['high']:+.1f}]"
    return f"The difference between `default` and `{rules['baseline']}` is {change}, p (Holm) {p_text(of['p_holm'])}."


SINGLE = ("vector", "graph", "bm25", "bayesian-bm25")
ERRORS = {"plain": "confidence as it is", "platt": "fitted (Platt)", "isotonic": "isotonic regression instead"}


def confidence(found: Found) -> str:
    """Return a table of how well each system separates questions that have an answer from those that have none.

    A text about the default follows.
    """
    systems = next(iter(found.values()))["un"]
    pairs = {
        name: {(at, of): row[name] for at, one in found.items() for of, row in one["off"].items()} for name in systems
    }
    rows = []
    for name in systems:
        by_score = name in (*SINGLE, "rrf")
        of_pairs = pairs[name].values()
        cells = [f"{min(of_pairs):.1f} / {sum(of_pairs) / len(of_pairs):.1f}"]
        cells += [f"{one['un'][name]:.1f} ({one['intact'][name]:.1f})" for one in found.values()]
        rows.append([f"best score of `{name}`" if by_score else f"`{name}`", *cells])
    lowest = min(pairs["default"], key=pairs["default"].__getitem__)
    single = [name for name in SINGLE if name in systems]
    gaps = {
        at: min(one[of]["default"] - max(one[of][name] for name in single) for of in ("un", "intact"))
        for at, one in found.items()
    }
    worst = min(gaps, key=gaps.__getitem__)
    return (
        table(["", f"off-topic, lowest / mean of {len(pairs['default'])} pairs", *found], rows)
        + "\n\nOn unanswerable questions, the smallest gain of the default over the best single source is on "
        f"{worst}: there, the default is {standing(gaps[worst])} this source. The gain on a set is the smaller of two "
        "gains: the gain in the figures before the brackets, and the gain in the figures in brackets. On off-topic "
        f"questions, the lowest value of the default is {pairs['default'][lowest]:.1f}, for questions of {lowest[1]} "
        f"over the corpus of {lowest[0]}."
    )


def probabilities(found: Found) -> str:
    """Return a table of how well the confidence, unchanged and fitted, agrees with the observed frequencies."""
    columns = list(found)
    rows = [
        [said, *("{:.3f} / {:.3f}".format(*one["errors"][name]) for one in found.values())]
        for name, said in ERRORS.items()
    ]
    better = [at for at in columns if found[at]["errors"]["platt"][0] < found[at]["errors"]["plain"][0]]
    named = f" ({', '.join(better)})" if better else ""
    return (
        table(["ECE / Brier", *columns], rows)
        + f"\n\nThe fitted probability has a lower calibration error than the plain confidence on {len(better)} of "
        f"{len(columns)} sets{named}."
    )


STAGES: Mapping[str, tuple[str, str]] = {
    "rerank": ("reranker", "no reranker"),
    "HyDE": ("HyDE", "no HyDE"),
    "SSCC": ("SSCC", "correction by a language model's grades"),
}
"""The stages by the part that the published run leaves out, and with what the full system is compared."""


def effects(found: Found) -> str:
    """Return a table of the effect of the reranker, HyDE and SSCC on the published system's F1.

    The values are for HetDocQA's test split.
    """
    rows = []
    for removed, (stage, other) in STAGES.items():
        of = found["ablation"][removed]
        mean, low, high = (-of["difference"][place] for place in (0, 2, 1))
        rows.append([stage, other, f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]", p_text(of["p_holm"])])
    return table(["stage", "compared with", "effect on F1 [95 %]", "p (Holm)"], rows)
