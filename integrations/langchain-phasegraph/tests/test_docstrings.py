"""The examples in the docstrings run, and the public names are documented."""

import doctest
import importlib
import pkgutil

import pytest

import langchain_phasegraph

MODULES = sorted(info.name for info in pkgutil.walk_packages(langchain_phasegraph.__path__, "langchain_phasegraph."))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_run(name):
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


@pytest.mark.parametrize("name", langchain_phasegraph.__all__)
def test_every_public_name_says_what_it_takes(name):
    assert "Parameters\n" in (getattr(langchain_phasegraph, name).__doc__ or "")
