"""Settings are checked where they are made, and the message names the field."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.sources import BreakerSettings, CallableSource, Gatherer, SourceSettings


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("limit", 0, InvalidInputError),
        ("limit", -3, InvalidInputError),
        ("limit", True, InvalidTypeError),
        ("limit", 2.0, InvalidTypeError),
        ("limit", "50", InvalidTypeError),
        ("timeout", 0, InvalidInputError),
        ("timeout", -1.0, InvalidInputError),
        ("timeout", float("nan"), InvalidInputError),
        ("timeout", float("inf"), InvalidInputError),
        ("timeout", "1s", InvalidTypeError),
        ("timeout", True, InvalidTypeError),
        ("on_error", "ignore", InvalidInputError),
        ("depends_on", "vector", InvalidTypeError),
        ("depends_on", ("",), InvalidInputError),
        ("depends_on", (3,), InvalidTypeError),
        ("depends_on", ("v", "v"), InvalidInputError),
        ("max_in_flight", 0, InvalidInputError),
        ("max_in_flight", None, InvalidTypeError),
        ("circuit_breaker", 5, InvalidTypeError),
        ("in_thread", 1, InvalidTypeError),
    ],
)
def test_a_setting_outside_its_range_is_an_error_that_names_it(field, value, error):
    with pytest.raises(error, match=f"^{field} must"):
        SourceSettings(**{field: value})


@pytest.mark.parametrize(("field", "value"), [("failures", 0), ("failures", 1.5), ("probe_interval", 0)])
def test_breaker_settings_outside_their_range_are_errors(field, value):
    with pytest.raises(InvalidInputError, match=rf"BreakerSettings\.{field} must"):
        BreakerSettings(**{field: value})


def test_numbers_of_numpy_are_numbers():
    assert SourceSettings(limit=np.int64(5), timeout=np.float32(0.5)).limit == 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "at least one source"),
        ({"": SourceSettings()}, "not blank"),
        ({3: SourceSettings()}, "not blank"),
        ({"v": None}, "must be SourceSettings"),
        ([("v", SourceSettings())], "must be a mapping"),
        ({"v": SourceSettings(depends_on=("w",))}, "depends on 'w', which has no settings"),
        ({"v": SourceSettings(depends_on=("v",))}, "cycle"),
        ({"a": SourceSettings(depends_on=("b",)), "b": SourceSettings(depends_on=("a",))}, "cycle"),
    ],
)
def test_a_gatherer_of_wrong_settings_is_not_built(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        Gatherer(settings)


@pytest.mark.parametrize(("field", "value"), [("timeout", 0), ("timeout", "3"), ("strict", "yes")])
def test_a_gatherer_with_a_wrong_option_is_not_built(field, value):
    with pytest.raises(InvalidInputError, match=field):
        Gatherer({"v": SourceSettings()}, **{field: value})


@pytest.mark.parametrize("query", ["", "  \n\t", None, b"who", 7])
def test_a_query_must_be_text_that_is_not_blank(query, healthy, ask):
    with pytest.raises(InvalidInputError, match="query must"):
        ask(Gatherer({"healthy": SourceSettings()}), {"healthy": healthy}, query)


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({}, "at least one source"),
        ([], "mapping"),
        ({"unknown": CallableSource("unknown", lambda query, limit: [])}, "source 'unknown' has no settings"),
        ({"healthy": object()}, "search or asearch; got object"),
        ({"healthy": None}, "search or asearch; got NoneType"),
    ],
)
def test_sources_that_cannot_be_asked_are_an_error_before_any_is(sources, message, ask):
    with pytest.raises(InvalidInputError, match=message):
        ask(Gatherer({"healthy": SourceSettings()}), sources, "who?")


def _sent(one):
    return pickle.loads(pickle.dumps(one))  # noqa: S301 - our own bytes


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, _sent])
def test_a_gatherer_can_be_copied_and_sent_to_another_process(duplicate, healthy):
    one = Gatherer({"healthy": SourceSettings(limit=1)}, timeout=3.0, strict=True)
    other = duplicate(one)
    assert dict(other.settings) == dict(one.settings)
    assert (other.timeout, other.strict) == (3.0, True)
    assert other.gather({"healthy": healthy}, "who?").rankings[0].ids == ("a",)


def test_settings_are_a_snapshot():
    given = {"v": SourceSettings()}
    gatherer = Gatherer(given)
    given["w"] = SourceSettings()
    assert list(gatherer.settings) == ["v"]
