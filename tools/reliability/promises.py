"""Write the page of promises from the figures that the runs left: ``python tools/reliability/promises.py``."""

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
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def chaos(found: dict[str, Any]) -> list[str]:
    """What chaos.py found."""
    columns = ["", "queries", "faults", "kinds", "answered", "of these degraded", "every source failed", "exits",
               "held up by the machine", "leaked", "unlike the oracle", "unreported", "reported falsely",
                "hits miscounted",
               "p50 ms", "p99 ms", "p99 over the deadline, ms", "beyond the stalls as well, ms",
               "longest stall beside, ms"]  # fmt: skip
    rows = [
        [name, one["queries"], one["faults"], one["kinds"], one["answered"], one["degraded"], one["all_failed"],
         one["exits"], one["held_up"], one["leaked"], one["different"], one["unreported"], one["falsely_reported"],
         one["miscounted"],
         one["ms"]["p50"], one["ms"]["p99"], one["over_deadline_ms"].get("p99", "–"),
         one.get("beyond_stalls_ms", {}).get("p99", "–"), one["longest_stall_ms"]]
        for name, one in sorted(found["modes"].items())
    ]  # fmt: skip
    return [
        "Three sources, a fifth of all (source, query) pairs struck: "
        + ", ".join(found["kinds"])
        + ". *Oracle*: the answer, passages and bits, of a retriever built without the sources that failed. Where "
        "every source failed, AllSourcesFailed is raised with every cause; where one asks for SystemExit, that passes. "
        f"Deadline {found['deadline_ms']:g} ms; a hang lasts longer, and there p99 is at most 50 ms beyond the "
        "deadline and the stalls within the call. *Stall*: a plain timer in the process was late by 20 ms or more. "
        "*Held up*: by 200 ms or more in all within the call; which source was late is taken as reported there, and "
        "all else must hold.",
        table(columns, rows),
    ]


def kills(found: dict[str, Any]) -> list[str]:
    """What kills.py found."""
    columns = ["", "kills", "left the old folder", "left the new folder", "full disks", "left the old folder",
               "left the new folder"]  # fmt: skip
    rows = [
        [name, *(part for kind in ("kills", "full") for part in _outcomes(found[kind][name]))]
        for name in found["kills"]
    ]
    return [
        f"{found['kills_made']} processes were killed, each before another call that changes the disk. The disk was "
        "full from each call on that needs room. The folder opened as it was before the command or after it, and the "
        "same command completed it. After a full disk, the error names the disk, or the command made its change.",
        table(columns, rows),
    ]


def _outcomes(counts: dict[str, int]) -> list[int]:
    return [sum(counts.values()), counts.get("old", 0), counts.get("new", 0)]


def soak(found: dict[str, Any]) -> list[str]:
    """What soak.py found."""
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
        f"Promise: resident memory at the end at most {found['most_growth']} times that after a tenth, both after the "
        "C library has given back the freed memory that it kept. It keeps some megabytes more or less by chance. "
        "Earlier runs over long lists, without this step and without a count of objects, grew 1.0297 and 1.0261 times; "
        "that kept memory is their likely reason. Threads, file descriptors and tasks as many, and at most 16 workers "
        "of sources, which come and go. Questions all differ, every fourth is awaited, every twentieth has a filter.",
        table(columns, rows),
    ]


def siege(found: dict[str, Any]) -> list[str]:
    """What siege.py found."""
    rows = [
        [kind, found["answers"][kind], *(found["ms"][kind][one] for one in ("p50", "p99", "max"))]
        for kind in ("quiet", "hostile")
    ]
    statuses = [
        [name, ", ".join(f"{count:,} {what}" for what, count in one.items()) or "held open"]
        for name, one in found["hostile"].items()
    ]
    memory = found["resident_mb"]
    return [
        f"Promise: beside hostile clients, honest p99 is at most {found['most_ratio']:g} times that of the quiet "
        "windows between, every honest request is answered in whole, and no answer holds a passage of another tenant. "
        f"Found: {found['ratio']} times; the server had {memory['start']} MB and at most {memory['most']} MB. Load of "
        f"the machine over 15 minutes, with whatever else it did: {found['load']}.",
        table(["honest answers", "counted", "p50 ms", "p99 ms", "most ms"], rows),
        table(["what a hostile client does", "what it got"], statuses),
    ]


