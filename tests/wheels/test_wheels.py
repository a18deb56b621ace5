"""The packages as a user gets them: built, installed into an empty environment, and run from outside the clone.

``make test`` does this with the interpreter it runs on, ``make test-wheels`` with every one that is supported.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from importlib.util import find_spec
from pathlib import Path

import pytest
from real_servers import Missing, skip_or_fail
from tiny import write_dataset, write_jsonl

ROOT = Path(__file__).parents[2]
PROJECTS = {
    "phasegraph": ROOT,
    "langchain_phasegraph": ROOT / "integrations" / "langchain-phasegraph",
    "llama_index_retrievers_phasegraph": ROOT / "integrations" / "llama-index-retrievers-phasegraph",
}
PACKAGES = {
    "phasegraph": ROOT / "src" / "phasegraph",
    "langchain_phasegraph": PROJECTS["langchain_phasegraph"] / "langchain_phasegraph",
    "llama_index_retrievers_phasegraph": PROJECTS["llama_index_retrievers_phasegraph"] / "llama_index",
}
MODULES = ("phasegraph", "langchain_phasegraph", "llama_index.retrievers.phasegraph")
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
SECONDS = 900

pytestmark = [pytest.mark.wheels, pytest.mark.timeout(SECONDS)]


@dataclass(frozen=True)
class Built:
    """A source distribution, and the wheel that was made of it."""

    sdist: Path
    wheel: Path

    @property
    def metadata(self) -> Message:
        with zipfile.ZipFile(self.wheel) as archive:
            (name,) = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
            return message_from_bytes(archive.read(name))


@pytest.fixture(scope="module")
def disk() -> Iterator[Path]:
    """A folder on the disk: the folders of tests may be in memory, where environments take too much room."""
    with tempfile.TemporaryDirectory(prefix="phasegraph-wheels-") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Built]:
    """All three packages, each wheel made of what the source distribution holds."""
    out, unpacked, found = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("unpacked"), {}
    for name, project in PROJECTS.items():
        run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(out)], project)
        (sdist,) = out.glob(f"{name}-*.tar.gz")
        with tarfile.open(sdist) as archive:
            archive.extractall(unpacked, filter="data")
        source = unpacked / sdist.name.removesuffix(".tar.gz")
        run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)], source)
        (wheel,) = out.glob(f"{name}-*.whl")
        found[name] = Built(sdist, wheel)
    return found


def run(command: Sequence[str | Path], folder: Path) -> str:
    """What a command prints, run in a folder and told nothing of this environment or the clone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "COV"))}
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, cwd=folder, env=kept, timeout=SECONDS
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def interpreter(version: str) -> str:
    """A Python of this version: the one that runs, one on the path, or one of pyenv's."""
    if version == RUNNING:
        return sys.executable
    for found in (shutil.which(f"python{version}"), *Path.home().glob(f".pyenv/versions/{version}.*/bin/python")):
        if found is not None:
            asked = [str(found), "-c", "import sys, ensurepip; print('%d.%d' % sys.version_info[:2])"]
            done = subprocess.run(asked, capture_output=True, text=True, check=False)
            if done.stdout.strip() == version:  # pyenv's stand-ins are there for versions that are not
                return str(found)
    raise Missing(f"there is no Python {version} on the path or among pyenv's")


def pip(programs: Path) -> list[str | Path]:
    """pip for an environment: ours where we have one, since to give it its own takes longer than to make the rest."""
    if find_spec("pip") is None:
        return [programs / "python", "-m", "pip"]
    return [sys.executable, "-m", "pip", "--python", programs / "python"]


def environment(python: str, folder: Path, packages: Sequence[str], constraints: Path | None = None) -> Path:
    """A new environment with these packages and what they require; its folder of programs."""
    run([python, "-m", "venv", *(["--without-pip"] if find_spec("pip") else []), folder], folder.parent)
    install(folder / "bin", packages, constraints)
    return folder / "bin"


def install(programs: Path, packages: Sequence[str], constraints: Path | None = None) -> None:
    """Packages and what they require, into an environment."""
    command = [*pip(programs), "install", "-q", "--no-compile", "--disable-pip-version-check"]
    try:
        run([*command, "-c", constraints or ROOT / "constraints.txt", *packages], programs.parent)
    except AssertionError as error:
        if "Retrying (Retry(" in str(error):
            raise Missing("the packages' requirements cannot be fetched: the package index is out of reach") from error
        raise


@pytest.fixture(scope="module", params=VERSIONS)
def installed(request: pytest.FixtureRequest, built: dict[str, Built], disk: Path) -> Path:
    """The programs of an environment with the three wheels, for one version of Python."""
    version = str(request.param)
    if version != RUNNING and os.environ.get("PHASEGRAPH_ALL_PYTHONS") != "1":
        pytest.skip(f"make test-wheels runs this with Python {version}")
    core = built["phasegraph"].wheel
    packages = [f"{core}[cli]", *(str(one.wheel) for one in built.values() if one.wheel != core)]
    try:
        python = interpreter(version)
    except Missing as missing:
        if version == VERSIONS[0]:
            skip_or_fail(missing, "WHEELS")
        pytest.skip(str(missing))
    try:
        return environment(python, disk / version, packages)
    except Missing as missing:
        skip_or_fail(missing, "WHEELS")


