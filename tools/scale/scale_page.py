"""Write docs/research/scale.md from the figures of measure.py: ``python tools/scale/scale_page.py``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FIGURES, PAGE = ROOT / "docs" / "research" / "scale.json", ROOT / "docs" / "research" / "scale.md"
Row = Callable[..., list[str]]
FAR = 100_000_000
SCRATCH = 3 * 8 + 3 * 4 + 8
"""Bytes a node of the scratch memory of one walk, where all of it were looked at."""


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table."""
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [columns, ["---"] * len(columns), *rows])


def number(value: float) -> str:
    """Return a figure as text with three digits, or as a whole number from 100 on."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def main() -> None:
    """Write docs/research/scale.md."""
    kept = json.loads(FIGURES.read_text())
    names = sorted(kept["sizes"], key=int)
    columns = ["passages", *(f"{int(size):,}" for size in names), "exponent"]
    row = partial(_row, kept, names)
    largest, sharded = kept["sizes"][names[-1]]["build"], kept["sizes"][names[-1]]["shards"]
    more = sharded["peak_mb"] - kept["sizes"][names[-2]]["shards"]["peak_mb"]
    grown = more / (int(names[-1]) - int(names[-2]))
    disk = largest["disk_mb"] * 2**20 / largest["passages"]
    nodes = (largest["passages"] + largest["entities"]) / largest["passages"]
    PAGE.write_text(
        TEXT.format(
            built=table(columns, _building(row)), opened=table(columns[:-1], _opening(row)),
            asked=table(columns, _searching(row)), changed=table(columns, _updating(row)),
            bytes=number(disk), far=f"{FAR:,}",
            far_disk=number(disk * FAR / 2**30), far_nodes=number(nodes * FAR / 1e6),
            far_scratch=number(nodes * FAR * SCRATCH / 2**30), largest=f"{largest['passages']:,}",
            faster=_more_workers(kept["speedup"]), far_cpu=number(sharded["cpu_s"] / largest["passages"] * FAR / 3600),
            far_driver=number(grown * FAR / 2**10), far_work=number(2 * disk * FAR / 2**40),
            near_driver=number((sharded["peak_mb"] + 3e6 * grown) / 2**10),
        )
    )  # fmt: skip


def _row(
    kept: Mapping[str, Any], names: Sequence[str], title: str, of: Callable[[dict[str, Any]], float], exponent: str = ""
) -> list[str]:
    """Return a row of a table: `of` gives the figure of a size, and `exponent` names the growth in `kept`."""
    cells = []
    for size in names:
        try:
            cells.append(number(of(kept["sizes"][size])))
        except KeyError:
            cells.append("–")
    grows = kept["growth"].get(exponent)
    return [title, *cells, "" if grows is None else f"{grows:.2f}"]


def _building(row: Row) -> list[list[str]]:
    """Return the rows of the table of building."""
    return [
        row("entities", lambda one: one["build"]["entities"], "build.entities"),
        row("building, s of processor", lambda one: one["build"]["cpu_s"], "build.cpu_s"),
        row("peak memory, the corpus included, MB", lambda one: one["build"]["peak_mb"], "build.peak_mb"),
        row("on disk, MB", lambda one: one["build"]["disk_mb"], "build.disk_mb"),
        row("in shards, s of processor", lambda one: one["shards"]["cpu_s"], "shards.cpu_s"),
        row("in shards, peak memory, MB", lambda one: one["shards"]["peak_mb"], "shards.peak_mb"),
    ]


def _opening(row: Row) -> list[list[str]]:
    """Return the rows of the table of opening, without exponents."""
    return [
        *(
            row(title, lambda one, way=way, part=part: 1000 * one["open"][way][part])[:-1]
            for title, way, part in (
                ("first time after saving, ms of processor", "saved", "cpu_s"),
                ("first time after copying: structure checked", "first", "cpu_s"),
                ("the same to the answer to a first question", "answer", "cpu_s"),
                ("all of it with the checksums of every byte", "first", "settled_cpu_s"),
                ("`verify=False` before that: checked but for checksums", "unverified", "cpu_s"),
                ("later, for updating", "for_updating", "cpu_s"),
                ("later, for searching", "for_searching", "cpu_s"),
            )
        ),
        row("private memory of it, MB", lambda one: one["open"]["for_updating"]["private_mb"])[:-1],
    ]


def _searching(row: Row) -> list[list[str]]:
    """Return the rows of the table of searching."""
    return [
        *(
            row(f"{title}, {what}", lambda one, way=way, part=part: one["search"][way][part], f"search.{way}.{part}")
            for title, way in (("default", "auto"), ("`all`", "all"), ("`listed`", "listed"))
            for what, part in (("p50 ms", "cpu_p50_ms"), ("p95 ms", "cpu_p95_ms"), ("Recall@10", "recall_at_10"))
        ),
        row("default, private MB", lambda one: one["search"]["auto"]["private_mb"]),
        row("four processes at once, private MB of each", lambda one: one["share"]["private_each_mb"]),
        row("four together, mapped pages counted once, MB", lambda one: one["share"]["all_together_mb"]),
    ]


def _updating(row: Row) -> list[list[str]]:
    """Return the rows of the table of updating."""
    return [
        *(
            row(title, lambda one, name=name: one["update"][name]["cpu_s"], f"update.{name}.cpu_s")
            for title, name in (
                ("first 100 added, s", "first_add"),
                ("next 100 added, s", "next_add"),
                ("100 removed, s", "remove"),
                ("these merged, s", "merge"),
            )
        ),
        row("private MB", lambda one: one["update"]["private_mb"], "update.private_mb"),
    ]


def _more_workers(speedup: Mapping[str, Any]) -> str:
    """Return the table of building with more workers; `speedup` gives the times of a run by its number of workers."""
    one, *_ = speedup.values()
    return table(
        ["workers", "s of processor", "of these in the driver", "critical path, s", "times as fast"],
        [
            [
                n,
                *(number(each[name]) for name in ("cpu_s", "alone_s", "path_s")),
                f"{one['path_s'] / each['path_s']:.2f}",
            ]
            for n, each in speedup.items()
        ],
    )


TEXT = """# At size

