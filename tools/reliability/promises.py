"""Write docs/reliability.md from the figures of the runs: ``python tools/reliability/promises.py``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FIGURES, PAGE = ROOT / "docs" / "reliability", ROOT / "docs" / "reliability.md"
RUNS = ("chaos", "kills", "soak", "siege", "connections", "disk", "clocks", "fuzz", "determinism", "compare")


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def chaos(found: dict[str, Any]) -> list[str]:
    """Return the section of docs/reliability.md about chaos.py (faults in retrievers), from its figures."""
    columns = ["", "queries", "faults", "kinds", "answered", "degraded answers", "every source failed", "exits",
               "delayed by stalls", "leaked errors", "unlike the oracle", "failures not reported",
               "failures reported falsely", "hits miscounted", "p50 ms", "p99 ms", "p99 above the deadline, ms",
               "p99 above deadline and stalls, ms", "longest stall, ms"]  # fmt: skip
    rows = [
        [name, one["queries"], one["faults"], one["kinds"], one["answered"], one["degraded"], one["all_failed"],
         one["exits"], one["held_up"], one["leaked"], one["different"], one["unreported"], one["falsely_reported"],
         one["miscounted"],
         one["ms"]["p50"], one["ms"]["p99"], one["over_deadline_ms"].get("p99", "–"),
         one.get("beyond_stalls_ms", {}).get("p99", "–"), one["longest_stall_ms"]]
        for name, one in sorted(found["modes"].items())
    ]  # fmt: skip
    return [
        "The run asks a retriever with three sources. For a fifth of all pairs of source and query, the source has a "
        "fault of one of these kinds, here with their names in `phasegraph.testing`: "
        + ", ".join(f"`{kind}`" for kind in found["kinds"])
        + ".",
        "Each answer must equal, to the bit, the answer of a retriever that was built without the failed sources (the "
        "*oracle*). If every source fails, the retriever must raise AllSourcesFailed with every cause. If a source "
        "raises SystemExit, the call must raise it too.",
        f"The deadline of a call is {found['deadline_ms']:g} ms, and a hanging source takes longer. p99 is the 99th "
        "percentile of the calls' times. For calls with a hanging source, p99 must be at most 50 ms above the deadline "
        "plus the stalls. A *stall* is a period in which a plain timer of the process was late by 20 ms or more. If "
        "stalls *delayed* a call by 200 ms or more, the run does not check which sources were reported as late, but "
        "checks everything else.",
        table(columns, rows),
    ]


def kills(found: dict[str, Any]) -> list[str]:
    """Return the section of docs/reliability.md about kills.py (kills and full disks), from its figures."""
    columns = ["", "kills", "old folder after a kill", "new folder after a kill", "full disks",
               "old folder after a full disk", "new folder after a full disk"]  # fmt: skip
    rows = [
        [name, *(part for kind in ("kills", "full") for part in _outcomes(found[kind][name]))]
        for name in found["kills"]
    ]
    return [
        f"The run killed {found['kills_made']} processes, each before a different system call that changes the disk. "
        "It also repeated each command several times; each time, the disk became full at a different system call. "
        "Afterwards, the folder must open in the old state or in the new state, and the same command must complete the "
        "change. If the disk is full, the command must succeed, or its error must say that the disk is full.",
        table(columns, rows),
    ]


def _outcomes(counts: dict[str, int]) -> list[int]:
    return [sum(counts.values()), counts.get("old", 0), counts.get("new", 0)]


def soak(found: dict[str, Any]) -> list[str]:
    """Return the section of docs/reliability.md about soak.py (memory after many calls), from its figures."""
    kinds = ("objects", "threads", "workers", "descriptors", "tasks")
    columns = ["", "calls", "resident MB after a tenth", "at the end", "growth", *kinds]

    def row(name: str, calls: int, one: dict[str, Any]) -> list[object]:
        early, late = one["early"], one["late"]
        pairs = [f"{early.get(kind, '–')} → {late.get(kind, '–')}" for kind in kinds]
        return [name, calls, early["resident_kb"] // 1024, late["resident_kb"] // 1024, one["growth"], *pairs]

    rows = []
    for name, one in sorted(found["frameworks"].items()):
        longest = one["long_lists"]["longest"]
        rows.append(row(f"{name}, questions", one["queries"], one))
        rows.append(row(f"{name}, lists of up to {longest:,} hits", one["long_lists"]["lists"], one["long_lists"]))
    return [
        f"Promise: the resident memory at the end is at most {found['most_growth']} times the memory after a tenth of "
        "the calls. The numbers of threads, file descriptors and tasks do not grow, and there are at most 16 workers "
        "of sources. All questions differ; every fourth question is async, and every twentieth has a filter.",
        "Before each measurement, the C library returns freed memory to the system, because it otherwise keeps a "
        "random number of megabytes. Earlier runs over long lists did not do this; their memory grew 1.0297 and 1.0261 "
        "times, probably for this reason.",
        table(columns, rows),
    ]


def siege(found: dict[str, Any]) -> list[str]:
    """Return the section of docs/reliability.md about siege.py (hostile clients), from its figures."""
    kinds = {
        "quiet": "in quiet periods",
        "elsewhere": "during an attack on another process",
        "hostile": "during the attack",
    }
    rows = [
        [label, found["answers"][kind], *(found["ms"][kind][one] for one in ("p50", "p99", "max"))]
        for kind, label in kinds.items()
    ]
    statuses = [[name, _counted(one) or "the connection stays open"] for name, one in found["hostile"].items()]
    memory, seconds = found["resident_mb"], found["seconds"]
    parts = ("server", "event loop of the server", "honest clients", "hostile clients")
    used = [
        [part, *(f"{seconds[kind][f'{part}, {what}']:.1f}" for kind in kinds for what in ("ran", "waited"))]
        for part in parts
    ]
    columns = [f"{label}, {what}" for label in kinds.values() for what in ("ran", "waited")]
    lengths = ", ".join(f"{seconds[kind]['the window']:.0f}" for kind in kinds)
    quiet, attack = (
        {part: seconds[kind][f"{part}, ran"] / seconds[kind]["the window"] for part in parts[:2]}
        for kind in ("quiet", "hostile")
    )
    server, loop = parts[:2]
    return [
        "The time of a request is measured for honest clients, with and without an attack by hostile clients; p99 is "
        f"the 99th percentile. Promise: p99 during the attack is at most {found['most_ratio']:g} times p99 in quiet "
        "periods. Every honest request gets a complete answer, and no answer contains a passage of another tenant. In "
        f"this run, p99 was {found['ratio']} times as long. The memory of the server was {memory['start']} MB at the "
        f"start and at most {memory['most']} MB. The load average of the machine over 15 minutes was {found['load']}.",
        table(["honest clients", "answers", "p50 ms", "p99 ms", "longest ms"], rows),
        "All processes of the run share the processors of one machine. To show the effect of this, the same hostile "
        "clients also attack another process, which does nothing with their requests. Then p99 of honest clients is "
        f"{found['ratio_elsewhere']} times p99 in quiet periods. The verdict ignores this figure.",
        table(
            ["what a hostile client does", "the answers: HTTP status, or closed connection (number of times)"], statuses
        ),
        "The next table shows how many seconds the threads of each process ran, and how many seconds they waited for a "
        f"processor. The periods took {lengths} seconds.",
        table(["threads", *columns], used),
        "The server has a process for its event loop, and two processes that compute the answers, one of them with low "
        f"priority. Per second, the threads of all three ran for {quiet[server]:.2f} s in quiet periods and for "
        f"{attack[server]:.2f} s during the attack; the event loop ran for {quiet[loop]:.2f} s and "
        f"{attack[loop]:.2f} s.",
    ]


def _counted(counts: dict[str, int]) -> str:
    """Return outcomes as text, each with its number in brackets."""
    return ", ".join(f"{what} ({count:,})" for what, count in counts.items())


def connections(found: dict[str, Any]) -> list[str]:
    """Return the section of docs/reliability.md about connections.py (very many connections), from its figures."""
    columns = ["server", "connections at once, at most", "outcomes (number of connections)",
               "honest answers before the flood", "p50 ms",
               "honest answers in the flood", "p50 ms", "longest ms", "server MB before",
               "server MB, at most"]  # fmt: skip
    rows = []
    for name, one in found["servers"].items():
        quiet, beside = (one["ms"][kind] for kind in ("quiet", "hostile"))
        memory = [one["resident_kb"][kind] // 1024 for kind in ("before", "most")]
        rows.append([name, f"{one['most']:,}", _counted(one["outcomes"]), one["answers"]["quiet"], quiet["p50"],
                     one["answers"]["hostile"], beside["p50"], beside["max"], *memory])  # fmt: skip
    return [
        "A process keeps opening connections that send nothing or half of a request's head. The server closes each "
        "connection within five seconds (408), or at once if there is no room. Promise: every honest request from the "
        "same address gets a complete answer, and the server keeps running. The number of open connections depends on "
        f"how fast the machine opens new connections. The load average of the machine was {found['load']}, and a "
        f"process may open {found['open_files']:,} files.",
        table(columns, rows),
    ]


def clocks(found: dict[str, Any]) -> list[str]:
    """Return the section of docs/reliability.md about clocks.py (a clock that jumps), from its figures."""
    columns = ["wall clock", "years", "searches", "left out by the breaker", "changes", "SHA-256"]
    rows = [
        [
            name,
            one["years"],
            one["searches"],
            one["left out by the breaker"],
            one["changes"],
            f"`{one['digest'][:16]}…`",
        ]
        for name, one in found["clocks"].items()
    ]
    return [
        "Every reading of the wall clock is wrong by up to ten years. After each change, the files of a folder get "
        "times in the past or in the future. Promise: deadlines and the circuit breaker keep working. A reader that "
        "follows the folder misses no change, and the log is merged. The contents of the folder equal, to the bit, the "
        "contents after a run with the true time.",
        table(columns, rows),
    ]


FAULTS = {
    "the n-th rename is made and fails": "the n-th rename takes effect, but returns an error",
    "there are no locks": "the file system has no locks",
    "half of each write from the n-th": "from the n-th write on, only half of the bytes are written",
}
"""Longer names of some faults of disk.py."""


def disk(found: dict[str, Any]) -> list[str]:
    """Return the section of docs/reliability.md about disk.py (failing calls of the disk), from its figures."""
    rows = [
        [name, FAULTS.get(fault, fault), *(one[kind] for kind in ("calls", "told", "done", "old"))]
        for name, faults in found["commands"].items()
        for fault, one in faults.items()
    ]
    every = [f"`{name}`" for name in ("index --sync", "delete", "reembed") if name in found["commands"]]
    often = f" For {', '.join(every)}, at least every second n is tested." if every else ""
    return [
        "A preloaded library makes the n-th write, sync, rename or lock of a command fail. The run repeats the command "
        f"for different n (`--step`).{often} The command must exit with 0 or 1. Its target (the file or folder that it "
        "writes) must then be complete, in the old or in the new state. The command must succeed when it is run again "
        "without the fault. One fault is a short write: from the n-th write on, every write writes only half of its "
        "bytes. A short write is not an error, so the command must exit with 0.",
        "The columns count runs: runs in which a call failed, runs that exited with 1 or with 0, and runs that left "
        "the target in the old state.",
        table(["command", "fault", "runs with a failing call", "exit 1", "exit 0", "target in the old state"], rows),
    ]


def fuzz(found: dict[str, Any]) -> list[str]:
    """Return the section of docs/reliability.md about fuzz.py (damaged files), from its figures."""
    rows = []
    for name, one in sorted(found["kinds"].items()):
        wrong = sum(count for outcome, count in one.items() if outcome not in ("success", "refused"))
        rows.append([name, sum(one.values()), one.get("success", 0), one.get("refused", 0), wrong])
    return [
        f"The run loads {found['cases_run']:,} damaged or hostile inputs. Inputs whose code was executed: "
        f"{found['code_run']}. *Refused* means that phasegraph raised an error of its own. *Wrong* means any other "
        "error, a crash of the process, or a time above 20 seconds.",
        table(["", "cases", "loaded and used", "refused", "wrong"], rows),
    ]


def determinism(found: dict[str, Any]) -> list[str]:
    """Return the section of docs/reliability.md about determinism.py (equal answers), from its figures."""
    rows = [[name, len(said), f"`{said[0][:16]}…`"] for name, said in sorted(found["digests"].items())]
    return [
        "The run asks the same questions in processes with different hash seeds, with all six orders of the sources, "
        "sync and async, in both frameworks. Ids, texts, scores, fused values and contributions must always have the "
        "same SHA-256.",
        table(["", "different digests", "SHA-256"], rows),
    ]


def compare(found: dict[str, Any]) -> list[str]:
    """Return the section of docs/reliability.md about compare.py (laws of fusion), from its figures."""
    names = sorted(found["laws"], key=lambda law: int(law[1:]))
    fusers = list(found["order"])

    def cell(fuser: str, law: str) -> str:
        row = found["table"][fuser]["laws"][law]
        if "not_applicable" in row:
            return "n/a"
        return "holds" if not row["broken"] else f"**{row['broken']}**"

    laws = [[law, found["laws"][law], *(cell(fuser, law) for fuser in fusers)] for law in names]
    sums = []
    for what, test in (("hold", "holds"), ("do not apply", "n/a")):
        sums.append(["", f"*laws that {what}*", *(sum(cell(one, law) == test for law in names) for one in fusers)])
    adapters = [f"- **{one}**: {found['table'][one]['adapter']}." for one in fusers]
    reasons: dict[tuple[str, str], list[str]] = {}
    for one in fusers:
        for law in names:
            why = found["table"][one]["laws"][law].get("not_applicable")
            if why:
                reasons.setdefault((law, why), []).append(one)
    others = [one for one in fusers if not one.startswith("phasegraph")]
    missing = [
        [law, "all packages except phasegraph" if those == others else "; ".join(those), _of_a_package(why)]
        for (law, why), those in sorted(reasons.items(), key=lambda one: int(one[0][0][1:]))
    ]
    conditional = [f"- {law} {said}." for law, said in found["conditional"].items()]
    told = {"phasegraph, LangChain", "phasegraph, LlamaIndex"}
    columns = ["", "queries", "kinds", "answerable", "lost to a leaked error", "unlike the oracle",
               "reported as degraded", "failures not reported"]  # fmt: skip
    faults = [
        [name, one["queries"], one["kinds"], one["queries"] - one["all_failed"] - one["exits"], one["leaked"],
         one["different"], one["degraded"] if name in told else "no report",
         one["unreported"] if name in told else "–"]
        for name, one in sorted(found["chaos"].items(), reverse=True)
    ]  # fmt: skip
    versions = ", ".join(f"{name} {version}" for name, version in sorted(found["versions"].items()))
    return [
        f"The run fuses {found['cases']} random cases with a fixed seed: two or three lists of 5 to 12 hits, half of "
        "them with many ties. It checks a list of laws for phasegraph and for other packages. A number in the table "
        "is the number of cases in which the package breaks the law. An error on valid input counts as a break. "
        f"The versions are {versions}.",
        table(["", "law", *fusers], [*laws, *sums]),
        "How the run calls each package:",
        "\n".join(adapters),
        "Some laws do not apply to some packages. For each such law, the table gives the packages and the reason:",
        table(["law", "packages", "why the law does not apply to a package of this row"], missing),
        "phasegraph promises the following laws only under a condition. The run measures them without the condition:",
        "\n".join(conditional),
        "### Failing sources in other retrievers",
        "The run gives the sources of other retrievers the same faults, as far as these sources can have them. It asks "
        "one query after another. If the error of one source leaks, the caller also loses the answers of the two other "
        "sources. *Unlike the oracle* means that the answer differs from the answer of a retriever of the same class "
        "that was built without the failed sources.",
        table(columns, faults),
    ]


def _of_a_package(reason: str) -> str:
    """Return the reason why a law does not apply to a package, with "the package" in place of "it".

    >>> _of_a_package("it takes no weights"), _of_a_package("its sources have no scores")
    ('the package takes no weights', 'the sources of the package have no scores')
    """
    if reason.startswith("it "):
        return f"the package {reason.removeprefix('it ')}"
    noun, rest = reason.removeprefix("its ").split(" ", 1)
    return f"the {noun} of the package {rest}"


TITLES = {
    "chaos": ("A failing source does not change the other sources' answer", chaos),
    "kills": ("A folder stays complete when a process dies or the disk is full", kills),
    "soak": ("A call leaves no memory, thread or file behind", soak),
    "siege": ("Hostile clients cost honest clients little", siege),
    "connections": ("A flood of connections locks nobody out", connections),
    "clocks": ("The clock may be set back and forth", clocks),
    "disk": ("A full or failing disk loses nothing", disk),
    "fuzz": ("Damaged files and hostile input are refused", fuzz),
    "determinism": ("The same answer, to the bit", determinism),
    "compare": ("The laws of fusion, in phasegraph and other packages", compare),
}


ATTACKS = {
    "tests/suites/stages.py": "24 hostile behaviors of each stage's model, in LangChain and in LlamaIndex",
    "tests/distributed/test_hostile_workers.py": "workers that falsely report that they are done; two builds of one "
    "index at once",
    "tests/distributed/test_ray.py": "shards that raise an error, are damaged or repeat the ids of another shard; an "
    "actor, a node and a driver that are killed (`make test-distributed`)",
    "tests/distributed/test_spark.py": "shards with the faults of `test_ray.py`; a worker and a driver that are killed "
    "(`make test-distributed`)",
    "tests/neo4j/test_outages_in_writes.py": "a real Neo4j that is killed or frozen while a corpus is written, "
    "changed, and dropped, over `bolt://` and `neo4j://` (`make test-servers`)",
    "tests/serving/test_lying_models.py": "a model of `serve` whose vectors have another length, NaN or infinity from "
    "its second question (`make test-servers`)",
    "integrations/langchain-phasegraph/tests/test_lying_stores.py": "a model with the faults of "
    "`test_lying_models.py` over LangChain's stores, and a store that holds NaN",
    "integrations/llama-index-retrievers-phasegraph/tests/test_lying_stores.py": "a model with the "
    "faults of `test_lying_models.py` over LlamaIndex's stores",
    "tests/test_serialization.py": "sparse files in place of arrays",
    "tests/reading/test_places.py": "archives that unpack to too many bytes, or state a wrong size",
}
"""Attacks that are tests, which either hold or fail, by file."""


def page(folder: Path = FIGURES) -> str:
    """Return docs/reliability.md as Markdown, from the files of figures in `folder`."""
    parts = [
        "# Reliability: our promises, and the last measurements",
        "You want to know what phasegraph promises, and whether it keeps its promises. Each section has one promise, "
        "the command that checked it last, and the result.",
        "`python tools/reliability/promises.py` writes this page from `docs/reliability/*.json`. These files are the "
        f"results of {', '.join(f'`make {name}`' for name in RUNS)}. Each command prints its verdict in its last line, "
        "and exits with 1 if a promise is broken. A section may show a smaller run than the `make` target; its first "
        "line is the exact command.",
    ]
    for name in RUNS:
        title, told = TITLES[name]
        parts.append(f"## {title}")
        file = folder / f"{name}.json"
        if not file.is_file():
            parts.append(f"There is no result of `make {name}` yet.")
            continue
        found = json.loads(file.read_text(encoding="utf-8"))
        parts.append(f"`{found['command']}`")
        parts += told(found)
        broken = found["broken"]
        said = "\n".join(f"- {one}" for one in broken)
        parts.append(f"These promises were broken:\n\n{said}" if broken else "All promises of this section were kept.")
    parts.append("## Attacks that are tests")
    parts.append(table(["tests", "attack"], [[f"`{file}`", what] for file, what in ATTACKS.items()]))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)} written\n")
