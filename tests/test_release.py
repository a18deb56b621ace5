"""What a release needs: one version, the hubs' metadata, workflows that name what there is."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
RELEASE = ROOT / "tools" / "release.py"
LLAMA = ROOT / "integrations" / "llama-index-retrievers-phasegraph"
LANGCHAIN = ROOT / "integrations" / "langchain-phasegraph"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))


PROJECTS = [project(folder)["project"] for folder in (ROOT, LANGCHAIN, LLAMA)]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, RELEASE, *arguments], capture_output=True, text=True, check=False)


def test_the_three_distributions_have_one_version_and_admit_each_other():
    (version,) = {one["version"] for one in PROJECTS}
    wanted = [Requirement(text) for one in PROJECTS for text in one["dependencies"] if text.startswith("phasegraph")]
    extras = PROJECTS[0]["optional-dependencies"]
    wanted += [Requirement(extras[name][0]) for name in ("langchain", "llamaindex")]
    assert len(wanted) == 4
    assert all(one.specifier.contains(version) for one in wanted)
    assert len({one["requires-python"].split(",")[0] for one in PROJECTS}) == 1


def test_a_tag_of_another_version_is_refused_and_says_which_differ():
    refused = run("v99.0")
    assert refused.returncode != 0
    assert all(one["name"] in refused.stderr for one in PROJECTS)


def test_a_version_has_notes_once_it_has_a_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    version = PROJECTS[0]["version"]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for path in (RELEASE, *(folder / "pyproject.toml" for folder in (ROOT, LANGCHAIN, LLAMA))):
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(sys.modules[__name__], "RELEASE", tmp_path / RELEASE.relative_to(ROOT))

    def released(title: str) -> subprocess.CompletedProcess[str]:
        text = re.sub(rf"(?m)^## {re.escape(version)}.*$", f"## {title}", changes)
        (tmp_path / "CHANGELOG.md").write_text(text, encoding="utf-8")
        return run(f"v{version}", "--notes")

    dated = released(f"{version} (2026-12-01)")
    assert dated.returncode == 0, dated.stderr
    assert dated.stdout.startswith("###")
    assert "## " + version not in dated.stdout
    fragment = tmp_path / "changes" / "sync.md"
    fragment.parent.mkdir()
    fragment.write_text("* A folder is synced.\n", encoding="utf-8")
    refused = released(f"{version} (2026-12-01)")
    assert refused.returncode != 0
    assert "changes/ still holds ['sync.md']" in refused.stderr
    fragment.unlink()
    assert "unreleased" in released(f"{version} (unreleased)").stderr
    assert "no part" in released("0.0.0").stderr


def test_llamahub_finds_every_component_and_its_author():
    settings = project(LLAMA)["tool"]["llamahub"]
    module = importlib.import_module(settings["import_path"])
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.postprocessor.types import BaseNodePostprocessor

    components = {
        one.__name__
        for one in (getattr(module, name) for name in module.__all__)
        if inspect.isclass(one) and issubclass(one, (BaseRetriever, BaseNodePostprocessor))
    }
    assert set(settings["class_authors"]) == components
    assert all(settings["class_authors"].values())
    path = LLAMA / settings["import_path"].replace(".", "/") / "__init__.py"
    assert path.is_file()
    assert not any((folder / "__init__.py").exists() for folder in list(path.parents)[1:3])  # theirs
    assert settings["contains_example"] == (ROOT / "examples" / "llamaindex_quickstart.py").exists()


def test_the_entry_for_langchains_list_is_one_retriever_of_the_package():
    listing = yaml.safe_load((LANGCHAIN / "listing.yaml").read_text(encoding="utf-8"))
    assert list(listing) == ["python"]
    assert list(listing["python"]) == ["retrievers"]
    (entry,) = listing["python"]["retrievers"]
    assert set(entry) == {"name", "pypi", "docs_url"}
    assert entry["pypi"] == project(LANGCHAIN)["project"]["name"]
    assert entry["name"] in importlib.import_module("langchain_phasegraph").__all__
    assert (ROOT / entry["docs_url"].partition("/blob/main/")[2]).is_file()


def steps(workflow: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].values()
    return [step for job in jobs for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_names_targets_scripts_and_groups_that_exist(workflow: Path):
    commands = "\n".join(step.get("run", "") for step in steps(workflow))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make ([\w-]+)", commands):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for script in re.findall(r"(?:^|python )((?:tools|\.ci)/[\w/.]+)", commands, re.MULTILINE):
        assert (ROOT / script).is_file(), script
    for group in re.findall(r"--group (\w+)", commands):
        assert group in project(ROOT)["dependency-groups"], group
    for folder in re.findall(r"--ignore (\S+)", commands):
        assert (ROOT / folder).is_dir(), folder


def test_workflows_ask_for_no_more_than_they_need_and_run_every_python_the_classifiers_name():
    assert {path.name for path in WORKFLOWS} == {"ci.yml", "release.yml", "site.yml"}
    for workflow in WORKFLOWS:
        settings = yaml.safe_load(workflow.read_text(encoding="utf-8"))
        assert settings["permissions"] == {"contents": "read"}
        assert all("timeout-minutes" in job for job in settings["jobs"].values())
        assert "secrets." not in workflow.read_text(encoding="utf-8")
    matrix = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["systems"]["strategy"]["matrix"]
    prefix = "Programming Language :: Python :: 3."
    for one in PROJECTS:
        named = {text.removeprefix(prefix) for text in one["classifiers"] if text.startswith(prefix)}
        assert {version.removeprefix("3.") for version in matrix["python"]} == named
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}


def test_the_release_publishes_each_distribution_the_core_first():
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))["jobs"]
    published = jobs["publish"]["strategy"]["matrix"]["project"]
    assert published == [one["name"] for one in PROJECTS]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    built = "\n".join(step.get("run", "") for step in jobs["build"]["steps"])
    assert all(f"dist/{name} " in built for name in published)


def test_wheels_are_tried_in_every_python_before_they_are_published():
    settings = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))["jobs"]["build"]
    (made,) = [step["with"]["python-version"] for step in settings["steps"] if "setup-python" in step.get("uses", "")]
    prefix = "Programming Language :: Python :: "
    named = [text.removeprefix(prefix) for text in PROJECTS[0]["classifiers"] if text.startswith(f"{prefix}3.")]
    assert sorted(made.split()) == sorted(named)
    assert made.split()[-1] == "3.11"  # the last is `python`


def test_pre_commit_asks_mypy_what_lint_asks():
    settings = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (own,) = [
        hook for one in settings["repos"] if one["repo"] == "local" for hook in one["hooks"] if hook["id"] == "mypy"
    ]
    assert own["entry"] == "make types"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^lint: .*\btypes\b", makefile, re.MULTILINE)
    assert makefile.count("/mypy ") == makefile.partition("\ntypes:")[2].partition("\n\n")[0].count("/mypy ") > 0


def test_pre_commit_asks_with_with_the_pinned_ruff():
    settings = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (revision,) = [one["rev"] for one in settings["repos"] if "ruff" in one["repo"]]
    assert f"ruff=={revision.removeprefix('v')}\n" in (ROOT / "constraints.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_an_action_is_named_by_the_digest_of_its_commit(workflow: Path):
    used = [line.strip() for line in workflow.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert used
    for line in used:
        assert re.search(r"uses: [\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d", line), line


def test_the_tools_of_a_release_are_installed_by_their_digests():
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    assert "pip install --require-hashes -r tools/release-tools.txt" in workflow
    for line in workflow.splitlines():
        assert "pip install" not in line or "--require-hashes" in line, line
        assert "-m build" not in line or "--no-isolation" in line, line
    pinned = (ROOT / "tools" / "release-tools.txt").read_text(encoding="utf-8")
    wanted = (ROOT / "tools" / "release-tools.in").read_text(encoding="utf-8").split()
    entries = re.findall(
        r"^([a-z0-9.-]+)==\S+ \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", pinned, re.MULTILINE
    )
    assert len(entries) == pinned.count("==")
    assert {re.match(r"[a-z-]+", one)[0] for one in wanted} <= {name for name, _ in entries}
