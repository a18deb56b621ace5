"""Words: BM25 against bm25s, updates to the bit of a rebuild, other scripts, and what hits say of a query."""

from __future__ import annotations

import pickle
import sys

import bm25s
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasegraph import InvalidInputError, InvalidTypeError, MissingDependencyError, Ranking
from phasegraph.graph.walk.covering import cover
from phasegraph.lexical import (
    TOKENIZERS,
    ChangedWords,
    CountedTexts,
    HitWords,
    LexicalIndex,
    LexicalPart,
    places_of,
    read_hits,
    split,
    tokenizer_of,
)
from phasegraph.ranking import QueryWords

TEXTS = [
    "Ada Lovelace met Charles Babbage in London.",
    "Charles Babbage designed the Analytical Engine, an engine of brass.",
    "London is the capital of England; London lies on the Thames.",
    "The Thames is a river.",
]
WORDS = st.lists(st.sampled_from(["ada", "bo", "cy", "engine", "the", "東京都", "Öl"]), max_size=6).map(" ".join)


def arrays(index):
    return [index.vocabulary, *(getattr(index, one).tolist() for one in ("starts", "rows", "counts", "lengths"))]


@pytest.mark.parametrize("query", ["Who met Babbage in London?", "engine engine thames", "nothing of it"])
def test_scores_are_those_of_bm25s(query):
    peer = bm25s.BM25()
    peer.index(bm25s.tokenize(TEXTS, stopwords="en", show_progress=False), show_progress=False)
    words = bm25s.tokenize(query, stopwords="en", return_ids=False, show_progress=False)[0]
    own = LexicalIndex.of(TEXTS).look_up(query)
    np.testing.assert_allclose(own.scores, peer.get_scores(words), rtol=1e-5)


@given(st.lists(WORDS, min_size=1, max_size=6), st.lists(WORDS, max_size=4), st.data())
def test_an_updated_index_is_a_new_one_to_the_bit(before, new, data):
    stays = [row for row in range(len(before)) if data.draw(st.booleans())]
    if not stays and not new:
        return
    kept = np.array([*stays, *[-1] * len(new)], dtype=np.int64)
    texts = {len(stays) + place: text for place, text in enumerate(new)}
    updated = LexicalIndex.of(before).replaced(kept, texts)
    fresh = LexicalIndex.of([*(before[row] for row in stays), *new])
    assert arrays(updated) == arrays(fresh)
    assert updated.look_up("ada engine 東京都").scores.tobytes() == fresh.look_up("ada engine 東京都").scores.tobytes()


def test_words_are_counted_alike_however_many_at_once(monkeypatch):
    whole = arrays(LexicalIndex.of(TEXTS))
    monkeypatch.setattr("phasegraph.lexical.index._COUNTED", 3)
    assert arrays(LexicalIndex.of(TEXTS)) == whole


def test_words_of_other_scripts():
    assert split("東京都はどこ? Tokyo-2024") == ["東京", "京都", "都は", "はど", "どこ", "tokyo", "2024", "tokyo-2024"]
    assert split("京") == ["京"]
    assert split("佐々木・人々") == ["佐々", "々木", "人々"]
    assert split("हिन्दी भाषा में लिखा") == ["हिन्दी", "भाषा", "में", "लिखा"]
    assert split("Mu\u0308nchen") == split("München") == ["münchen"]
    assert TOKENIZERS["german"]("Die Straße ist naß") == ["straße", "naß"]  # codespell:ignore ist
    assert TOKENIZERS["english"]("To be or not") == []
    assert TOKENIZERS["plain"]("To be or not") == ["to", "be", "or", "not"]


