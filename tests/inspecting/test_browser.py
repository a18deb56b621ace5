"""The inspector's page as a person uses it, in a real headless Chromium, by Playwright's own assertions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from inspecting.conftest import EVIL, HOSTILE, QUESTION
from phasegraph import FusionPipeline
from phasegraph._support.markup import visible
from phasegraph.apps.inspector.server import exported

ARTEFACTS = Path(__file__).resolve().parents[2] / "artifacts"


def ask(page: Page, question: str = QUESTION) -> None:
    page.get_by_label("Question", exact=True).fill(question)
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("#answers li").first).to_be_visible()


def no_overflow(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def cut_off(page: Page) -> list[str]:
    """Tables that are wider than what they stand in."""
    wider = "all => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.innerText)"
    found: list[str] = page.locator(".scroll").evaluate_all(wider)
    return found


def shot(page: Page, name: str) -> None:
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTEFACTS / name, full_page=True)


def move(page: Page, label: str, value: float) -> None:
    """A slider to a value, as the hand that drags it."""
    page.locator(label).evaluate("(one, value) => { one.value = value; one.dispatchEvent(new Event('input')); }", value)


@pytest.fixture(scope="module")
def address(inspector, served) -> str:
    return served(inspector)


@pytest.mark.parametrize("width", [1280, 400])
def test_a_question_shows_every_part_and_nothing_runs_over(watch, address, inspector, width) -> None:
    watched = watch(width)
    page = watched.open(address)
    ask(page)
    view = inspector.view(QUESTION, {})
    expect(page.locator("#answers li")).to_have_count(10)
    for source in view["sources"]:
        part = page.locator("#lists").get_by_role("region", name=source["name"])
        expect(part).to_contain_text(f"weight {source['weight']:.3f}")
        expect(part.locator("tbody tr")).to_have_count(min(10, len(source["ids"])))
    expect(page.locator("#summary")).to_contain_text("of 15 candidates")
    expect(page.locator("#weights-why")).to_contain_text("Agreement")
    expect(page.locator("#walk canvas").first).to_be_visible()
    expect(page.locator("#paths")).to_contain_text("→")
    no_overflow(page)
    page.locator("#answers button.passage").nth(1).click()
    expect(page.locator("#answers li.on table")).to_contain_text("contribution")
    expect(page.locator("#lists tr.on").first).to_be_visible()
    no_overflow(page)
    assert cut_off(page) == []
    shot(page, f"inspect-{width}.png")
    assert {url.removeprefix(address) for url in watched.asked} == {
        "", "static/inspector.css", "static/inspector.js", "static/cytoscape.min.js", "api/about", "api/ask",
    }  # fmt: skip


def test_what_foreign_hands_wrote_is_only_ever_text(watch, address) -> None:
    watched = watch()
    page = watched.open(address)
    ask(page, f"Where did Lord Byron, father of Ada Lovelace, die? {EVIL}")
    expect(page.locator("#about")).to_contain_text("tiny <b>")
    page.get_by_role("button", name=re.compile("^All ")).first.click()
    for _, title, _ in HOSTILE[:2]:
        shown = title.replace("\u2066", "⟨U+2066⟩")
        page.locator("#lists").get_by_role("button", name=shown, exact=True).first.click()
        expect(page.locator("#lists tr.on").first).to_be_visible()
    page.get_by_label("Passage by id").fill(HOSTILE[0][0])
    page.get_by_role("button", name="Look").click()
    expect(page.locator("#why h3")).to_contain_text("</script><script>alert('x')</script>")
    expect(page.locator("#why")).to_contain_text("⟨U+2028⟩")
    page.get_by_label("Passage by id").fill("gnp")
    page.get_by_role("button", name="Look").click()
    expect(page.locator("#why")).to_contain_text("⟨U+0007⟩")
    expect(page.locator("main img, main script, main iframe")).to_have_count(0)
    assert "\u202e" not in page.locator("body").inner_text()
    no_overflow(page)


def test_it_is_used_by_the_keyboard_alone(watch, address) -> None:
    page = watch().open(address)
    expect(page.get_by_label("Question", exact=True)).to_be_focused()
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    first = page.locator("#answers button.passage").first
    expect(first).to_be_visible()
    for _ in range(3):
        page.keyboard.press("Tab")
        if first.evaluate("one => one === document.activeElement"):
            break
    expect(first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#answers li.on")).to_have_count(1)
    expect(page.locator("#answers li.on button.passage")).to_be_focused()
    page.keyboard.press("Space")
    expect(page.locator("#answers li.on")).to_have_count(0)
    weight = page.locator("#weight-0")
    for _ in range(60):
        page.keyboard.press("Tab")
        if weight.evaluate("one => one === document.activeElement"):
            break
    expect(weight).to_be_focused()
    page.keyboard.press("Home")
    expect(page.locator("#weight-0-said")).to_have_text(re.compile("^(0.000|–)$"))
    expect(weight).to_be_focused()
    page.locator("#needle").focus()
    page.keyboard.type("p11")
    page.keyboard.press("Enter")
    expect(page.locator("#why h3")).to_have_text("Geneva")
    page.locator("#flip").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#flips")).to_contain_text("gold passages of 4 questions")
    page.locator("h1").click()
    page.keyboard.press("/")
    expect(page.get_by_label("Question", exact=True)).to_be_focused()


def test_settings_are_moved_and_nothing_is_asked_anew(watch, address, inspector) -> None:
    watched = watch()
    page = watched.open(address)
    ask(page)
    searched = []
    inspector._gatherer.gather, kept = (lambda *given: searched.append(given)), inspector._gatherer.gather
    try:
        for row, weight in enumerate((0, 0, 1)):
            move(page, f"#weight-{row}", weight)
        expect(page.locator("#weight-2-said")).to_have_text("1.000")
        expect(page.locator("#weights-why")).to_contain_text("Weights: given")
        wanted = inspector.view(QUESTION, {"weights": {"graph": 0, "lexical": 0, "vector": 1}})
        top = next(row for row in wanted["rows"] if row["position"] == 1)
        expect(page.locator("#answers .id").first).to_have_text(visible(top["id"]))
        move(page, "#final", 0.99)
        expect(page.locator("#summary")).to_contain_text("No passage: acceptance rejected every one")
        expect(page.locator("#lists tr.rejected").first).to_be_visible()
        page.get_by_role("button", name="Reset").click()
        expect(page.locator("#answers li")).to_have_count(10)
        page.locator("#k").fill("3")
        page.locator("#k").press("Enter")
        expect(page.locator("#answers li")).to_have_count(3)
    finally:
        inspector._gatherer.gather = kept
    assert searched == []


def test_two_pipelines_stand_side_by_side_and_the_moved_one_is_saved(watch, address, tmp_path) -> None:
    page = watch(1280, accept_downloads=True).open(address)
    ask(page)
    page.get_by_label("Compared with").select_option("reciprocal_rank")
    expect(page.locator("#answers ol")).to_have_count(2)
    expect(page.locator("#answers")).to_contain_text("Compared: reciprocal_rank")
    expect(page.locator("#answers .move").first).to_be_visible()
    page.locator("#answers button.passage").first.click()
    expect(page.locator("#answers li.on table").first).to_be_visible()
    no_overflow(page)
    assert cut_off(page) == []
    page.get_by_label("Shown").select_option("reciprocal_rank")
    expect(page.locator("#summary")).to_contain_text("rule rrf")
    page.locator("#k").fill("4")
    page.locator("#k").press("Enter")
    expect(page.locator("#answers ol").first.locator("li")).to_have_count(4)
    with page.expect_download() as found:
        page.get_by_role("button", name="Save pipeline").click()
    found.value.save_as(tmp_path / "pipeline.json")
    saved = FusionPipeline.load(tmp_path / "pipeline.json")
    assert (saved.rule, saved.k) == ("rrf", 4)
    with page.expect_download() as found:
        page.get_by_role("button", name="Save page").click()
    found.value.save_as(tmp_path / "answer.html")
    assert (tmp_path / "answer.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_judged_questions_that_change_are_named(watch, address, inspector) -> None:
    page = watch().open(address)
    ask(page)
    page.get_by_role("button", name="Compare with the pipeline as opened").click()
    expect(page.locator("#flips")).to_contain_text("No question gains or loses one")
    page.locator("#k").fill("1")
    page.locator("#k").press("Enter")
    found = inspector.flips({"k": 1}, {})
    assert found["lost"]
    expect(page.locator("#flips h3.loss")).to_have_text(f"Loss in {len(found['lost'])} questions")
    page.locator("#flips button").first.click()
    expect(page.get_by_label("Question", exact=True)).to_have_value(found["lost"][0]["question"])


def test_a_token_in_the_address_leaves_it_and_is_needed(watch, inspector, served) -> None:
    token = "key-<of>%&-the-house"
    home = served(inspector, "127.0.0.1", token)
    watched = watch()
    watched.home = home
    page = watched.page
    page.goto(f"{home}#token={quote(token)}")
    ask(page)
    assert page.url == home
    assert not any("token" in url for url in watched.asked)
    other = watch()
    page = other.open(home)
    expect(page.locator("#token-form")).to_be_visible()
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Use it").click()
    expect(page.locator("#token-form")).to_be_hidden()
    ask(page)
    other.wrong = [line for line in other.wrong if "401" not in line]  # that the browser noted the refusal is right


def test_half_an_escape_in_the_address_is_a_token_like_any(watch, inspector, served) -> None:
    home = served(inspector, "127.0.0.1", "50%-of-it")
    watched = watch()
    watched.home = home
    watched.page.goto(f"{home}#token=50%-of-it")
    ask(watched.page)


@pytest.mark.parametrize("width", [1280, 400])
def test_the_exported_page_is_whole_offline_and_hostile_text_stays_text(watch, inspector, tmp_path, width) -> None:
    question = f"Where did the father of Ada Lovelace die? \u2028 {EVIL}"
    file = tmp_path / "page.html"
    file.write_text(exported(inspector, question, {}, {"pipeline": "reciprocal_rank"}), encoding="utf-8")
    watched = watch(width, offline=True)
    page = watched.open(file.as_uri())
    expect(page.locator("#asked")).to_contain_text("⟨U+2028⟩ </script>")
    expect(page.locator("#answers ol")).to_have_count(2)
    expect(page.locator("#answers h3").first).to_have_text("Shown: as opened, rule linear")
    expect(page.locator("#answers h3").last).to_have_text("Compared: reciprocal_rank, rule rrf")
    expect(page.get_by_label("Compared with")).to_have_value("reciprocal_rank")
    expect(page.locator("#walk canvas").first).to_be_visible()
    page.locator("#answers button.passage").first.click()
    expect(page.locator("#answers li.on").first).to_be_visible()
    page.get_by_label("Passage by id").fill("Geneva")
    page.get_by_role("button", name="Look").click()
    expect(page.locator("#why, #found").filter(has_text="Geneva").first).to_be_visible()
    no_overflow(page)
    shot(page, f"inspect-export-{width}.png")
    assert watched.asked == [file.as_uri()]
    held = re.search(r'<script type="application/json" id="data">(.*?)</script>', file.read_text(encoding="utf-8"))
    assert held is not None
    assert json.loads(held[1])["view"]["question"] == question
