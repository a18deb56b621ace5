from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from phasegraph import Background, FusionPipeline, InvalidInputError, Ranking
from phasegraph._support.markup import source_colours
from phasegraph.evaluation.experiment import Answers, compare
from phasegraph.evaluation.judgements import Judgement
from phasegraph.evaluation.report import (
    conclusion,
    contribution_bars,
    coverage_curve,
    evaluation_pictures,
    gold_hits,
    score_distributions,
    separation,
    wins_and_losses,
)
from phasegraph.evaluation.report_page import Picture, write_report

COLUMNS, ROWS = ("system", "LastHop@10"), (("vector", "55.0"), ("<b>default</b>", "70.0"))


def _rankings(count: int = 12) -> dict[str, list[Ranking]]:
    rng = np.random.default_rng(0)
    background = Background(-9.0, 0.8, "log", 1e-4)
    out: dict[str, list[Ranking]] = {"vector": [], "graph": []}
    for _ in range(count):
        ids = [f"p{i}" for i in rng.permutation(60)[:30]]
        out["vector"].append(Ranking("vector", ids, 0.4 + 0.1 * rng.random(30)))
        mass = rng.pareto(1.2, 30) / 1000
        out["graph"].append(Ranking("graph", ids[::-1], mass, background=background, size=500))
    return out


def _pictures() -> list[Picture]:
    rankings = _rankings()
    pipeline = FusionPipeline()
    results = [pipeline.decide(pair) for pair in zip(rankings["vector"], rankings["graph"], strict=True)]
    queries = [f"q{i}" for i in range(len(results))]
    judgements = [Judgement(q, ((rankings["graph"][i].ids[0],),)) for i, q in enumerate(queries)]
    answers = [
        Answers("vector", {q: tuple(rankings["vector"][i].ids) for i, q in enumerate(queries)}, 1.0),
        Answers("default", {q: tuple(results[i].ids) for i, q in enumerate(queries)}, 1.0),
    ]
    table = compare(answers, judgements, baseline="vector", dataset="toy", limit=30)
    return evaluation_pictures(table, rankings, results, judgements, pipeline=pipeline, labels={"p1": "Title & more"})


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Picture], Path]:
    """Five pictures and their page, which tests only read."""
    pictures, folder = _pictures(), tmp_path_factory.mktemp("report")
    terms = {"W/L": "won and lost"}
    page = write_report(folder, title="toy", lead="A lead.", columns=COLUMNS, rows=ROWS, pictures=pictures, terms=terms)
    return pictures, page


def test_an_evaluation_gets_its_five_pictures_on_one_page_and_as_png(drawn: tuple[list[Picture], Path]) -> None:
    pictures, page = drawn
    text = page.read_text(encoding="utf-8")
    names = ["systems", "wins-and-losses", "score-distributions", "contributions", "coverage"]
    assert [picture.name for picture in pictures] == names
    assert text.count("<svg") == text.count('<svg role="img" aria-label="') == 5
    for name in names:
        assert (page.parent / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_loads_nothing_and_escapes_what_it_is_given(tmp_path: Path) -> None:
    page = write_report(
        tmp_path, title="<script>alert(1)</script>", lead="a\ud800b", columns=COLUMNS, rows=ROWS, pictures=_pictures()
    )
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "&lt;b&gt;default&lt;/b&gt;" in text
    assert not re.findall(r'(?:src|href)="(?!#)[^"]', re.sub(r"<svg.*?>", "", text))


def test_five_rows_stand_open_the_best_first_and_the_others_are_folded(tmp_path: Path) -> None:
    columns = ["system", "LastHop@10", "Recall@5 (p)"]
    rows = [[f"s{row}", str(row), f"{90 - row}.5 (0.01)"] for row in range(7)] + [["none", "", ""]]

    def order(sort_by: str) -> list[str]:
        page = write_report(tmp_path, title="t", lead="l", columns=columns, rows=rows, marked=["s0"], sort_by=sort_by)
        text = page.read_text(encoding="utf-8")
        assert text.count('"rest"') + text.count('"marked rest"') == 3
        assert ("all 8 rows, the best in" in text) is bool(sort_by)
        return re.findall(r"<td>(s\d|none)</td>", text)

    assert order("LastHop@10") == ["s6", "s5", "s4", "s3", "s2", "s1", "s0", "none"]
    assert order("Recall@5") == order("") == ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "none"]
    with pytest.raises(InvalidInputError, match="sort_by must be the start of a column heading; got 'MRR'"):
        order("MRR")
    short = write_report(tmp_path, title="t", lead="l", columns=columns, rows=rows[:5])
    assert "checkbox" not in short.read_text(encoding="utf-8")


def test_the_page_has_landmarks_and_links_to_its_parts(drawn: tuple[list[Picture], Path]) -> None:
    page = drawn[1].read_text(encoding="utf-8")
    for landmark in ("<header>", "<main>", '<nav aria-label="Parts of this page">'):
        assert page.count(landmark) == 1
    links = re.findall(r'<li><a href="#([^"]+)">', page)
    assert len(links) == 6
    assert all(page.count(f'<section id="{name}">') == 1 for name in links)


def test_the_ids_of_several_drawings_do_not_mix(drawn: tuple[list[Picture], Path]) -> None:
    ids = re.findall(r'\bid="([^"]+)"', drawn[1].read_text(encoding="utf-8"))
    assert len(ids) == len(set(ids))


