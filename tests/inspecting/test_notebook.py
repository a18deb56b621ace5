"""What a notebook's cell and a report show: nothing cut off, readable on dark paper, in a real headless Chromium."""

from __future__ import annotations

import pytest
from report.test_report import _pictures

from inspecting.conftest import QUESTION
from inspecting.test_browser import ARTEFACTS
from phasegraph._support.markup import answer_html
from phasegraph.evaluation.report_page import write_report


@pytest.mark.parametrize(("width", "beside"), [(900, 3), (400, 1)])
def test_lists_stand_side_by_side_where_a_cell_has_room(watch, inspector, tmp_path, width, beside) -> None:
    file = tmp_path / "cell.html"
    cell = answer_html(inspector.view(QUESTION, {}))
    file.write_text(f"<!doctype html><meta charset=utf-8><body style='margin:0'>{cell}", encoding="utf-8")
    page = watch(width).open(file.as_uri())
    boxes = [one.bounding_box() for one in page.locator(".pg-lists > div").all()]
    assert len(boxes) == 3
    assert sum(abs(box["y"] - boxes[0]["y"]) < 1 for box in boxes) == beside
    hidden = "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).length"
    assert page.locator(".pg-lists > div").evaluate_all(hidden) == 0
    widths = page.locator(".pg-answer > table td:nth-child(2)").evaluate_all("all => all.map(one => one.offsetWidth)")
    assert min(widths) >= 200
    assert page.get_by_text("calibrated: this score on the scale that all sources share").is_visible()
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTEFACTS / f"notebook-{width}.png", full_page=True)
    if width == 900:
        assert page.locator(".pg-answer").evaluate_all(hidden) == 0
        assert page.locator("thead th").evaluate_all("all => all.filter(one => one.offsetHeight > 60).length") == 0


SEEN = """all => {
  const light = (colour) => { const [r, g, b] = colour.match(/[\\d.]+/g).map(Number); return (r + g + b) / 765; };
  return all.map((one) => light(getComputedStyle(one).color));
}"""


@pytest.mark.parametrize(("paper", "ink"), [("#111", "#eee"), ("#fff", "#222")])
def test_a_cell_takes_the_colours_of_its_notebook(watch, inspector, tmp_path, paper, ink) -> None:
    file = tmp_path / "cell.html"
    cell = answer_html(inspector.view(QUESTION, {}))
    body = f"<body style='margin:0;background:{paper};color:{ink}'>{cell}"
    file.write_text(f"<!doctype html><meta charset=utf-8>{body}", encoding="utf-8")
    page = watch(900).open(file.as_uri())
    inked = page.locator(".pg-answer td, .pg-answer th, .pg-answer h4, .pg-answer span:not(.pg-bar, .pg-dot)")
    assert set(inked.evaluate_all(SEEN)) == set(page.locator("body").evaluate_all(SEEN))
    backs = page.locator(".pg-answer, .pg-answer td").evaluate_all(
        "all => [...new Set(all.map((one) => getComputedStyle(one).backgroundColor))]"
    )
    assert backs == ["rgba(0, 0, 0, 0)"]
    assert "The graph found this" in page.locator(".pg-answer td").all_inner_texts()[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_a_report_folds_its_rows_and_fits_dark_paper(watch, tmp_path, width, scheme) -> None:
    rows = [[f"system-{row}", f"{row}.0", "1/2", "0.5", "12.0"] for row in range(8)]
    columns = ["system", "LastHop@10", "W/L@10", "p@10 (Holm)", "ms"]
    file = write_report(
        tmp_path, title="toy", lead="Twelve queries.", columns=columns, rows=rows, marked=["system-3"],
        pictures=_pictures(), terms={"W/L@10": "questions won and lost against vector"}, sort_by="LastHop@10",
    )  # fmt: skip
    page = watch(width, color_scheme=scheme).open(file.as_uri())
    shown = page.locator("tbody tr:visible")
    assert shown.count() == 5
    assert shown.first.inner_text().startswith("system-7")
    page.get_by_label("all 8 rows").check()
    assert shown.count() == 8
    assert page.get_by_role("main").count() == page.get_by_role("navigation").count() == 1
    (ink,), (paper,) = page.locator("body").evaluate_all(SEEN), page.locator("body").evaluate_all(
        SEEN.replace(".color)", ".backgroundColor)")
    )  # fmt: skip
    assert (ink > paper) is (scheme == "dark")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTEFACTS / f"report-{width}-{scheme}.png", full_page=True)
