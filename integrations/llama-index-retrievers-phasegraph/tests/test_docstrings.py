"""The examples in the docstrings run, the public names are documented, and the namespace stays open."""

import doctest
import importlib
import pkgutil

import pytest

from llama_index.retrievers import phasegraph

MODULES = sorted(info.name for info in pkgutil.walk_packages(phasegraph.__path__, f"{phasegraph.__name__}."))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_run(name):
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


@pytest.mark.parametrize("name", phasegraph.__all__)
def test_every_public_name_says_what_it_takes(name):
    assert "Parameters\n" in (getattr(phasegraph, name).__doc__ or "")


def test_the_namespace_packages_of_the_framework_stay_importable():
    import llama_index.core
    import llama_index.retrievers.bm25

    import llama_index.retrievers

    assert getattr(llama_index.retrievers, "__file__", None) is None
    assert llama_index.core.__version__
