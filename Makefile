# Every target makes its own environment; nothing has to be done first.
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := -e . -e integrations/langchain-phasegraph -e integrations/llama-index-retrievers-phasegraph
SOURCES := pyproject.toml constraints.txt Makefile integrations/langchain-phasegraph/pyproject.toml \
	integrations/llama-index-retrievers-phasegraph/pyproject.toml

.PHONY: demo test lint format types bench neo4j clean help

help:  ## What there is
	@grep -E '^[a-z0-9]+:.*##' Makefile | sed 's/:.*## /\t/'

# $(1): dependency groups. uv where it is on the machine, else venv and pip.
define install
	@test -x $(BIN)/python || if command -v uv >/dev/null 2>&1; then uv venv -q $(VENV); else python3 -m venv $(VENV); fi
	@if command -v uv >/dev/null 2>&1; then \
		VIRTUAL_ENV=$(CURDIR)/$(VENV) uv pip install -q -c constraints.txt $(PACKAGES) $(foreach g,$(1),--group $(g)); \
	else \
		$(BIN)/python -m pip install -q -c constraints.txt pip && \
		$(BIN)/python -m pip install -q -c constraints.txt $(PACKAGES) $(foreach g,$(1),--group $(g)); \
	fi
endef

$(VENV)/.ready-demo: $(SOURCES)
	$(call install,demo)
	@touch $@

$(VENV)/.ready-test: $(SOURCES)
	$(call install,demo test matrix)
	@touch $@ $(VENV)/.ready-demo

$(VENV)/.ready-lint: $(SOURCES)
	$(call install,demo test matrix lint)
	@touch $@ $(VENV)/.ready-demo $(VENV)/.ready-test

$(VENV)/.ready-bench: $(SOURCES)
	$(call install,demo test matrix bench)
	@touch $@

demo: $(VENV)/.ready-demo  ## The main job on bundled real data, in both frameworks
	$(BIN)/phasegraph demo

test: $(VENV)/.ready-test  ## Every test that needs no root; says what it skipped
	$(BIN)/python -m pytest

lint: $(VENV)/.ready-lint  ## ruff and mypy --strict
	$(BIN)/ruff check src tests integrations examples scripts
	$(BIN)/ruff format --check src tests integrations examples scripts
	$(BIN)/mypy src
	cd integrations/langchain-phasegraph && ../../$(BIN)/mypy --config-file ../../pyproject.toml langchain_phasegraph
	cd integrations/llama-index-retrievers-phasegraph && ../../$(BIN)/mypy --config-file ../../pyproject.toml -p llama_index.retrievers.phasegraph

format: $(VENV)/.ready-lint  ## Lay the code out
	$(BIN)/ruff format src tests integrations examples scripts
	$(BIN)/ruff check --fix src tests integrations examples scripts

neo4j: $(VENV)/.ready-test  ## A real Neo4j on loopback in the foreground; needs Java 17 and Maven
	$(BIN)/python tests/neo4j_server/serve.py

bench: $(VENV)/.ready-bench  ## Ratios against named peers, in one run each
	$(BIN)/python tests/benchmarks/run_all.py

clean:  ## Remove the environment and everything made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis artifacts
