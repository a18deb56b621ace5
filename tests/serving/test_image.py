"""The Dockerfile, read and checked without Docker, and its commands run outside a container."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import yaml
from tests.serving.conftest import TOKENS, command, running

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / ".ci" / "image"


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile with their arguments, each on one line."""
    plain = re.sub(r"\s*\\\n\s*", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in plain.splitlines() if line.strip()]


def faults(text: str) -> list[str]:
    """What a Dockerfile does that an image which faces a network must not do."""
    found = []
    lines = instructions(text)
    last = max(row for row, (name, _) in enumerate(lines) if name == "FROM")
    of = {name: [given for own, given in lines[last:] if own == name] for name in ("USER", "HEALTHCHECK", "ENTRYPOINT")}
    defaults = dict(given.split("=", 1) for name, given in lines if name == "ARG" and "=" in given)
    for name, given in lines:
        if name == "FROM":
            image = re.sub(r"\$\{(\w+)\}", lambda part: defaults.get(part[1], ""), given.split()[0])
            tag = image.partition("@")[2] or image.partition(":")[2]
            if not re.search(r"\d", tag):
                found.append(f"{given}: no version")
        if name == "ADD":
            found.append("ADD fetches and unpacks: use COPY")
        if name == "COPY" and given.split()[0] == ".":
            found.append("COPY . takes everything")
        if name in ("ENV", "ARG") and re.search(r"(?i)token|password|secret|key", given):
            found.append(f"{name} {given}: stays in the image")
        if name == "RUN" and re.search(r"\bsudo\b|curl [^|]*\|", given):
            found.append(f"RUN {given}")
        for pip in re.findall(r"pip install[^;&]*", given) if name == "RUN" else ():
            if "--no-cache-dir" not in pip or "-c constraints.txt" not in pip:
                found.append(f"{pip.strip()}: neither pinned nor without a cache")
    user = of["USER"][-1] if of["USER"] else ""
    if not re.fullmatch(r"[1-9]\d*(:[1-9]\d*)?", user):
        found.append("the last stage runs as root, or as a name that a host cannot check")
    for name in ("HEALTHCHECK", "ENTRYPOINT"):
        if len(of[name]) != 1 or not re.search(r"\[.+\]$", of[name][0]):
            found.append(f"{name} must stand once, as a list")
    return found


@pytest.fixture(scope="module")
def dockerfile() -> str:
    return (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_the_dockerfile_has_no_fault(dockerfile: str) -> None:
    assert faults(dockerfile) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("USER 10001:10001\n", ""), "runs as root"),
        (("USER 10001:10001", "USER root"), "runs as root"),
        (("=3.12-slim-bookworm", "=latest"), "no version"),
        ((" -c constraints.txt", ""), "neither pinned"),
        (("HEALTHCHECK", "LABEL"), "HEALTHCHECK must stand once"),
        (("PYTHONUNBUFFERED=1", "PHASEGRAPH_TOKEN=1"), "stays in the image"),
        (("COPY src ./src", "COPY . ."), "takes everything"),
        (('ENTRYPOINT ["', 'ENTRYPOINT exec "'), "ENTRYPOINT must stand once"),
    ],
)
def test_a_fault_of_a_dockerfile_is_seen(dockerfile: str, change: tuple[str, str], fault: str) -> None:
    assert change[0] in dockerfile
    assert fault in " ".join(faults(dockerfile.replace(*change)))


def copied(dockerfile: str) -> list[str]:
    """The files and folders of the repository that go into the build."""
    given = [given.split() for name, given in instructions(dockerfile) if name == "COPY" and "--from" not in given]
    return [path for paths in given for path in paths[:-1]]


def test_the_files_that_are_copied_are_let_through_and_build_a_wheel(dockerfile: str, tmp_path: Path) -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    assert {line.removeprefix("!") for line in ignored if line.startswith("!")} == set(copied(dockerfile))
    for name in copied(dockerfile):
        from_, to = ROOT / name, tmp_path / name
        shutil.copytree(from_, to) if from_.is_dir() else shutil.copy(from_, to)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=tmp_path, check=True, capture_output=True
    )
    assert list((tmp_path / "dist").glob("phasegraph-*.whl"))