def programs(page: Path) -> list[str]:
    """The Python blocks of a page."""
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


SCRIPTS = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").glob("*_quickstart.py"))}
QUICKSTARTS = {
    # The README starts from a store that the reader has: that of the framework's script.
    **{
        f"README after {name}": f"{script}\n\n{program}"
        for (name, script), program in zip(SCRIPTS.items(), programs(ROOT / "README.md"), strict=True)
    },
    **{f"README of {name}": programs(folder / "README.md")[0] for name, folder in PROJECTS.items() if folder != ROOT},
    **SCRIPTS,
}


RUN_ALL = """
import contextlib, io, json, runpy, sys

printed = {}
for name in sys.argv[1:]:
    print(name, file=sys.stderr)
    with contextlib.redirect_stdout(io.StringIO()) as text:
        runpy.run_path(f"{name}.py", run_name="__main__")
    printed[name] = text.getvalue()
print(json.dumps(printed))
"""


def test_the_quickstarts_run_outside_the_clone(installed: Path, tmp_path: Path) -> None:
    """One after another in one process, each as a program of its own: what takes long is to load the frameworks."""
    for name, program in QUICKSTARTS.items():
        (tmp_path / f"{name}.py").write_text(program, encoding="utf-8")
    (tmp_path / "all.py").write_text(RUN_ALL, encoding="utf-8")
    printed = json.loads(run([installed / "python", "all.py", *QUICKSTARTS], tmp_path).splitlines()[-1])
    assert list(printed) == list(QUICKSTARTS)
    assert not [name for name, text in printed.items() if not text.strip()]


def test_what_is_installed_is_what_was_built(installed: Path, built: dict[str, Built], tmp_path: Path) -> None:
    version = built["phasegraph"].metadata["Version"]
    program = f"import {', '.join(MODULES)}; print([(one.__version__, one.__file__) for one in ({', '.join(MODULES)})])"
    said = run([installed / "python", "-c", program], tmp_path)
    assert said.count(repr(version)) == len(MODULES)
    assert str(ROOT) not in said
    assert run([installed / "phasegraph", "--version"], tmp_path) == f"phasegraph {version}\n"
    assert "No broken requirements" in run([*pip(installed), "check"], tmp_path)


def test_the_command_line_indexes_searches_and_measures(installed: Path, tmp_path: Path) -> None:
    write_dataset(tmp_path / "tiny")
    command = installed / "phasegraph"
    assert "12 passages" in run([command, "index", "tiny/corpus.jsonl", "--out", "index"], tmp_path)
    assert "'Lord Byron'" in run([command, "search", "index", "Where did the father of Ada Lovelace die?"], tmp_path)
    assert "default" in run([command, "evaluate", "tiny", "--systems", "vector,graph,default"], tmp_path)
    (tmp_path / "my_rag.py").write_text("def search(question):\n    return ['p00', 'p01']\n", encoding="utf-8")
    write_jsonl(tmp_path / "judged.jsonl", [{"question": "Who?", "relevant": ["p01"]}])
    assert "50.0" in run([command, "evaluate", "judged.jsonl", "--retriever", "my_rag:search"], tmp_path)


@pytest.fixture(scope="module")
def core(built: dict[str, Built], disk: Path) -> Path:
    """The programs of an environment with the core alone."""
    try:
        return environment(sys.executable, disk / "core", [str(built["phasegraph"].wheel)])
    except Missing as missing:
        skip_or_fail(missing, "WHEELS")