*Record of 2026-11-23, commit d26c3d9: the figures of this page are those of that code.*

You want to know how much time and memory an index of ten thousand passages or more needs. Seconds and milliseconds are
processor time of one thread, on two shared cores that were busy with other work. Counts and bytes are exact. An
*exponent* e means that a figure grows with the size to the power of e, from the smallest to the largest size here.

    python tools/scale/measure.py 10000 100000 1000000 --work /tmp/scale --json docs/research/scale.json
    python tools/scale/scale_page.py

The corpus (`tools/scale/corpus.py`) contains the 14,813 real passages of 2Wiki and MuSiQue, repeated with other names.
All titles are unique. Inside each copy, the passages have the same links as the real passages. All other names follow
Zipf's law. The embeddings are the real embeddings (MiniLM), shifted by copy and passage. Without these two data sets,
the program uses the bundled passages.

## Building

{built}

The time of building does not include saving, which took another 0.84, 11.5 and 110 s of processor time, with the edges
of the walk. *In shards* is `phasegraph index --engine local --workers 1`: one process from a file of JSON lines to the
saved index. Its time includes reading, checksums and saving. The index is equal to the bit; we compared it at 100,000
passages. During its measurement, a dozen other processes shared the two cores, which increases processor time. At the
largest size, the driver used more memory in this trial than it does now.

## Four million passages

*Record of 2026-11-27, commit 46c28ca8. One process built the index in 400 shards with embeddings, then another process
searched it. Other work used the same two cores all the time (loads of 3 to 14), so the seconds are high.*

