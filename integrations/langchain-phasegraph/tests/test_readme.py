"""The README's programs run."""

import re
import runpy
from pathlib import Path

from langchain_stores import listed, pairs

from langchain_phasegraph import PhaseGraphRetriever

README = Path(__file__).parents[1] / "README.md"


def programs(folder):
    found = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    for number, program in enumerate(found):
        path = folder / f"program_{number}.py"
        path.write_text(program, encoding="utf-8")
        yield str(path)


def test_the_twelve_lines_are_twelve_and_work(tmp_path, capsys):
    first = next(programs(tmp_path))
    assert len([line for line in Path(first).read_text(encoding="utf-8").splitlines() if line.strip()]) == 12
    runpy.run_path(first)
    printed = capsys.readouterr().out.splitlines()
    assert sorted(line[:7] for line in printed) == ["Alfred ", "Vertigo"]


def test_the_other_programs_work_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {"search": lambda query: pairs(Vertigo=3.0, x=2.0), "other": listed("Vertigo")}
    scope["questions"] = [f"{word} made Vertigo?" for word in map(str, range(24))]
    for program in programs(tmp_path):
        scope = runpy.run_path(program, init_globals=scope)
    assert isinstance(scope["retriever"], PhaseGraphRetriever)
    assert list(scope["retriever"].fitted_pipeline.calibrators) == ["vector"]
    assert sorted(scope["custom"].explain("Who?").ids) == ["Alfred Hitchcock", "Vertigo", "x"]
    assert len(scope["chain"].invoke("Who?")) == 2