def connections(found: dict[str, Any]) -> list[str]:
    """What connections.py found."""
    columns = ["server", "connections at once, at most", "what became of them", "honest answers quiet", "p50 ms",
               "honest answers beside", "p50 ms", "most ms", "the server's MB before", "at most"]  # fmt: skip
    rows = []
    for name, one in found["servers"].items():
        said = ", ".join(f"{count:,} {what}" for what, count in one["outcomes"].items())
        quiet, beside = (one["ms"][kind] for kind in ("quiet", "hostile"))
        memory = [one["resident_kb"][kind] // 1024 for kind in ("before", "most")]
        rows.append([name, f"{one['most']:,}", said, one["answers"]["quiet"], quiet["p50"], one["answers"]["hostile"],
                     beside["p50"], beside["max"], *memory])  # fmt: skip
    return [
        "A process keeps opening connections that send nothing or half a head; the server closes each within five "
        "seconds (408), or at once if there is no room. Promise: each honest request from the same address is answered "
        "in whole, and the server lives. How many connections are open at once depends on how fast this machine, with "
        f"a load of {found['load']} and {found['open_files']:,} open files for a process, opens them anew.",
        table(columns, rows),
    ]


def clocks(found: dict[str, Any]) -> list[str]:
    """What clocks.py found."""
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
        "Each look of a process at the wall clock is up to ten years off, and the files of a folder get times of the "
        "past or the future after each change. Promise: deadlines and the circuit breaker go on, a reader that follows "
        "the folder misses no change, the log is merged, and the folder holds the same to the bit.",
        table(columns, rows),
    ]


def disk(found: dict[str, Any]) -> list[str]:
    """What disk.py found."""
    rows = [
        [name, fault, *(one[kind] for kind in ("calls", "told", "done", "old"))]
        for name, faults in found["commands"].items()
        for fault, one in faults.items()
    ]
    return [
        "A preloaded library makes the n-th write, sync, rename or lock of a command fail, for every n or every so "
        "many (`--step`). Or every write from the n-th takes half of what it is given; that is no error, and the "
        "command must be done. Otherwise the command must end with 0 or 1, leave the old target or the new whole, and "
        "succeed when run again.",
        table(["command", "fault", "calls struck", "ended with an error", "done", "old target stays"], rows),
    ]


def fuzz(found: dict[str, Any]) -> list[str]:
    """What fuzz.py found."""
    rows = []
    for name, one in sorted(found["kinds"].items()):
        wrong = sum(count for outcome, count in one.items() if outcome not in ("success", "refused"))
        rows.append([name, sum(one.values()), one.get("success", 0), one.get("refused", 0), wrong])
    return [
        f"{found['cases_run']:,} cases; code that ran: {found['code_run']}. *Refused*: an error of the library's own. "
        "*Wrong*: any other error, the end of the process, or 20 seconds.",
        table(["", "cases", "loaded and used", "refused", "wrong"], rows),
    ]


def determinism(found: dict[str, Any]) -> list[str]:
    """What determinism.py found."""
    rows = [[name, len(said), f"`{said[0][:16]}…`"] for name, said in sorted(found["digests"].items())]
    return [
        "Processes with other hash seeds, all six orders of the sources, asked and awaited, in both frameworks: ids, "
        "texts, scores, fused values and contributions have one SHA-256.",
        table(["", "different digests", "SHA-256"], rows),
    ]