| 4,000,000 passages | |
| --- | --- |
| building 400 shards, s of processor | about 4,700 |
| merging them, s of processor | 211 |
| peak memory of the process, MB | 917 |
| index on disk, with half-precision vectors, MB | 14,750 |
| disk while building, with corpus and vectors, GB | about 32 |
| opening, ms of processor | 15 |
| 100 questions after opening, p50 / p95 ms of processor | 34.7 / 65.2 |
| the same questions again | 25.4 / 42.3 |
| the same questions a third time | 20.8 / 36.4 |
| Recall@10 | .754 |
| private memory of the searching process, MB | 517 |

The dense lists were exact and computed before. The merge first stopped because the disk was full. After other files
were deleted, the same call continued with the finished shards, and took 450 s. The estimate of the driver's memory for
this size is [below](#100000000-passages): 1.3 to 2.29 GiB; the whole process had .9 GiB.

## Workers

100,000 passages in 16 shards, by `python tools/scale/distributed.py CORPUS.jsonl --shards 16 --speedup 1,2,4,8 --json
docs/research/scale.json`. The machine had two cores, so we computed the time of more workers from measured processor
seconds. The critical path is the time of the driver plus, for each step, the time of the busiest worker. A worker takes
the next shard when it has finished a shard.

{faster}

The driver does two steps alone: it collects the names of titles before the second step of the workers, and joins all
shards into one index at the end.

## Opening

{opened}

During these measurements, seven programs ran for each core, which increases processor time. The answer to a first
question includes loading the compiled walk.

Ids, names, words and the prepared edges of the walk stay in the files. phasegraph decodes a text when it needs the
text, and finds a row by bisection over a saved order. When you open a copied folder, phasegraph first checks the
structure: the conditions of the compiled code, and whether the arrays fit together. If the files are larger than 64
MiB, a thread of low priority compares the checksums while the graph is in use. If a file is damaged, the log names it.
From then on, every search, every save and every opening of these files raises IntegrityError with the name of the file.

Later openings are faster, because phasegraph stores a note in the user's cache directory. When it has compared the
checksums and checked the arrays, it notes inode, size and times of every file. While these are the same, it does not
read the files again. The note is outside the folder, so nobody can give you a folder with a false note. Saving an index
also writes a note, because the checksums are from the bytes that were just written, and the graph was checked when it
was built or opened. phasegraph reads the times of the files after the clock of the file system has advanced, so that it
notices every later change. If this clock is coarser than a millisecond, it writes no note.

A program that changes a file also changes the file's times (the time of the status change, which no program can set).
So phasegraph still notices damage by programs. It does not trust files that changed less than two seconds ago. If a
disk loses data silently, `load_graph(..., verify="again")` notices it, because it always reads every byte. On Windows,
or if the user has no cache directory, phasegraph writes no note, and every opening is like the first.

## Searching

The trial calls `GraphSource.search` with the query's vector and a dense list of 50 hits. A vector store would return
this list; its time is not included. The lists have 50 hits. There are 200 questions, and the figures are of the second
time that each question is asked.

{asked}

Up to 50,000 passages, the default compares the query with all passages; `WalkSettings(compare="all")` always does.
Above 50,000 passages, the default compares the query with listed passages (`"listed"`):

* **Seeds** come from the dense list and the first 200 passages of BM25. phasegraph finds these 200 passages in the
  posting lists of the query's rarer words (2,048 entries in all). If these are too few, it adds the 500 passages in
  which the next word has the most weight.
* **Edges** have a weight by the relevance of the passage to which they lead. phasegraph computes the relevance for the
  candidates of the seeds, and for each passage that will receive more than a thousandth of the mass. All other
  passages get the mean of the sample.
* **Scores** are computed for these passages and for an even sample of 1,024. The sample represents all other passages
  in every mean and deviation, so fusion gets the background of the whole collection.

*Private* is the memory that belongs to one process (Private_Dirty). Mapped pages are shared, and the system may drop
them.

Only memory still grows: the walk reads the same number of edges, but from more distant places in the files. Without a
dense list, or without a limit, the default compares all passages, because no list contains the passages that only have
a similar meaning.

The rows of `default` are the last of three runs. The p95 at 1,000,000 divided by the p95 at 10,000 was 1.35 (9.87 and
7.31 ms), 2.42 (14.1 and 5.83 ms, while another program used large arrays) and 1.76 (13.0 and 7.39 ms). The rows `all`
and `listed` are older than two changes: passages that will receive much mass are now found inside the compiled rounds,
and a search computes the relevance of a passage once. We ran the code before and after these changes in turn; the
answers are equal to the bit. The p50 / p95 in ms of processor time are 7.03 / 8.92 before and 5.74 / 6.89 after at
10,000 passages, and 12.75 / 15.96 before and 7.18 / 8.85 after at 100,000.

A filter by ids reads only the allowed passages, the entities in them, and the posting lists of the query's words. At
100,000 passages, a new filter with 100 allowed passages takes 7 ms of processor time, and with 1,000 allowed passages
25 ms. Formerly it read all passages and words, and took 689 and 609 ms. If the filter is a function, phasegraph calls
it for each passage. If both ends of a fact are entities too common for the walk, it reads all mentions.

A batch (`phasegraph retrieve`, lists from names and words, 500 questions of 2Wiki on 100,000 passages of four real
sets) answers 142 to 219 questions per second and core, depending on the other load; formerly 74 to 97.

The table shows Recall@5 of the walk / of the default with two sources on the public data sets, with all passages
compared and with listed passages (lists of 50, MiniLM). Each set has fewer than 50,000 passages, so we set `listed`
explicitly. At the time, the walk did not use the words that a question asks about its names
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

Each row is a change through a folder, with everything that the next search needs. Up to 50,000 passages, phasegraph
builds new arrays for a change, so the time grows with the collection. Above 50,000 passages, it writes the change into
a log beside the arrays: one small file on disk, and rows in memory. New passages and entities get rows after the
existing rows. Deleted passages keep their rows, but no edge leads to them. Only the edges of the nodes that the change
touches are computed again. Values that depend on all passages (rarity, idf, mean length) are computed when a search
needs them.

A search by lists walks over both arrays and log. It finds the same passages as in a new index; scores differ by at most
1e-9, because sums are rounded in another order (`tests/graph/test_deltas.py`). An entity is too common to have edges if
it is in too large a share of *all* passages. For entities that a change touches, phasegraph decides this at once; for
other entities, when it merges the log. If you remove the only passage with a title, phasegraph must read every passage
that contains this title.

At 1,000,000 passages, a change with new arrays took 11.3, 9.8 and 6.9 s and 3.8 GB. Merging the log takes as much time,
and 6 GB at its peak.

`GraphIndex.compact()` and saving merge the log; the result equals a new index to the bit. A folder merges its log when
5 % of the passages, or 10,000 passages, have changed. Some operations cannot use the log, so phasegraph merges it in
memory, once for each change: searches that compare all passages or have a filter, searches with embedded facts, and
access to the graph's arrays. Indexes with embedded names have no log. When these figures were
measured, the walk over a log was not compiled. So at 100,000 passages, a search took about two and a half times as long
(10 ms without a log, 26 ms with 100 or 950 passages in it). The walk is compiled since 2026-11-26;
[How fast the walk is](graph-speed.md#whole-calls-over-real-stores) has the later figures.

## {far} passages

These figures are computed in proportion, not measured; we did not build an index of this size. At {largest} passages, a
passage takes {bytes} bytes on disk, of which 1,536 are an embedding of 384 numbers. So the files would have {far_disk}
GiB and {far_nodes} million nodes. One machine can map such files. The working memory of a walk would be at most
{far_scratch} GiB.

Building in shards would take {far_cpu} hours of processor time. Most of this time is in workers of half a gigabyte
each, on any number of machines, with a shared folder of {far_work} TiB for finished shards. By the growth between the
two largest sizes, the driver would need {far_driver} GiB ({near_driver} GiB at 4,000,000 passages). The present driver
needs less: it used 23 MB for 100,000 passages (`tracemalloc`), which gives 22 GiB here and 1.3 GiB at 4,000,000
passages. """


if __name__ == "__main__":
    main()
