"""Names are allow-listed before they are quoted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.neo4j.schema import quote, render

HOSTILE = (
    "a`b", "`", "a\\u0060b", "a\nb", "a\x00b", "a//b", "a/*b", "a'b", 'a"b', "a)-[:X]-(b", "a}b", "", " a", "a ", "1a",
    "a\u2028b", "a\u200bb", "$a", "a;b", "a" * 201, "\u0060", "a\ufeff",
)  # fmt: skip


@pytest.mark.parametrize("name", ["Chunk", "__Entity__", "Works at", "ns:Thing", "Čas", "词", "a-b.c", "A"])
def test_plain_words_are_quoted(name):
    assert quote(name, "label") == f"`{name}`"


@pytest.mark.parametrize("name", HOSTILE)
def test_anything_else_is_refused_by_name(name):
    with pytest.raises(InvalidInputError, match=r"label must have at most .* and contain only letters"):
        quote(name, "label")


@pytest.mark.parametrize("name", [None, 3, b"Chunk", ["Chunk"]])
def test_a_name_that_is_no_text_is_refused(name):
    with pytest.raises(InvalidTypeError, match="label must be a str"):
        quote(name, "label")


@given(st.text(max_size=60))
def test_whatever_passes_has_no_way_out_of_its_quotes(name):
    try:
        quoted = quote(name, "label")
    except InvalidInputError:
        return
    assert quoted[0] == quoted[-1] == "`"
    assert not set(quoted[1:-1]) & set("`\\'\"\n\r\x00;{}()[]<>$/*")


def test_a_template_without_a_name_for_its_field_is_refused():
    with pytest.raises(InvalidInputError, match="the schema has no name for entity"):
        render("MATCH (p:«passage»)--(e:«entity»)", {"passage": "Chunk"})


def test_names_that_the_template_does_not_use_are_checked_too():
    with pytest.raises(InvalidInputError):
        render("MATCH (p:«passage»)", {"passage": "Chunk", "other": "x`y"})
