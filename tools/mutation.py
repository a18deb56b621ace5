"""Measure how many small faults the tests notice, by a mutation run over code whose results nobody checks by hand.

    pip install cosmic-ray==8.7.0
    python tools/mutation.py --sample 60 --out mutation.jsonl

cosmic-ray inserts one fault at a time (another operator, another number, an inverted condition) into a copy of the
committed tree. It then runs the tests of the changed part until one fails. A fault that no test notices survives. The
program prints and writes a line for each fault, with the changed lines of the survivors.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "research" / "mutation.md"
FAST = "-x -q -p no:cacheprovider -p pytest_asyncio.plugin -p pytest_timeout -p _hypothesis_pytestplugin"
TARGETS = {
    "significance": (
        ["src/phasegraph/evaluation/significance.py"],
        "src/phasegraph/evaluation/significance.py tests/evaluation/test_significance.py",
    ),
    "acceptance": (["src/phasegraph/acceptance"], "src/phasegraph/acceptance tests/acceptance"),
    "reproduce": (["tools/reproduce"], "tests/reproduce -m 'not slow'"),
    "durability": (
        ["src/phasegraph/_support/serialization.py"],
        "tests/test_serialization.py tests/test_durability.py tests/test_state.py -k 'not readers_beside'",
    ),
    "locks": (
        ["src/phasegraph/_support/files.py"],
        "tests/test_durability.py tests/test_state.py -k 'not readers_beside and not resealed and not damaged'",
    ),
    "serving": (
        ["src/phasegraph/apps/server"],
        "tests/serving/test_siege.py tests/serving/test_view.py tests/serving/test_web.py "
        "tests/serving/test_hostile_clients.py tests/serving/test_agents.py",
    ),
    "turns": (
        ["src/phasegraph/apps/server/turns.py"],
        "tests/serving/test_siege.py -k 'queue or share or few or told or place or refusal or quarter or least'",
    ),
    "filters": (
        [
            "src/phasegraph/retrieval/filters.py",
            *(
                f"integrations/langchain-phasegraph/langchain_phasegraph/{name}.py"
                for name in ("filters", "store_filters", "restricted_search")
            ),
        ],
        "tests/graph/test_corpus_filters.py integrations/langchain-phasegraph/tests/test_filters.py "
        "integrations/langchain-phasegraph/tests/test_corpus.py",
    ),
    "log": (["src/phasegraph/graph/index"], "tests/graph/test_deltas.py tests/graph/test_index.py"),
}
"""By name: what is mutated, and the tests that should notice."""
LEFT_OUT = ["core/ReplaceBinaryOperator_BitOr_.*"]
"""``X | None`` in annotations, which nothing evaluates."""
LIMIT = 900.0
"""Seconds for one run of the tests; what is cut off counts as noticed."""


def is_operator(path: Path, line: int, column: int) -> bool:
    """Return True if there is a binary operator at this place.

    cosmic-ray also changes ``/`` and ``*`` in signatures, which are no operators.
    """
    nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.BinOp)]
    return any(
        (node.left.end_lineno, node.left.end_col_offset) <= (line, column) < (node.right.lineno, node.right.col_offset)
        for node in nodes
    )


def mutants(name: str, tree: Path, sample: int, seed: int) -> Iterator[dict[str, object]]:
    """Insert a random sample of the faults of one target, one at a time; yield the outcome of each.

    `tree` is the copy of the code into which the faults are inserted.
    """
    modules, tests = TARGETS[name]
    session, config = tree / "session.sqlite", tree / "cosmic-ray.toml"
    session.unlink(missing_ok=True)
    config.write_text(
        f"[cosmic-ray]\nmodule-path = {json.dumps(modules)}\ntimeout = {LIMIT}\nexcluded-modules = []\n"
        f"test-command = {json.dumps(f'{sys.executable} -m pytest {FAST} {tests}')}\n"
        '[cosmic-ray.distributor]\nname = "local"\n'
        f"[cosmic-ray.filters.operators-filter]\nexclude-operators = {json.dumps(LEFT_OUT)}\n"
    )
    _run("cosmic-ray", "init", config, session, tree=tree)
    _run("cr-filter-operators", session, config, tree=tree)
    with sqlite3.connect(session) as store:
        skipped = {job for (job,) in store.execute("select job_id from work_results")}
        places = "module_path, start_pos_row, start_pos_col, operator_name, occurrence, job_id"
        jobs = []
        for path, line, column, operator, _, job in store.execute(
            f"select {places} from mutation_specs order by {places}"
        ):
            if "BinaryOperator" in operator and not is_operator(tree / path, line, column):
                skipped.add(job)
            if job not in skipped:
                jobs.append(job)
        chosen = set(random.Random(seed).sample(jobs, min(sample, len(jobs))))
        for table in ("work_results", "mutation_specs", "work_items"):
            store.executemany(f"delete from {table} where job_id = ?", [(j,) for j in {*jobs, *skipped} - chosen])
    print(f"{name}: {len(chosen)} of {len(jobs)} mutants", flush=True)
    _run("cosmic-ray", "baseline", config, tree=tree)  # tests that fail without any fault would notice every fault
    _run("cosmic-ray", "exec", config, session, tree=tree)
    with sqlite3.connect(session) as store:
        columns = "module_path, start_pos_row, definition_name, operator_name, test_outcome, diff, output"
        joined = "mutation_specs join work_results using (job_id)"
        for row in store.execute(f"select {columns} from {joined} order by 1, 2"):
            path, line, inside, operator, outcome, diff, output = row
            changed = [text for text in diff.splitlines() if text[:1] in "+-" and text[:3] not in ("+++", "---")]
            yield {
                "target": name,
                "path": path,
                "line": line,
                "inside": inside,
                "operator": operator.removeprefix("core/"),
                "outcome": "timeout" if output == "timeout" else outcome.lower(),
                "change": changed,
            }


def _run(program: str, *arguments: object, tree: Path) -> None:
    path = shutil.which(program)
    if path is None:
        raise SystemExit(f"{program} is not on the PATH; pip install cosmic-ray==8.7.0")
    roots = [tree / "src", *sorted((tree / "integrations").iterdir())]  # before those of the environment
    env = {"PYTHONPATH": ":".join(map(str, roots)), "PATH": "/usr/bin:/bin", "HOME": str(tree), "OMP_NUM_THREADS": "1"}
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # half of the time of a short run
    subprocess.run([path, *map(str, arguments)], cwd=tree, env=env, check=True, stdout=subprocess.DEVNULL)


def write_page() -> None:
    """Write the table of noticed faults by room into docs/research/mutation.md, from docs/research/mutation.json."""
    rooms = json.loads((PAGE.with_suffix(".json")).read_text(encoding="utf-8"))
    lines = ["| room | mutants | sampled | noticed at first | noticed now |", "|---|---|---|---|---|"]
    for name, one in sorted(rooms.items()):
        shares = [f"{one[when]} ({100 * one[when] / one['sampled']:.0f} %)" for when in ("first", "now")]
        lines.append(f"| {name} | {one['mutants']:,} | {one['sampled']} | {shares[0]} | {shares[1]} |")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition("<!-- rooms -->")
    after = rest.partition("<!-- /rooms -->")[2]
    table = "\n".join(lines)
    PAGE.write_text(f"{before}<!-- rooms -->\n{table}\n<!-- /rooms -->{after}", encoding="utf-8")


def main() -> None:
    """Run the tests with each fault; print the share of faults that they notice, by target, and the other faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=[], help=f"of {', '.join(TARGETS)}; default all")
    parser.add_argument("--sample", type=int, default=60, help="mutants of each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", action="store_true", help="write the table of docs/research/mutation.md, run nothing")
    chosen = parser.parse_args()
    if chosen.page:
        write_page()
        return
    with TemporaryDirectory() as folder:
        tree = Path(folder)
        packed = subprocess.run(["git", "-C", ROOT, "archive", "HEAD"], check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(tree, filter="data")
        for name in chosen.targets or TARGETS:
            found = list(mutants(name, tree, chosen.sample, chosen.seed))
            alive = [one for one in found if one["outcome"] == "survived"]
            print(f"{name}: {len(found) - len(alive)} of {len(found)} noticed", flush=True)
            for one in alive:
                print(f"  {one['path']}:{one['line']} {one['operator']}", *one["change"], sep="\n    ", flush=True)
            if chosen.out is not None:
                with chosen.out.open("a", encoding="utf-8") as handle:
                    handle.writelines(json.dumps(one) + "\n" for one in found)


if __name__ == "__main__":
    main()
