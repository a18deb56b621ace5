"""Write docs/research/scale.md from the figures of measure.py: ``python tools/scale/scale_page.py``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FIGURES, PAGE = ROOT / "docs" / "research" / "scale.json", ROOT / "docs" / "research" / "scale.md"
FAR = 100_000_000
SCRATCH = 3 * 8 + 3 * 4 + 8
"""Bytes a node of the scratch memory of one walk, where all of it were looked at."""


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [columns, ["---"] * len(columns), *rows])


def number(value: float) -> str:
    """A figure with as many places as it needs."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def main() -> None:
    """Write the page."""
    kept = json.loads(FIGURES.read_text())
    sizes: dict[str, Any] = kept["sizes"]
    names = sorted(sizes, key=int)

    def row(title: str, of: Callable[[dict[str, Any]], float], exponent: str = "") -> list[str]:
        cells = []
        for size in names:
            try:
                cells.append(number(of(sizes[size])))
            except KeyError:
                cells.append("–")
        grows = kept["growth"].get(exponent)
        return [title, *cells, "" if grows is None else f"{grows:.2f}"]

    columns = ["passages", *(f"{int(size):,}" for size in names), "exponent"]
    built = table(
        columns,
        [
            row("entities", lambda one: one["build"]["entities"], "build.entities"),
            row("building, s of processor", lambda one: one["build"]["cpu_s"], "build.cpu_s"),
            row("peak memory, the corpus included, MB", lambda one: one["build"]["peak_mb"], "build.peak_mb"),
            row("on disk, MB", lambda one: one["build"]["disk_mb"], "build.disk_mb"),
            row("in shards, s of processor", lambda one: one["shards"]["cpu_s"], "shards.cpu_s"),
            row("in shards, peak memory, MB", lambda one: one["shards"]["peak_mb"], "shards.peak_mb"),
        ],
    )
    opened = table(
        columns[:-1],
        [
            row(title, lambda one, way=way, part=part: 1000 * one["open"][way][part])[:-1]  # type: ignore[misc]
            for title, way, part in (
                ("first time after saving, ms of processor", "saved", "cpu_s"),
                ("first time after copying: structure checked", "first", "cpu_s"),
                ("the same to the answer to a first question", "answer", "cpu_s"),
                ("all of it with the checksums of every byte", "first", "settled_cpu_s"),
                ("`verify=False` before that: checked but for checksums", "unverified", "cpu_s"),
                ("later, for updating", "for_updating", "cpu_s"),
                ("later, for searching", "for_searching", "cpu_s"),
            )
        ]
        + [row("private memory of it, MB", lambda one: one["open"]["for_updating"]["private_mb"])[:-1]],
    )
    asked = table(
        columns,
        [
            row(f"{title}, {what}", lambda one, way=way, part=part: one["search"][way][part], f"search.{way}.{part}")  # type: ignore[misc]
            for title, way in (("default", "auto"), ("`all`", "all"), ("`listed`", "listed"))
            for what, part in (("p50 ms", "cpu_p50_ms"), ("p95 ms", "cpu_p95_ms"), ("Recall@10", "recall_at_10"))
        ]
        + [
            row("default, private MB", lambda one: one["search"]["auto"]["private_mb"]),
            row("four processes at once, private MB of each", lambda one: one["share"]["private_each_mb"]),
            row("four together, mapped pages counted once, MB", lambda one: one["share"]["all_together_mb"]),
        ],
    )
    changed = table(
        columns,
        [
            row(title, lambda one, name=name: one["update"][name]["cpu_s"], f"update.{name}.cpu_s")  # type: ignore[misc]
            for title, name in (("first 100 added, s", "first_add"), ("next 100 added, s", "next_add"),
                                ("100 removed, s", "remove"), ("these merged, s", "merge"))
        ]
        + [row("private MB", lambda one: one["update"]["private_mb"], "update.private_mb")],
    )  # fmt: skip
    one, *_ = kept["speedup"].values()
    faster = table(
        ["workers", "s of processor", "of these in the driver", "critical path, s", "times as fast"],
        [
            [
                n,
                *(number(each[name]) for name in ("cpu_s", "alone_s", "path_s")),
                f"{one['path_s'] / each['path_s']:.2f}",
            ]
            for n, each in kept["speedup"].items()
        ],
    )
    largest, sharded = sizes[names[-1]]["build"], sizes[names[-1]]["shards"]
    more = sharded["peak_mb"] - sizes[names[-2]]["shards"]["peak_mb"]
    grown = more / (int(names[-1]) - int(names[-2]))
    disk = largest["disk_mb"] * 2**20 / largest["passages"]
    nodes = (largest["passages"] + largest["entities"]) / largest["passages"]
    PAGE.write_text(
        TEXT.format(
            built=built, opened=opened, asked=asked, changed=changed, bytes=number(disk), far=f"{FAR:,}",
            far_disk=number(disk * FAR / 2**30), far_nodes=number(nodes * FAR / 1e6),
            far_scratch=number(nodes * FAR * SCRATCH / 2**30), largest=f"{largest['passages']:,}",
            faster=faster, far_cpu=number(sharded["cpu_s"] / largest["passages"] * FAR / 3600),
            far_driver=number(grown * FAR / 2**10), far_work=number(2 * disk * FAR / 2**40),
            near_driver=number((sharded["peak_mb"] + 3e6 * grown) / 2**10),
        )
    )  # fmt: skip