def test_the_extras_exist(dockerfile: str) -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = {name for given in re.findall(r"EXTRAS=([\w,]+)", dockerfile) for name in given.split(",")}
    assert extras == {"serve", "minilm"}
    assert all(re.search(rf"^{name} = \[", project, re.MULTILINE) for name in extras)
    (models,) = re.findall(r"MODELS=([\w-]+)", dockerfile)
    assert f"\n{models}==" in (ROOT / "constraints.txt").read_text(encoding="utf-8")


def listed(dockerfile: str, name: str) -> list[str]:
    """The list of an instruction."""
    (given,) = [given for own, given in instructions(dockerfile) if own == name]
    words: list[str] = json.loads(given[given.index("[") :])
    return words


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}


@pytest.mark.parametrize("access", ["--token-file", "--tenants"])
def test_its_command_serves_where_nothing_can_be_written_and_its_health_check_tells_the_truth(
    dockerfile: str, folder: Path, tenants: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, access: str
) -> None:
    program, serve, data, *options = listed(dockerfile, "ENTRYPOINT")
    assert (program, serve, data) == ("phasegraph", "serve", "/data")
    assert listed(dockerfile, "CMD") == ["--token-file", "/run/secrets/token"]
    assert "EXPOSE 8321" in dockerfile
    assert "PHASEGRAPH_LISTEN_PORT=8321" in dockerfile
    given = dict(zip(options[::2], options[1::2], strict=True))
    assert given == {"--host": "0.0.0.0", "--transport": "http"}
    token = tmp_path / "token.txt"
    token.write_text(TOKENS["red"])
    nowhere = tmp_path / "file"  # below a file, as on a read-only file system, no file can be made
    nowhere.touch()
    for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "USERPROFILE", "LOCALAPPDATA", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(nowhere / "below"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    before = contents(folder.parent)
    check = listed(dockerfile, "HEALTHCHECK")
    assert check[0] == "python"

    def healthy(port: str) -> bool:
        env = {**os.environ, "PHASEGRAPH_LISTEN_PORT": port}
        return subprocess.run([sys.executable, *check[1:]], capture_output=True, check=False, env=env).returncode == 0

    secret = {"--token-file": token, "--tenants": tenants}[access]
    with running(str(folder), "--host", given["--host"], access, str(secret)) as address:
        port = address.rpartition(":")[2]
        assert healthy(port)
        headers = {"Authorization": f"Bearer {TOKENS['red']}", "Content-Type": "application/json"}
        asked = urllib.request.Request(f"{address}/search", b'{"query": "Who met Red Keeper in Oslo?"}', headers)
        with urllib.request.urlopen(asked, timeout=20) as answer:
            assert json.load(answer)["passages"]
    assert not healthy(port)
    assert contents(folder.parent) == before


def test_its_options_are_those_of_serve(dockerfile: str) -> None:
    shown = subprocess.run([*command("--help")], capture_output=True, text=True, check=True).stdout
    options = {one for one in listed(dockerfile, "ENTRYPOINT") if one.startswith("--")}
    assert [one for one in sorted(options) if one not in shown] == []
    assert "PHASEGRAPH_LISTEN_PORT" in shown


def test_a_job_builds_the_image_and_asks_it_without_rights() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))["jobs"]
    steps = jobs["image"]["steps"]
    assert steps[-1]["run"] == ".ci/image"
    uses = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert all(re.search(r"@[0-9a-f]{40}$", one) for one in uses)
    script = SCRIPT.read_text(encoding="utf-8")
    for needed in ("docker build --check", "--read-only", "--cap-drop ALL", "no-new-privileges", "/search", "healthy"):
        assert needed in script, needed
    assert subprocess.run(["bash", "-n", str(SCRIPT)], check=False).returncode == 0