@pytest.mark.parametrize(
    ("text", "added"),
    [
        ("find_peaks", ["find", "peaks"]),
        ("parseXMLFile2", ["parse", "xml", "file2"]),
        ("__init__ _x", ["init"]),
        ("ERR_CONN_RESET", ["err", "conn", "reset"]),
        ("np.linalg.norm", ["np.linalg.norm"]),
        ("3.12.1 beside 2.0", ["3.12.1", "2.0"]),
        ("ORA-00942, CVE-2024-1234", ["ora-00942", "cve-2024-1234"]),
        ("関数find_peaksを", ["find", "peaks"]),
        ("zoë_élan", ["zoë", "élan"]),
        ("TechCrunch, McDonald, iPhone, eBay, mRNA, well-known. End", []),
    ],
)
def test_identifiers_are_kept_whole_and_split(text, added):
    assert split(text) == [*split(text, identifiers=False), *added]


@pytest.mark.parametrize(("query", "found"), [("find peaks", 0), ("find_peaks", 0), ("findPeaks", 0), ("3.12", 1)])
def test_an_identifier_is_found_by_its_parts_and_by_its_whole(query, found):
    scores = (
        LexicalIndex.of(["def find_peaks(x):", "Python 3.12 of 2023", "no 12 peaks here at all"]).look_up(query).scores
    )
    assert scores.argmax() == found
    assert scores[found] > 0


def test_places_are_those_of_the_tokenizers_words():
    assert places_of("call find_peaks()", TOKENIZERS["english"]("find_peaks")) == [(5, 15)]
    assert places_of("call findPeaks()", TOKENIZERS["english"]("peaks")) == [(9, 14)]
    assert places_of("TechCrunch, tech", TOKENIZERS["english"]("tech")) == [(12, 16)]
    assert places_of("on 3.12 and 312", TOKENIZERS["english"]("3.12")) == [(3, 7)]
    assert places_of("東京都はどこ", split("東京都")) == [(0, 3)]
    first = lambda text: [word[:3].lower() for word in text.split()]  # noqa: E731 - as a stemmer does
    assert places_of("running, Runs", ["run"], first) == [(0, 7), (9, 13)]


def test_a_tokenizer_of_ones_own_and_what_is_none():
    index = LexicalIndex.of(["a-b", "b-c"], tokenizer=lambda text: text.split("-"))
    assert index.vocabulary == ("a", "b", "c")
    with pytest.raises(InvalidInputError, match="tokenizer must be a function or one of english, german, plain"):
        LexicalIndex.of(["a"], tokenizer="klingon")
    with pytest.raises(InvalidTypeError, match="tokenizer must give a list of words"):
        LexicalIndex.of(["a"], tokenizer=str.lower)
    for wrong in (lambda text: None, lambda text: ["a", 1]):
        with pytest.raises(InvalidTypeError, match="tokenizer must give a list of words"):
            LexicalIndex.of(["a"], tokenizer=wrong)


def test_words_without_their_endings(monkeypatch):
    index = LexicalIndex.of(["Die Häuser der Stadt", "Wir sehen find_peaks"], tokenizer="snowball:german")
    assert index.look_up("Haus").scores.argmax() == 0
    assert index.look_up("peak").scores.argmax() == 1
    copied = pickle.loads(pickle.dumps(index))  # noqa: S301
    assert copied.look_up("Häusern").scores.tolist() == index.look_up("Häusern").scores.tolist()
    assert places_of("Zwei Häuser", tokenizer_of("snowball:german")("Haus"), "snowball:german") == [(5, 11)]
    with pytest.raises(InvalidInputError, match="'snowball:klingon' must name a language of Snowball: arabic, "):
        LexicalIndex.of(["a"], tokenizer="snowball:klingon")
    monkeypatch.setitem(sys.modules, "Stemmer", None)
    with pytest.raises(MissingDependencyError, match=r"needs PyStemmer; pip install 'phasegraph\[stemming\]'"):
        LexicalIndex.of(["a"], tokenizer="snowball:french")