TEXT = """# At size

*Record of 2026-11-23, commit d26c3d9: the figures of this page are those of that code.*

What an index costs from ten thousand passages on. Seconds and milliseconds are processor time of one thread, on two
shared cores that were busy with other work; counts and bytes are exact. An *exponent* e says that a figure grows with
the size to the power of e, from the smallest to the largest size here.

    python tools/scale/measure.py 10000 100000 1000000 --work /tmp/scale --json docs/research/scale.json
    python tools/scale/scale_page.py

The corpus (`tools/scale/corpus.py`) is made of the 14,813 real passages of 2Wiki and MuSiQue, repeated with other
names: titles are unique, a passage links to the passages of its copy that the real one links to, all other names
follow Zipf's law, embeddings are the real ones (MiniLM), shifted by copy and passage. Without the two sets the
bundled passages serve.

## Building

{built}

Building is without saving, which took 0.84, 11.5 and 110 s of processor besides, the walk's edges
included. *In shards* is `phasegraph index --engine local --workers
1`: one process from a file of JSON lines to the saved index, reading, checksums and saving included, which the figures
above are without; equal to the bit, as compared at 100,000. A dozen other processes shared the two cores when it was
measured, which adds to seconds of processor; at the largest size its reduction held more then than it does now.

## Workers

100,000 passages in 16 shards, by `python tools/scale/distributed.py CORPUS.jsonl --shards 16 --speedup 1,2,4,8 --json
docs/research/scale.json`. Two cores were there, so that the time of more workers is computed from measured seconds of
processor: those of the driver, and for each map those of the busiest of so many workers, each of which takes the next
shard when it is done with one.

{faster}

What the driver does alone is the reduction: names of titles before the second map, one index of all shards after it.

## Opening

{opened}

Seven programs for each core ran beside these measurements, which adds to seconds of processor. The answer to a first
question includes loading the compiled walk.

Ids, names, words and the prepared edges of the walk stay in the files: a text is decoded when it is asked for, a row
is found by bisection over a saved order. After copying, structure is checked before anything is used: what compiled
code relies on, and whether the arrays fit together. Of more than 64 MiB, the checksums are compared on a thread of low
priority while the graph is in use. A damaged file is logged, and from then on every search, every save and every
opening of this state of the files raises IntegrityError with its name.

What makes the difference between the first time after copying and later is a note in the user's cache directory: once
checksums have been compared, and the arrays found to fit together, inode, size and times of every file are noted
there, and as long as these are the same nothing is read again. The note lies outside of the folder, so that whoever
hands over a folder cannot say that it was checked. Who saves an index notes the same: the checksums are those of the
bytes that were just written, and the arrays those of a graph that was checked when it was made or opened. It looks at
the files' times when the file system's clock has gone on, so that whatever changes a file after that is seen; where
that clock is coarser than a millisecond it notes nothing. A program that changes a file changes its times (those of
status changes, which no program sets), so that damage by programs is found as before; files that changed less than two
seconds ago are not trusted. What a disk loses silently beneath is found by `load_graph(..., verify="again")`, which
always reads every byte. Where the user has no cache directory, and on Windows, nothing is noted and every opening is a
first one.

## Searching

`GraphSource.search` with the query's vector and a dense list of 50, which the vector store would give and which is
not timed; lists of 50; 200 questions, the second time they are asked.

{asked}

Up to 50,000 passages the default compares all with the query (`WalkSettings(compare="all")` always does), above it
takes them from lists (`"listed"`):

* seeds: from the passages of the dense list and the 200 that BM25 has foremost, found in the entries of the query's
  rarer words (2,048 in all) and, where these are too few, among the 500 passages in which the next word weighs most;
* edges: by the relevance of the passage they lead to, worked out for those seeds' candidates and for each passage to
  which more than a thousandth of the mass is about to flow; all others count as the mean of the sample;
* scores: of the passages so known, and of an even sample of 1,024, which stands for all others in every mean and
  deviation, so that the background that fusion needs is that of the whole collection.

*Private* is memory of a process's own (Private_Dirty); mapped pages are shared, and the system may drop them.

What is left that grows is memory: the walk reads as many edges, from farther apart. Without a dense list, or without
a limit, the default compares all: nothing else finds what only the meaning says.

The rows of `default` are the last of three runs. The p95 at 1,000,000 over that at 10,000 was 1.35 (9.87 and 7.31 ms),
2.42 (14.1 and 5.83; another program worked on large arrays beside it, and mapped pages came and went) and 1.76 (13.0
and 7.39). `all` and `listed` are from before passages that much is about to flow to were found inside the compiled
rounds, and what is known of a passage kept within a search. Before and after that, run in turn, answers equal to the
bit, ms of processor p50 / p95: at 10,000 passages 7.03 / 8.92 and 5.74 / 6.89, at 100,000 12.75 / 15.96 and 7.18 /
8.85.

A filter by ids reads what is allowed, what that mentions and the entries of a query's words: at 100,000 passages, 100
of them allowed, 7 ms of processor for a new filter (689 before, when it passed over all passages and words), 1,000
allowed 25 (609). A function is asked about each passage, and where the two ends of a fact are entities too common for
the walk, all mentions are read.

Batches (`phasegraph retrieve`, lists from names and words, 500 questions of 2Wiki on 100,000 passages of four real
sets): 142 to 219 questions a second and core, 74 to 97 before, as other work left room.

Recall@5 of the walk / of the default of two, all compared and listed, on the open sets (lists of 50, MiniLM; each set
has fewer than 50,000 passages, `listed` was asked for), before the walk heeded what a question asks about its names
(`WordSettings(relation=0)`):

| | all | listed |
|---|---|---|
| 2wiki | 97.9 / 97.7 | 97.8 / 97.6 |
| musique | 72.4 / 72.4 | 72.7 / 72.8 |
| hotpotqa-small | 96.5 / 96.5 | 96.5 / 96.5 |
| hetdocqa | 80.2 / 80.1 | 80.1 / 80.0 |
| multihoprag | 44.7 / 44.8 | 44.9 / 44.8 |
| musique-openie | 82.7 / 82.7 | 82.7 / 82.7 |
| 2wiki-small | 98.2 / 98.2 | 98.0 / 98.0 |
| musique-2hop | 81.8 / 81.5 | 82.0 / 82.0 |

## Updating

{changed}

Each is a change through a folder, with all that the next search needs. Up to 50,000 passages new arrays are made for
it, which cost time in the collection. Above, a change goes into a log beside the arrays, on disk as one small bundle
and in memory as rows: new passages and entities stand behind those there are, those that left keep rows that nothing
leads to, and only the edges of nodes that the change touches are made anew. What depends on all passages (rarity,
idf, mean length) is worked out when a search asks for it. A search by lists walks both and finds what it would in a
new index, but for the rounding of sums in another order: scores agree to 1e-9 (`tests/graph/test_deltas.py`). What an
entity's share of *all* passages decides, whether it is too common to have edges, is decided anew where a change
touches the entity, for the others when the log is merged. A name that stands in very many passages touches these:
removing a passage whose title no other has means reading again every passage in which the title stands.

At 1,000,000 passages new arrays took 11.3, 9.8 and 6.9 s and 3.8 GB. Merging takes the time and memory of new arrays
still: 6 GB at the peak there.

The log is merged, to the bit of a new index, by `GraphIndex.compact()`, by saving, and by a folder when 5 % of the
passages have changed, or 10,000; and in memory, once for each change, for what it does not serve: searches that
compare all passages, or within some of them, with embedded facts, or a look at the graph's arrays. Indexes with
embedded names have no log. The walk over a log is not compiled, so that a search takes about two and a half times as
long at 100,000 passages (10 ms without a log, 26 ms with 100 or 950 passages in it).

## {far} passages

Computed, not measured: at {bytes} bytes a passage on disk (embeddings of 384 numbers in 1,536 of them, at {largest}
passages) the files have {far_disk} GiB, of {far_nodes} million nodes, in proportion; one machine maps that, and the
scratch memory of a walk would be {far_scratch} GiB if every page of it came to be touched. Building takes {far_cpu}
hours of processor in shards, most of them in workers of half a gigabyte each, on any number of machines, with a shared
folder of {far_work} TiB for finished shards. The one driver would hold {far_driver} GiB by the growth between the two
largest sizes ({near_driver} GiB at 4,000,000 passages); of the reduction as it is now, 23 MB were counted for 100,000
passages (`tracemalloc`), which makes 22 GiB, and 1.3 GiB at 4,000,000. Neither size was built here.
"""


if __name__ == "__main__":
    main()
