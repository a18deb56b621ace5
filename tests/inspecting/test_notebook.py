"""What a notebook's cell shows: lists beside each other, nothing cut off, in a real headless Chromium."""

from __future__ import annotations

import pytest

from inspecting.conftest import QUESTION
from phasegraph._support.markup import answer_html


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
    if width == 900:
        assert page.locator(".pg-answer").evaluate_all(hidden) == 0
        assert page.locator("thead th").evaluate_all("all => all.filter(one => one.offsetHeight > 60).length") == 0