def test_what_the_words_of_a_query_know():
    index = LexicalIndex.of(TEXTS)
    found = index.look_up("Who met Babbage, Zork?")
    assert found.words == ("met", "babbage")
    assert found.held_by(np.array([0, 1, 3])).tolist() == [[True, True], [False, True], [False, False]]
    assert found.shares.sum() == pytest.approx(1)
    assert found.all_idf["zork"] == pytest.approx(np.log1p(4.5 / 0.5))
    assert found.all_idf["babbage"] == pytest.approx(np.log1p(2.5 / 2.5))
    assert index.look_up("the of").words == ()
    copied = pickle.loads(pickle.dumps(index))  # noqa: S301
    assert copied.look_up("thames").scores.tolist() == index.look_up("thames").scores.tolist()


def test_an_index_of_texts_without_words():
    assert LexicalIndex.of(["", "?"]).look_up("ada").scores.tolist() == [0, 0]


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans(), st.booleans()), min_size=1, max_size=12), st.floats(0, 5))
def test_what_picks_are_worth_falls_and_nobody_left_out_has_more(rows, weight):
    values = np.array([row[0] for row in rows])
    held = np.array([row[1:] for row in rows])
    shares = np.array([0.3, 0.7])
    places, worth = cover(values, np.where(held, weight * shares, 0.0), 5)
    assert (np.diff(worth) <= 1e-12).all()
    assert len(set(places.tolist())) == min(5, len(rows))
    rest = np.setdiff1d(np.arange(len(rows)), places)
    assert (values[rest] <= worth[-1] + 1e-12).all()


def test_where_no_source_knows_the_words_they_are_weighed_by_the_texts_and_order_nothing():
    rankings = [Ranking("v", ["a", "c"], [2.0, 1.0]), Ranking("graph", ["b"], [1.0])]
    texts = {"a": "ada sang", "b": "", "c": "cy sang"}
    found = read_hits("Who saw Ada sang?", rankings, texts.__getitem__)
    assert found.order == ()
    idf = np.log1p((3 - np.array([0, 0, 1, 2]) + 0.5) / (np.array([0, 0, 1, 2]) + 0.5)) ** 2  # who, saw, ada, sang
    assert found.covers == {"v": pytest.approx(idf[2:].sum() / idf.sum()), "graph": 0.0}


def test_nothing_is_said_of_a_query_without_words_or_hits_without_texts():
    rankings = [Ranking("v", ["a"], [1.0], words=QueryWords({"ada": 1.0}))]
    assert read_hits("the?", rankings, {"a": "ada"}.__getitem__) == HitWords()
    assert read_hits("ada?", rankings, {"a": ""}.__getitem__) == HitWords()


def test_hits_are_ordered_by_their_texts_whoever_found_them():
    texts = {"a": "Bo sang.", "b": "Ada met Bo and Ada sang.", "c": "Cy."}
    words = QueryWords({"ada": 2.0, "bo": 1.0})
    one, two = Ranking("v", ["a", "c"], [2.0, 1.0]), Ranking("graph", ["b", "c"], [2.0, 1.0], words=words)
    found = read_hits("Did Ada meet Bo?", [one, two], texts.__getitem__)
    assert found == read_hits("Did Ada meet Bo?", [two, one], texts.__getitem__)
    assert found.order == ("b", "a")
    assert found.covers == {"v": pytest.approx(0.2), "graph": 1.0}