def test_a_row_with_the_wrong_number_of_cells_and_a_name_that_is_a_path_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="2 cells"):
        write_report(tmp_path, title="t", lead="l", columns=COLUMNS, rows=[("vector",)])
    figure = coverage_curve(np.array([0.5]), [True])
    with pytest.raises(InvalidInputError, match="name"):
        write_report(
            tmp_path, title="t", lead="l", columns=COLUMNS, rows=ROWS, pictures=[Picture("../x", "", "", figure)]
        )
    assert not (tmp_path / "index.html").exists()


def test_pictures_refuse_what_they_cannot_draw() -> None:
    with pytest.raises(InvalidInputError, match="same sources"):
        score_distributions({"v": np.ones(3)}, {})
    with pytest.raises(InvalidInputError, match="nothing_found"):
        contribution_bars(FusionPipeline().decide([]))
    with pytest.raises(InvalidInputError, match="per query"):
        coverage_curve(np.ones(2), [True])
    with pytest.raises(InvalidInputError, match="baseline"):
        wins_and_losses({"vector": 0}, {"vector": 0}, "vector", "LastHop@10")


def test_a_source_has_one_colour_in_every_picture() -> None:
    alone, beside = source_colours(["graph"]), source_colours(["vector", "wiki", "bm25", "graph", "notes"])
    assert alone["graph"] == beside["graph"]
    assert len(set(beside.values())) == 5
    pipeline = FusionPipeline()
    rankings = _rankings(1)
    bars = contribution_bars(pipeline.decide([rankings["vector"][0], rankings["graph"][0]])).axes[0].containers
    assert [_hex(bar.patches[0]) for bar in bars] == [beside[bar.get_label()] for bar in bars]


def _hex(patch: object) -> str:
    from matplotlib.colors import to_hex

    return to_hex(patch.get_facecolor())  # type: ignore[attr-defined]


def test_gold_passages_are_drawn_apart_and_every_score_is_drawn() -> None:
    rankings = {"vector": [Ranking("vector", ["a", "b", "c"], [3.0, 2.0, 1.0]), Ranking("vector", ["c"], [4.0])]}
    gold = gold_hits(rankings, [Judgement("q", (("b",),)), Judgement("r", (("c",),))])
    assert gold["vector"].tolist() == [False, True, False, True]
    before = {"vector": np.array([3.0, 2.0, 1.0, 4.0])}
    figure = score_distributions(before, before, gold)
    for axes in figure.axes:
        others, chosen = (patch.get_data() for patch in axes.patches)
        places = [np.nonzero(part.values - part.baseline)[0].tolist() for part in (others, chosen)]
        assert places == [[0, 40], [20, 59]]  # 1 and 3, 2 and 4, of 60 steps from 1 to 4
    with pytest.raises(InvalidInputError, match="gold"):
        score_distributions(before, before, {"vector": gold["vector"][:2]})


def test_the_picture_says_which_source_tells_gold_passages_apart() -> None:
    values = {"graph": np.array([9.0, 9.0, 2.0, 2.0]), "vector": np.array([5.0, 5.0, 4.5, 4.0])}
    gold = {name: np.array([True, True, False, False]) for name in values}
    said = separation(values, gold)
    assert said == (
        "Medians of gold passages and of other passages: graph 9.0 and 2.0, vector 5.0 and 4.2; graph "
        "separates them most."
    )
    assert score_distributions(values, values, gold).get_suptitle() == said
    many = {f"a source with a name {row}": values["graph"] for row in range(6)}
    lines = score_distributions(many, many, dict.fromkeys(many, gold["graph"])).get_suptitle().split("\n")
    assert len(lines) > 1
    assert max(map(len, lines)) <= 140
    none = dict.fromkeys(values, np.zeros(4, dtype=bool))
    assert (separation(values, none), score_distributions(values, values, none).get_suptitle()) == ("", "")
    assert (
        separation({"graph": values["graph"]}, gold)
        == "Medians of gold passages and of other passages: graph 9.0 and 2.0."
    )


def _table(right: dict[str, int], questions: int = 20):  # type: ignore[no-untyped-def]
    queries = [f"q{i}" for i in range(questions)]
    judgements = [Judgement(q, (("gold",),)) for q in queries]
    answers = [
        Answers(name, {q: ("gold",) if row < count else ("else",) for row, q in enumerate(queries)}, 1.0)
        for name, count in right.items()
    ]
    return compare(answers, judgements, baseline="vector", dataset="toy", limit=30)


def test_the_conclusion_is_chosen_by_the_figures() -> None:
    better = conclusion(_table({"vector": 2, "rrf": 10, "default": 18}))
    assert better.startswith("default reaches 90.0 in LastHop@10: 80.0 points more than vector")
    assert "beyond what chance" in better
    assert "40.0 points above the best other row, rrf." in better
    worse = conclusion(_table({"vector": 12, "rrf": 14, "default": 11}))
    assert "5.0 points less than vector" in worse
    assert "within what chance" in worse
    assert "15.0 points below the best other row, rrf." in worse
    assert "level with the best other row" in conclusion(_table({"vector": 12, "rrf": 14, "default": 14}))
    assert conclusion(_table({"vector": 12, "rrf": 14})) == ""


def test_the_names_are_explained_at_the_end(tmp_path: Path) -> None:
    page = write_report(
        tmp_path, title="t", lead="l", columns=COLUMNS, rows=ROWS, terms={"<i>W/L": "won & lost"}
    ).read_text(encoding="utf-8")
    assert page.endswith("<dt>&lt;i&gt;W/L</dt><dd>won &amp; lost</dd></dl></section></main></body></html>\n")