def compare(found: dict[str, Any]) -> list[str]:
    """What compare.py found."""
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
    reasons: dict[str, list[str]] = {}
    for one in fusers:
        for law in names:
            why = found["table"][one]["laws"][law].get("not_applicable")
            if why:
                reasons.setdefault(f"{law}, {why}", []).append(one)
    missing = [f"- {why}: {', '.join(those)}." for why, those in reasons.items()]
    conditional = [f"- {law} of ours {said}." for law, said in found["conditional"].items()]
    told = {"phasegraph, LangChain", "phasegraph, LlamaIndex"}
    columns = ["", "queries", "kinds", "answerable", "lost to a leaked error", "unlike the oracle",
               "said to be degraded", "unreported"]  # fmt: skip
    faults = [
        [name, one["queries"], one["kinds"], one["queries"] - one["all_failed"] - one["exits"], one["leaked"],
         one["different"], one["degraded"] if name in told else "it cannot say",
         one["unreported"] if name in told else "–"]
        for name, one in sorted(found["chaos"].items(), reverse=True)
    ]  # fmt: skip
    versions = ", ".join(f"{name} {version}" for name, version in sorted(found["versions"].items()))
    return [
        f"{found['cases']} random cases with a fixed seed: two or three lists of 5 to 12 hits, half of them with many "
        "ties. A number says in how many cases the law is broken; raising an error on valid input breaks it. "
        f"{versions}.",
        table(["", "law", *fusers], [*laws, *sums]),
        "How each is asked:",
        "\n".join(adapters),
        "What does not apply, and why:",
        "\n".join(missing),
        "What ours promises on conditions only, measured here without them:",
        "\n".join(conditional),
        "### Chaos over those that ask sources",
        "The same faults, one query after another, as far as a source of the framework can have them. Two sources that "
        "answer are lost to a caller where the third one's error leaks; *unlike the oracle*: an answer came, and not "
        "that of a retriever of the same class built without the sources that failed.",
        table(columns, faults),
    ]


TITLES = {
    "chaos": ("A source that fails costs nothing but itself", chaos),
    "kills": ("A folder is the old one or the new, whenever a process dies or a disk fills up", kills),
    "soak": ("Nothing stays of a call", soak),
    "siege": ("Hostile clients cost honest clients little", siege),
    "connections": ("A flood of connections locks nobody out", connections),
    "clocks": ("The clock may be set back and forth", clocks),
    "disk": ("A full or failing disk loses nothing", disk),
    "fuzz": ("Damaged state and hostile words are refused", fuzz),
    "determinism": ("The same answer, to the bit", determinism),
    "compare": ("The laws, over others too", compare),
}


ATTACKS = {
    "tests/suites/stages.py": "24 hostile behaviours of each stage's model, in LangChain and in LlamaIndex",
    "tests/distributed/test_hostile_workers.py": "workers that say that they are done and are not; two builds of one "
    "index at once",
    "tests/distributed/test_ray.py": "shards that raise, are rubbish or repeat the ids of another shard; an actor, a "
    "node and a driver that are killed (`make test-distributed`)",
    "tests/distributed/test_spark.py": "the same shards; a worker that is killed (`make test-distributed`)",
    "tests/neo4j/test_outages_in_writes.py": "a real Neo4j that is killed or frozen while a corpus is written, "
    "changed, and dropped, over `bolt://` and `neo4j://` (`make test-servers`)",
}
"""Attacks that are tests, which either hold or fail, by file."""


def page(folder: Path = FIGURES) -> str:
    """The page as Markdown."""
    parts = [
        "# Reliability: what is promised, and the last figures",
        "Written by `python tools/reliability/promises.py` from `docs/reliability/*.json`, which the runs leave: "
        f"{', '.join(f'`make {name}`' for name in RUNS)}. Each says its verdict in its last line and ends with 1 where "
        "a promise is broken. The figures here are those of the command that is named, which may be a smaller run than "
        "the target makes.",
    ]
    for name in RUNS:
        title, told = TITLES[name]
        parts.append(f"## {title}")
        file = folder / f"{name}.json"
        if not file.is_file():
            parts.append(f"`make {name}` has left no figures yet.")
            continue
        found = json.loads(file.read_text(encoding="utf-8"))
        parts.append(f"`{found['command']}`")
        parts += told(found)
        broken = found["broken"]
        said = "\n".join(f"- {one}" for one in broken)
        parts.append(f"Broken:\n\n{said}" if broken else "Every promise held.")
    parts.append("## Attacks that are tests")
    parts.append(table(["tests", "what they do"], [[f"`{file}`", what] for file, what in ATTACKS.items()]))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)} written\n")
