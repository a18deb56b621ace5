"""The questions that a comparison explains: they agree with the table, and a loss is among them where there is one."""

from __future__ import annotations

from phasegraph.evaluation.comparison import Comparison, compare_own
from phasegraph.evaluation.corpus_files import Passage
from phasegraph.evaluation.judgements import Judgement
from phasegraph.evaluation.query_files import Query

PASSAGES = [Passage(name, "", f"The text of passage {name} is like no other text.") for name in "abcdefghij"]


def compared(*questions: tuple[str, str, str]) -> Comparison:
    """Questions of (gold, what the user's retriever returns, what ours returns), a letter a passage."""
    asked, own, ours = [], {}, {}
    for row, (gold, theirs, found) in enumerate(questions):
        judgement = Judgement(f"q{row}", tuple((name,) for name in gold), last_hop_known=False)
        asked.append(Query(f"q{row}", f"question {row}", judgement))
        own[f"question {row}"], ours[f"q{row}"] = list(theirs), tuple(found)
    return compare_own("mine", own.__getitem__, asked, PASSAGES, {"ours": ours})


def test_a_question_that_the_table_counts_as_lost_is_explained_as_lost() -> None:
    found = compared(("abc", "bcdefg", "adefgh"))  # one hop gained from nowhere, two hops lost
    assert found.pairs()["ours"]["mine"] == (0, 1)
    (flip,) = found.flips("ours")
    assert not flip.won
    assert flip.passage in "bc"


def test_three_flips_hold_a_loss_however_many_questions_are_won() -> None:
    won = [("a", "bcdef", "abcde")] * 6
    found = compared(*won, ("b", "bcdef", "cdefgb"))
    assert found.pairs()["ours"]["mine"] == (6, 1)
    assert [flip.won for flip in found.flips("ours")] == [True, False, True]


def test_a_question_that_gains_as_much_as_it_loses_is_no_flip() -> None:
    found = compared(("ab", "acdef", "bcdef"))
    assert found.pairs()["ours"]["mine"] == (0, 0)
    assert found.flips("ours") == []
