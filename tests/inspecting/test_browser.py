"""The inspector's page as a person uses it, in a real headless Chromium, by Playwright's own assertions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect
from tiny import PASSAGES

from inspecting.conftest import EVIL, HOSTILE, QUESTION, Server, embed
from phasegraph import FusionPipeline
from phasegraph._support.markup import visible
from phasegraph.apps.inspector.inspector import Inspector
from phasegraph.apps.inspector.server import exported
from phasegraph.evaluation.corpus_files import Passage
from phasegraph.graph import build_chunk_graph
from phasegraph.sentences import label_of

ARTEFACTS = Path(__file__).resolve().parents[2] / "artifacts"


def ask(page: Page, question: str = QUESTION) -> None:
    page.get_by_label("Question", exact=True).fill(question)
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("#answers li").first).to_be_visible()


def no_overflow(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def cut_off(page: Page) -> list[str]:
    """Tables that are wider than what they stand in."""
    wider = "all => all.filter((one) => one.innerText && one.scrollWidth > one.clientWidth).map((one) => one.innerText)"
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_a_question_shows_every_part_and_nothing_runs_over(watch, address, inspector, width, scheme) -> None:
    watched = watch(width, color_scheme=scheme)
    page = watched.open(address)
    ask(page)
    view = inspector.view(QUESTION, {})
    rows = [row for row in view["rows"] if row["position"]]
    expect(page.locator("#answers li")).to_have_count(10)
    for row in rows[:3]:
        expect(page.locator("#answers li").nth(row["position"] - 1).locator(".why")).to_have_text(visible(row["why"]))
    expect(page.locator("#summary")).to_contain_text("of 15 candidates")
    expect(page.locator("#answers table").first).to_be_hidden()
    if width == 400:
        expect(page.locator("#walk-card")).to_be_hidden()
        page.get_by_role("tab", name="Walk").click()
    expect(page.locator("#walk canvas").first).to_be_visible()
    expect(page.locator("#paths")).to_contain_text("—is the topic of→")
    no_overflow(page)
    shot(page, f"inspect-{width}-{scheme}.png")
    if width == 400:
        page.get_by_role("tab", name="Walk").click()
        expect(page.locator("#walk-card")).to_be_hidden()
    page.locator("#answers button.passage").nth(1).click()
    expect(page.locator("#answers li.on table")).to_contain_text("contribution")
    page.get_by_text("What each source returned").click()
    expect(page.locator("#weights-why")).to_contain_text("Agreement")
    for source in view["sources"]:
        part = page.locator("#lists").get_by_role("region", name=source["name"])
        expect(part).to_contain_text(f"weight {source['weight']:.3f}")
        expect(part.locator("tbody tr")).to_have_count(min(10, len(source["ids"])))
    expect(page.locator("#lists tr.on").first).to_be_visible()
    no_overflow(page)
    assert cut_off(page) == []
    shot(page, f"inspect-selected-{width}-{scheme}.png")
    assert {url.removeprefix(address) for url in watched.asked} == {
        "", "static/inspector.css", "static/inspector.js", "static/cytoscape.min.js", "api/about", "api/ask",
    }  # fmt: skip


def test_the_walk_stays_beside_the_answers_and_settings_need_no_scrolling(watch, address) -> None:
    page = watch(1280).open(address)
    ask(page)
    page.locator("#answers li").last.scroll_into_view_if_needed()
    expect(page.locator("#walk")).to_be_in_viewport()
    page = watch(400).open(address)
    ask(page)
    for place in ("first", "last"):
        getattr(page.locator("#answers li"), place).scroll_into_view_if_needed()
        page.get_by_role("tab", name="Settings").click()
        expect(page.locator("#weight-0")).to_be_in_viewport()
        page.get_by_role("tab", name="Settings").click()
        expect(page.locator("#weight-0")).to_be_hidden()


def test_what_foreign_hands_wrote_is_only_ever_text(watch, address) -> None:
    watched = watch()
    page = watched.open(address)
    ask(page, f"Where did Lord Byron, father of Ada Lovelace, die? {EVIL}")
    expect(page.locator("#about")).to_contain_text("tiny <b>")
    page.get_by_text("What each source returned").click()
    page.get_by_role("button", name=re.compile("^All ")).first.click()
    for _, title, _ in HOSTILE[:2]:
        shown = title.replace("\u2066", "⟨U+2066⟩")
        page.locator("#lists").get_by_role("button", name=shown, exact=True).first.click()
        expect(page.locator("#lists tr.on").first).to_be_visible()
    page.get_by_role("tab", name="Why not?").click()
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
    titles = page.locator("#answers button.passage")
    expect(titles.first).to_be_visible()
    page.locator("#skip").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#answer-card")).to_be_focused()
    page.keyboard.press("Tab")
    expect(titles.first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#answers li.on button.passage")).to_be_focused()
    page.keyboard.press("Space")
    expect(page.locator("#answers li.on")).to_have_count(0)
    for key, place in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
        page.keyboard.press(key)
        expect(titles.nth(place)).to_be_focused()
        expect(page.locator("#answers li.on table")).to_be_visible()
    page.get_by_role("tab", name="Walk").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Settings")).to_be_focused()
    weight = page.locator("#weight-0")
    for _ in range(4):
        page.keyboard.press("Tab")
        if weight.evaluate("one => one === document.activeElement"):
            break
    expect(weight).to_be_focused()
    page.keyboard.press("Home")
    expect(page.locator("#weight-0-said")).to_have_text("0 %")
    expect(weight).to_be_focused()
    page.get_by_role("tab", name="Why not?").press("Enter")
    page.locator("#needle").focus()
    page.keyboard.type("p11")
    page.keyboard.press("Enter")
    expect(page.locator("#why h3")).to_have_text("Geneva")
    page.get_by_role("tab", name="Judged").press("Enter")
    page.locator("#flip").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#flips")).to_contain_text("gold passages of 4 questions")
    page.keyboard.press("/")
    expect(page.get_by_label("Question", exact=True)).to_be_focused()


def test_settings_are_moved_and_nothing_is_asked_anew(watch, address, inspector) -> None:
    watched = watch()
    page = watched.open(address)
    ask(page)
    searched = []
    inspector._gatherer.gather, kept = (lambda *given: searched.append(given)), inspector._gatherer.gather
    try:
        page.get_by_role("tab", name="Settings").click()
        expect(page.locator("#edited")).to_be_hidden()
        move(page, "#weight-2", 70)
        expect(page.locator("#weight-2-said")).to_have_text("70 %")
        said = page.locator("#weights output").all_inner_texts()
        assert sum(int(one.removesuffix(" %")) for one in said) == 100
        expect(page.locator("#edited")).to_have_text("as opened, edited")
        expect(page.locator("#pipeline option:checked")).to_have_text("as opened, edited")
        expect(page.locator("#answers")).to_contain_text("▲ ▼: rank change from the pipeline as opened")
        move(page, "#weight-2", 100)
        expect(page.locator("#weight-2-said")).to_have_text("100 %")
        wanted = inspector.view(QUESTION, {"weights": {"graph": 0, "bm25": 0, "vector": 1}})
        before = inspector.view(QUESTION, {})
        top = next(row for row in wanted["rows"] if row["position"] == 1)
        expect(page.locator("#answers .id").first).to_have_text(visible(top["id"]))
        was = {row["id"]: row["position"] for row in before["rows"]}
        moved = [row for row in wanted["rows"] if row["position"] and was[row["id"]] != row["position"]]
        assert moved
        expect(page.locator("#answers .move")).to_have_count(len(moved))
        wider = "all => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.innerText)"
        assert page.locator("#answers .place").evaluate_all(wider) == []
        first = moved[0]
        mark = "▲ new" if not was[first["id"]] else f"{'▲▼'[was[first['id']] < first['position']]} "
        expect(page.locator("#answers li").nth(first["position"] - 1).locator(".move")).to_contain_text(mark)
        move(page, "#final", 0.99)
        expect(page.locator("#summary")).to_contain_text("No passages: acceptance rejected every candidate")
        page.get_by_text("What each source returned").click()
        expect(page.locator("#weights-why")).to_contain_text("Weights: fixed by the settings")
        expect(page.locator("#lists tr.rejected").first).to_be_visible()
        page.get_by_role("button", name="Reset").click()
        expect(page.locator("#answers li")).to_have_count(10)
        expect(page.locator("#answers .move")).to_have_count(0)
        page.locator("#k").fill("3")
        page.locator("#k").press("Enter")
        expect(page.locator("#answers li:not(.ghost)")).to_have_count(3)
    finally:
        inspector._gatherer.gather = kept
    assert searched == []


def test_two_pipelines_stand_side_by_side_and_the_moved_one_is_saved(watch, address, tmp_path) -> None:
    page = watch(1280, accept_downloads=True).open(address)
    ask(page)
    page.get_by_role("tab", name="Settings").click()
    page.get_by_label("Compared with").select_option("reciprocal_rank")
    expect(page.locator("#answers ol")).to_have_count(2)
    expect(page.locator("#answers")).to_contain_text("Compared: reciprocal_rank")
    expect(page.locator("#answers .move").first).to_be_visible()
    page.locator("#answers button.passage").first.click()
    expect(page.locator("#answers li.on table").first).to_be_visible()
    no_overflow(page)
    assert cut_off(page) == []
    page.get_by_label("Shown").select_option("reciprocal_rank")
    expect(page.locator("#answers")).to_contain_text("Shown: reciprocal_rank, rule rrf")
    page.locator("#k").fill("4")
    page.locator("#k").press("Enter")
    expect(page.locator("#answers ol").first.locator("li:not(.ghost)")).to_have_count(4)
    with page.expect_download() as found:
        page.get_by_role("button", name="Save pipeline").click()
    found.value.save_as(tmp_path / "pipeline.json")
    saved = FusionPipeline.load(tmp_path / "pipeline.json")
    assert (saved.rule, saved.k) == ("rrf", 4)
    with page.expect_download() as found:
        page.get_by_role("button", name="Save page").click()
    found.value.save_as(tmp_path / "answer.html")
    assert (tmp_path / "answer.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_judged_questions_are_offered_first_starred_and_their_missed_passages_shown(watch, address, inspector) -> None:
    page = watch().open(address)
    offered = page.locator("#starters li")
    expect(offered).to_have_text([query.text for query in inspector.judged])
    offered.first.get_by_role("button").click()
    expect(page.get_by_label("Question", exact=True)).to_have_value(QUESTION)
    hops = inspector.judged[0].judgement.hops
    expect(page.locator("#gold")).to_have_text(f"★ gold {len(hops)} of {len(hops)}")
    expect(page.locator("#answers li.gold .star")).to_have_count(len(hops))
    page.get_by_role("tab", name="Settings").click()
    page.locator("#k").fill("2")
    page.locator("#k").press("Enter")
    expect(page.locator("#gold")).to_have_text(f"★ gold 1 of {len(hops)}")
    (missed,) = inspector.view(QUESTION, {"k": 2})["missed"]
    ghost = page.locator("#answers li.ghost")
    expect(ghost).to_contain_text(missed["label"])
    expect(ghost.locator(".why")).to_have_text(missed["why"])
    assert re.fullmatch(r"Rank \d+ of 15 candidates: graph \d+th, vector \d+th.", missed["why"])
    ghost.get_by_role("button", name="Why not?").click()
    expect(page.locator("#why h3")).to_have_text(missed["label"])
    page.get_by_role("tab", name="Judged").click()
    page.get_by_role("button", name="Compare with the pipeline as opened").click()
    found = inspector.flips({"k": 2}, {})
    assert found["lost"]
    expect(page.locator("#flips h3.loss")).to_have_text(f"Loss in {len(found['lost'])} questions")
    page.locator("#flips button").first.click()
    expect(page.get_by_label("Question", exact=True)).to_have_value(found["lost"][0]["question"])


def test_a_question_of_another_world_gets_a_banner_and_faded_rows(watch, address, inspector) -> None:
    page = watch().open(address)
    ask(page)
    expect(page.locator("#banner")).to_be_hidden()
    ask(page, "Who cooks the best ramen of Osaka?")
    assert inspector.view("Who cooks the best ramen of Osaka?", {})["unlikely"]
    expect(page.locator("#banner")).to_contain_text("Probably not in this collection")
    row = page.locator("#answers li").nth(4)
    assert float(row.locator(".bar").evaluate("one => getComputedStyle(one).opacity")) < 1
    inks = "all => all.map((one) => [one, one.closest('.card')]).map(([one, card]) => "
    inks += "[getComputedStyle(one).color, getComputedStyle(card).backgroundColor])"
    for ink, paper in row.locator("button.passage, .id, .why, .text").evaluate_all(inks):
        assert contrast(ink, paper) >= 4.5
    assert set(row.evaluate("one => [one, ...one.querySelectorAll('button, p')].map((part) => "
                            "getComputedStyle(part).opacity)")) == {"1"}  # fmt: skip


def contrast(first: str, second: str) -> float:
    """The contrast ratio of two colors, as the accessibility guidelines (WCAG 2) define it."""
    light = []
    for colour in (first, second):
        parts = [int(one) / 255 for one in re.findall(r"\d+", colour)[:3]]
        red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
        light.append(0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)
    return max(light) / min(light)


def test_an_answer_without_passages_says_so_once(watch, address, inspector) -> None:
    assert inspector.view("xyzzy qwfpgj", {"final": 0.99})["unlikely"]
    page = watch().open(address)
    page.get_by_label("Question", exact=True).fill("xyzzy qwfpgj")
    page.get_by_role("button", name="Ask").click()
    page.get_by_role("tab", name="Settings").click()
    move(page, "#final", 0.99)
    expect(page.locator("#summary")).to_contain_text("No passages: acceptance rejected every candidate")
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.locator(".keys")).to_be_hidden()


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_covers_the_lists_and_a_long_passage_is_read_to_its_end(watch, address, width) -> None:
    page = watch(width).open(address)
    ask(page, "Byron")
    page.get_by_text("What each source returned").click()
    page.locator("#lists section").last.scroll_into_view_if_needed()
    side, lists = page.locator("#side").bounding_box(), page.locator("#lists-card").bounding_box()
    assert side
    assert lists
    assert width == 400 or side["y"] + side["height"] <= lists["y"]
    long = page.locator("#answers li").filter(has_text="x" * 100)
    long.locator("button.passage").click()
    text = long.locator(".text")
    hidden = "one => one.scrollHeight - one.clientHeight"
    assert text.evaluate(hidden) > 0
    text.evaluate("one => { one.scrollTop = one.scrollHeight; }")
    assert text.evaluate("one => one.scrollTop") == pytest.approx(text.evaluate(hidden), abs=1)


def test_a_narrow_page_shows_the_start_of_a_long_question(watch, address) -> None:
    watched = watch(400)
    watched.home, page = address, watched.page
    page.goto(f"{address}#question={quote(QUESTION)}")
    expect(page.locator("#answers li").first).to_be_visible()
    box = page.get_by_label("Question", exact=True)
    assert box.evaluate("one => one.scrollWidth > one.clientWidth")
    assert box.evaluate("one => one.scrollLeft") == 0


def test_the_address_keeps_question_and_settings_and_the_back_button_takes_steps_back(watch, address) -> None:
    watched = watch()
    page = watched.open(address)
    ask(page)
    other = "Who is the father of Ada Lovelace?"
    ask(page, other)
    expect(page).to_have_url(re.compile(f"#question={re.escape(quote(other))}$"))
    page.get_by_role("tab", name="Settings").click()
    page.locator("#k").fill("2")
    page.locator("#k").press("Enter")
    expect(page.locator("#answers li:not(.ghost)")).to_have_count(2)
    expect(page).to_have_url(re.compile("settings="))
    page.reload()
    expect(page.get_by_label("Question", exact=True)).to_have_value(other)
    expect(page.locator("#answers li:not(.ghost)")).to_have_count(2)
    expect(page.locator("#edited")).to_have_text("as opened, edited")
    page.go_back()
    expect(page.locator("#answers li")).to_have_count(10)
    expect(page.locator("#edited")).to_be_hidden()
    page.go_back()
    expect(page.get_by_label("Question", exact=True)).to_have_value(QUESTION)
    page.go_back()
    expect(page.locator("#start-card")).to_be_visible()
    expect(page.locator("#starters")).to_contain_text("Previous questions in this browser")
    expect(page.locator("#starters li").filter(has_text=other)).to_have_count(1)
    page.get_by_role("button", name="Remove these questions").click()
    expect(page.locator("#starters")).not_to_contain_text("Previous questions in this browser")
    assert not any("question" in url for url in watched.asked), "the question is behind the #"


def test_a_lost_server_says_what_to_run_again_and_a_new_server_is_found(watch, inspector) -> None:
    inspector.command, kept = "phasegraph inspect 'my folder'", inspector.command
    try:
        first = Server(inspector)
        watched = watch()
        page = watched.open(first.address)
        ask(page)
        first.stop()
        page.get_by_label("Question", exact=True).fill("Who is Ada?")
        page.get_by_role("button", name="Ask").click()
        expect(page.locator("#lost")).to_contain_text("The server does not answer")
        expect(page.locator("#command")).to_have_text(f"phasegraph inspect 'my folder' --port {first.port}")
        second = Server(inspector, port=first.port)
        page.get_by_role("button", name="Try again").click()
        expect(page.locator("#lost")).to_be_hidden()
        expect(page.locator("#answers li").first).to_be_visible()
        second.stop()
    finally:
        inspector.command = kept
    watched.wrong = [line for line in watched.wrong if "ERR_CONNECTION_REFUSED" not in line]  # the browser's own note


@pytest.mark.parametrize("width", [1280, 400])
def test_chunks_without_titles_are_called_by_their_words_and_joined_by_their_relations(watch, served, width) -> None:
    rows = [Passage(name, "", text) for name, _, text in PASSAGES]
    chunks = build_chunk_graph(rows, documents=["a"] * 6 + ["b"] * 6, embeddings=[embed(one.text) for one in rows])
    shown = Inspector(chunks, "chunks", embedder=embed, passages=rows)
    page = watch(width).open(served(shown))
    ask(page)
    expect(page.locator("#about")).to_contain_text("12 passages · ")
    first = next(row for row in shown.view(QUESTION, {})["rows"] if row["position"] == 1)
    text = next(one.text for one in rows if one.id == first["id"])
    expect(page.locator("#answers button.passage").first).to_have_text(label_of("", "", text))
    if width == 400:
        page.get_by_role("tab", name="Walk").click()
    expect(page.locator("#paths")).to_contain_text("stands next to")
    no_overflow(page)


def test_a_token_in_the_address_leaves_it_and_is_needed(watch, inspector, served) -> None:
    token = "key-<of>%&-the-house"
    home = served(inspector, "127.0.0.1", token)
    watched = watch()
    watched.home = home
    page = watched.page
    page.goto(f"{home}#token={quote(token)}")
    ask(page)
    assert page.url == f"{home}#question={quote(QUESTION)}"
    assert not any("token" in url for url in watched.asked)
    other = watch()
    page = other.open(home)
    expect(page.locator("#token-form")).to_be_visible()
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Use token").click()
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
    page.locator("#answers button.passage").first.click()
    expect(page.locator("#answers li.on").first).to_be_visible()
    if width == 400:
        page.get_by_role("tab", name="Walk").click()
    expect(page.locator("#walk canvas").first).to_be_visible()
    expect(page.get_by_role("tab", name="Judged")).to_be_hidden()
    page.get_by_role("tab", name="Why not?").click()
    page.get_by_label("Passage by id").fill("Geneva")
    page.get_by_role("button", name="Look").click()
    expect(page.locator("#why, #found").filter(has_text="Geneva").first).to_be_visible()
    no_overflow(page)
    shot(page, f"inspect-export-{width}.png")
    assert watched.asked == [file.as_uri()]
    held = re.search(r'<script type="application/json" id="data">(.*?)</script>', file.read_text(encoding="utf-8"))
    assert held is not None
    assert json.loads(held[1])["view"]["question"] == question