@given(st.lists(WORDS, min_size=1, max_size=30), WORDS, st.integers(1, 25), st.randoms())
def test_counted_hits_say_what_reading_their_texts_says(texts, query, found, random):
    index = LexicalIndex.of(texts)
    rows = {f"p{random.random()}": row for row in range(len(texts))}
    texts_of = {name: texts[row] for name, row in rows.items()}
    stated = QueryWords(dict(index.look_up(query).all_idf))
    ids = random.sample(sorted(rows), min(found, len(rows)))
    rankings = [
        Ranking("graph", ids, -np.arange(len(ids), dtype=float), words=stated),
        Ranking("vector", ids[::3], -np.arange(len(ids[::3]), dtype=float)),
    ]
    read = read_hits(query, rankings, texts_of.__getitem__)
    counted = CountedTexts(index, rows.__getitem__)
    assert read_hits(query, rankings, lambda _: 1 / 0, counted) == read  # type: ignore[arg-type,return-value]
    some = CountedTexts(index, lambda name: rows[name] if rows[name] % 2 else -1)
    assert read_hits(query, rankings, texts_of.__getitem__, some) == read
    other = CountedTexts(LexicalIndex.of(texts, "plain"), rows.__getitem__)
    assert read_hits(query, rankings, texts_of.__getitem__, other) == read
    first = len(texts) // 2
    log = ChangedWords(LexicalIndex.of(texts[:first]), LexicalIndex.of(texts[first:]), LexicalIndex.of(()), np.empty(0))
    assert read_hits(query, rankings, lambda _: 1 / 0, CountedTexts(log, rows.__getitem__)) == read  # type: ignore[arg-type,return-value]


@given(st.lists(st.sampled_from([0.1, 0.5, 0.9]), min_size=1, max_size=12), st.data())
def test_cover_takes_the_most_that_is_left_at_every_step(values, data):
    words = data.draw(st.integers(0, 4))
    held = np.array(
        data.draw(
            st.lists(
                st.lists(st.booleans(), min_size=words, max_size=words), min_size=len(values), max_size=len(values)
            )
        ),
        dtype=bool,
    ).reshape(len(values), words)
    shares = np.array(data.draw(st.lists(st.sampled_from([0.1, 0.3]), min_size=words, max_size=words)), dtype=float)
    places, worth = cover(np.array(values), np.where(held, 2.0 * shares, 0.0), 9)
    left, had = dict(enumerate(values)), np.zeros(words, dtype=bool)
    for place, gain in zip(places.tolist(), worth.tolist(), strict=True):
        totals = {one: value + 2.0 * float(shares[held[one] & ~had].sum()) for one, value in left.items()}
        assert gain == pytest.approx(max(totals.values()))
        assert totals[place] == pytest.approx(gain)
        had |= held[place]
        del left[place]
    assert len(places) == min(9, len(values))


def test_cover_counts_what_a_place_adds_to_the_best_pick_so_far():
    places, worth = cover(np.zeros(3), np.array([[0.5], [0.4], [0.9]]), 3)
    assert places.tolist() == [2, 0, 1]
    assert worth.tolist() == [0.9, 0.0, 0.0]


@given(st.lists(WORDS, min_size=1, max_size=12), WORDS, st.data())
def test_a_part_says_what_an_index_of_it_says(texts, query, data):
    rows = np.array([row for row in range(len(texts)) if data.draw(st.booleans())], dtype=np.int64)
    whole = LexicalIndex.of(texts)
    part, fresh = LexicalPart(whole, rows), LexicalIndex.of([texts[row] for row in rows])
    one, other = part.look_up(query), fresh.look_up(query)
    assert (one.words, one.all_idf, one.scores.tobytes()) == (other.words, other.all_idf, other.scores.tobytes())
    listed, expected = part.look_up_listed(query, 3), fresh.look_up_listed(query, 3)
    assert (listed.found.tolist(), listed.best) == (expected.found.tolist(), expected.best)
    assert part.passages_with(["ada", "engine"]).tolist() == fresh.passages_with(["ada", "engine"]).tolist()
    assert "_counted_anew" not in vars(part)
    assert arrays(part) == arrays(fresh) == arrays(pickle.loads(pickle.dumps(part)))  # noqa: S301 - our own


def test_an_empty_word_of_a_query_is_not_in_an_empty_vocabulary() -> None:
    index = LexicalIndex.of(["Ada met Bo"] * 40, lambda text: text.lower().split(" "))
    for part in (index.part(np.array([3])), LexicalIndex.of([], lambda text: text.split(" "))):
        assert part.terms(" Zed").words == ()