def test_the_core_needs_nothing_but_numpy_and_scipy(core: Path, tmp_path: Path) -> None:
    programs = core
    names = run([*pip(programs), "list", "--format=freeze"], tmp_path)
    assert {line.partition("==")[0] for line in names.splitlines()} <= {
        "numpy",
        "phasegraph",
        "pip",
        "scipy",
        "setuptools",
    }
    assert run([programs / "phasegraph", "--version"], tmp_path).startswith("phasegraph ")
    program = "from phasegraph.evaluation import evaluate; print(evaluate(lambda q: ['a'], {'Who?': ['a']}))"
    assert "100.0" in run([programs / "python", "-c", program], tmp_path)
    done = subprocess.run([programs / "phasegraph", "index"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install 'phasegraph[cli]'" in done.stderr


# What is in them.


@pytest.mark.parametrize("name", PROJECTS)
def test_a_wheel_holds_the_package_and_nothing_else(built: dict[str, Built], name: str) -> None:
    with zipfile.ZipFile(built[name].wheel) as archive:
        held = {one for one in archive.namelist() if ".dist-info/" not in one}
    package = PACKAGES[name]
    files = [
        one
        for one in package.rglob("*")
        if one.suffix == ".py" or one.name == "py.typed" or (one.is_file() and one.parent.name in ("static", "demo"))
    ]
    assert held == {one.relative_to(package.parent).as_posix() for one in files}
    assert any(one.endswith("py.typed") for one in held)


@pytest.mark.parametrize("name", PROJECTS)
def test_a_source_distribution_holds_no_leavings(built: dict[str, Built], name: str) -> None:
    with tarfile.open(built[name].sdist) as archive:
        held = [one.name.partition("/")[2] for one in archive.getmembers() if one.isfile()]
    top = {"src"} if name == "phasegraph" else {PACKAGES[name].name, "tests"}
    assert {one for one in held if "/" not in one} <= {
        "README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "PKG-INFO", ".gitignore",
    }  # fmt: skip
    assert {one.partition("/")[0] for one in held if "/" in one} == top
    code = [one for one in held if "/" in one and "/static/" not in one and "/inspector/demo/" not in one]
    assert {Path(one).suffix for one in code} <= {".py", ".typed"}
    assert {"README.md", "LICENSE"} <= set(held)


@pytest.mark.parametrize("name", PROJECTS)
def test_the_page_of_a_package_leads_somewhere(built: dict[str, Built], name: str) -> None:
    metadata = built[name].metadata
    urls = dict(one.split(", ", 1) for one in metadata.get_all("Project-URL", []))
    assert set(urls) == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    assert all(one.startswith("https://github.com/phasegraph/phasegraph") for one in urls.values())
    page = metadata.get_payload()
    assert isinstance(page, str)
    assert not [one for one in re.findall(r"\]\(([^)]+)\)", page) if not one.startswith("https://")]
    assert metadata["Description-Content-Type"] == "text/markdown"
    classifiers = metadata.get_all("Classifier", [])
    assert {f"Programming Language :: Python :: {version}" for version in VERSIONS} <= set(classifiers)
    assert metadata["Requires-Python"].startswith((">=3.11", "<4.0,>=3.11"))


def test_the_packages_have_one_version_and_ask_for_each_other(built: dict[str, Built]) -> None:
    assert len({one.metadata["Version"] for one in built.values()}) == 1
    for name in ("langchain_phasegraph", "llama_index_retrievers_phasegraph"):
        assert any(one.startswith("phasegraph") for one in built[name].metadata.get_all("Requires-Dist", []))


ASK = """
import asyncio, sys
from importlib.metadata import version
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main():
    server = StdioServerParameters(command=sys.argv[1], args=["serve", "index"])
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        found = await session.call_tool("search", {"query": "Who met Bo?", "k": 1})
        wrong = await session.call_tool("search", {"query": " "})
        print(version("mcp").partition(".")[0], "Ada met Bo." in found.content[0].text, wrong.content[0].text)


asyncio.run(main())
"""


def test_the_server_speaks_the_second_version_of_the_sdk(built: dict[str, Built], disk: Path, tmp_path: Path) -> None:
    """The first is in the environment of the tests: LangChain's adapter takes no other yet."""
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("mcp==")]
    (tmp_path / "constraints.txt").write_text("\n".join([*pins, "mcp==2.3.0"]))
    write_jsonl(tmp_path / "corpus.jsonl", [{"id": "a", "title": "Ada", "text": "Ada met Bo."}])
    try:
        wanted = [f"{built['phasegraph'].wheel}[serve]"]
        programs = environment(sys.executable, disk / "sdk", wanted, tmp_path / "constraints.txt")
    except Missing as missing:
        skip_or_fail(missing, "WHEELS")
    run([programs / "phasegraph", "index", "corpus.jsonl", "--out", "index"], tmp_path)
    said = run([programs / "python", "-c", ASK, programs / "phasegraph"], tmp_path)
    assert said.startswith("2 True")
    assert "query must not be empty" in said


def test_the_inspector_is_in_the_wheel_with_its_page(built: dict[str, Built], core: Path, tmp_path: Path) -> None:
    """In the environment of the core alone, to which it adds what the extra names."""
    programs = core
    write_jsonl(tmp_path / "corpus.jsonl", [{"id": "a", "title": "Ada", "text": "Ada met Bo."}])
    write_jsonl(tmp_path / "judged.jsonl", [{"question": "Who met Bo?", "relevant": ["a"]}])
    install(programs, [f"{built['phasegraph'].wheel}[inspect]"])
    run([programs / "phasegraph", "index", "corpus.jsonl", "--out", "index"], tmp_path)
    run([programs / "phasegraph", "inspect", "index", "--export", "page.html", "--ask", "Who met Bo?"], tmp_path)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Ada met Bo." in page
    assert "Cytoscape Consortium" in page
    command = [programs / "phasegraph", "inspect", "index", "--judged", "judged.jsonl", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[0]
            with urllib.request.urlopen(f"{address}static/cytoscape.min.js", timeout=60) as got:
                assert len(got.read()) > 400_000
        finally:
            server.terminate()
    run([*pip(programs), "uninstall", "-q", "-y", "starlette"], tmp_path)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 1
    assert "pip install 'phasegraph[try]'" in done.stderr
