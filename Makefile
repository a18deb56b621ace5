# Every target makes its own environment; nothing has to be done first.
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
# Tests start many processes: without cached bytecode, each of them compiles the packages again.
export PYTHONDONTWRITEBYTECODE :=
DRIVER6 := .venv-driver6
DOCS := .venv-docs
COMPARE := .venv-compare
DISTRIBUTED := .venv-distributed
GRAPHRAG := .venv-graphrag
NEWEST := .venv-newest
LOWEST := .venv-lowest
LOWEST_PINS := .cache/lowest-constraints.txt
DRIVER6_PINS := .cache/driver6-constraints.txt
DISTRIBUTED_PINS := .cache/distributed-constraints.txt
GRAPHRAG_PINS := .cache/graphrag-constraints.txt
PACKAGES := -e . -e integrations/langchain-phasegraph -e integrations/llama-index-retrievers-phasegraph
SOURCES := pyproject.toml constraints.txt Makefile integrations/langchain-phasegraph/pyproject.toml \
	integrations/llama-index-retrievers-phasegraph/pyproject.toml

.PHONY: demo test test-servers test-tools test-wheels test-all coverage test-newest test-lowest test-driver6 test-distributed test-graphrag lint format types bench neo4j docs site clean help chaos kills soak siege connections disk clocks fuzz determinism compare figures figures-check

help:  ## What there is
	@grep -E '^[a-z0-9-]+:.*##' Makefile | sed 's/:.*## /\t/'

# uv installs a whole environment in a third of pip's time, and resolves the newest versions that pip does not. Where the
# machine has no uv, pip installs it for this checkout.
UV := $(or $(shell command -v uv),$(CURDIR)/.venv-uv/bin/uv)
# Files are copied: nltk, which LlamaIndex brings, refuses to read a file with several hard links
export UV_LINK_MODE := copy

# $(1): environment, $(2): constraints, $(3): what goes in, $(4): its Python.
define install_into
	@test -x $(UV) || { python3 -m venv .venv-uv && .venv-uv/bin/pip install -q -c constraints.txt uv; }
	@test -x $(1)/bin/python || $(UV) venv -q --seed -p $(or $(4),python3) $(1)
	@VIRTUAL_ENV=$(CURDIR)/$(1) $(UV) pip install -q -c $(2) $(3)
endef

# $(1): dependency groups. Hundreds of processes use this environment, so its bytecode is compiled once, and not when it is imported.
install = $(call install_into,$(VENV),constraints.txt,--compile-bytecode $(PACKAGES) $(foreach g,$(1),--group $(g)))

$(VENV)/.ready-demo: $(SOURCES)
	$(call install,demo)
	@touch $@

$(VENV)/.ready-test: $(SOURCES)
	$(call install,demo test matrix)
	@touch $@ $(VENV)/.ready-demo

$(VENV)/.ready-lint: $(SOURCES)
	$(call install,demo test matrix lint)
	@touch $@ $(VENV)/.ready-demo $(VENV)/.ready-test

# $(1): environment, $(2): run. OPTIONS go to the run: make fuzz OPTIONS="--seconds 60"; then its figures are not kept.
define reliability
	$(1)/bin/python tools/reliability/$(2).py $(or $(OPTIONS),--json docs/reliability/$(2).json); \
		code=$$?; $(if $(OPTIONS),,$(1)/bin/python tools/reliability/promises.py;) exit $$code
endef

$(VENV)/.ready-bench: $(SOURCES)
	$(call install,demo test matrix bench)
	@touch $@

demo: $(VENV)/.ready-demo  ## The main job on bundled real data, in both frameworks
	$(BIN)/python examples/demo.py

# TARGETS of tests/conftest.py says which tests belong to which target; tests/test_targets.py checks that none is left out.
PARALLEL := -n $(WORKERS) --dist loadgroup
SERVERLESS := -m "not servers and not tools and not wheels"

test: $(VENV)/.ready-test  ## Every test that needs no server, no wheels and no tool, in WORKERS processes
	$(BIN)/python -m pytest $(PARALLEL) -m "not servers and not tools and not wheels"
	@echo "The other tests: make test-servers, make test-tools, make test-wheels; all in one run: make test-all"

test-servers: $(VENV)/.ready-test  ## Neo4j, PostgreSQL, MCP and HTTP servers, and the browser; says what it skipped
	$(BIN)/python -m pytest $(PARALLEL) -m servers

test-tools: $(VENV)/.ready-test  ## The programs of tools/, the examples, the notebooks, the pages, the tests' own rules, several processes, full caches
	$(BIN)/python -m pytest $(PARALLEL) -m tools

test-wheels: $(VENV)/.ready-test  ## The packages as a user gets them, in an empty environment for every Python there is
	PHASEGRAPH_ALL_PYTHONS=1 PHASEGRAPH_REQUIRE_WHEELS=1 $(BIN)/python -m pytest tests/wheels -m wheels

test-all: $(VENV)/.ready-test  ## The tests of the four targets above in one run: every server starts once
	$(BIN)/python -m pytest $(PARALLEL)

coverage: $(VENV)/.ready-test  ## The tests of make test with the share of branches that they take; fails below its floor
	$(BIN)/python -m pytest $(PARALLEL) $(SERVERLESS) --cov --cov-report=
	@echo "Lines and branches that no test takes: $(BIN)/coverage report --show-missing"

$(COMPARE)/.ready: $(SOURCES)
	$(call install_into,$(COMPARE),constraints.txt,$(PACKAGES) --group compare)
	@touch $@

# $(1): the last parts of versions of Python 3. The first of them that the machine has, on the PATH or among pyenv's.
python = $(or $(shell for minor in $(1); do \
	for one in python3.$$minor $(HOME)/.pyenv/versions/3.$$minor.*/bin/python; do \
	$$one -c "import ensurepip" 2>/dev/null && echo $$one && exit; done; done),$(error this needs Python 3.$(lastword $(1))))

# Made anew at each run: what is newest changes. LlamaIndex's BM25 retriever admits no PyStemmer 3, but works with it.
test-newest:  ## The tests without a server, and MCP, with the newest versions that the bounds allow, on Python 3.12 or later
	rm -rf $(NEWEST)
	$(call install_into,$(NEWEST),/dev/null,$(PACKAGES) --group newest,$(call python,14 13 12))
	$(call install_into,$(NEWEST),/dev/null,--no-deps --upgrade PyStemmer llama-index-retrievers-bm25)
	$(NEWEST)/bin/python -m pytest $(PARALLEL) $(SERVERLESS)
	$(NEWEST)/bin/python -m pytest tests/serving

# Old libraries use what newer ones of others deprecate.
$(LOWEST)/.ready: $(SOURCES) tools/bounds.py
	@mkdir -p $(dir $(LOWEST_PINS)) && python3 tools/bounds.py > $(LOWEST_PINS)
	$(call install_into,$(LOWEST),$(LOWEST_PINS),$(PACKAGES) --group lowest,$(call python,11))
	@touch $@

test-lowest: $(LOWEST)/.ready  ## The tests without a server with the lowest versions that the bounds allow, on Python 3.11
	$(LOWEST)/bin/python -m pytest $(PARALLEL) $(SERVERLESS) -W default::DeprecationWarning -W default::PendingDeprecationWarning

# LlamaIndex's Neo4j store admits no driver 6 beside it; it goes in without its dependencies, to write the graphs that
# are read here.
$(DRIVER6)/.ready: $(SOURCES)
	@mkdir -p $(dir $(DRIVER6_PINS)) && sed 's/^neo4j==.*/neo4j==6.4.1/' constraints.txt > $(DRIVER6_PINS)
	$(call install_into,$(DRIVER6),$(DRIVER6_PINS),$(PACKAGES) --group driver6)
	$(call install_into,$(DRIVER6),$(DRIVER6_PINS),--no-deps llama-index-graph-stores-neo4j)
	@touch $@

# What these files check is done by the server: its rights, its plugins, and statements that no driver changes.
SAME_IN_BOTH_DRIVERS := cypher gds rights hostile_input copies restricted_walks own_schema written_by_others
# A start of the server costs 20 seconds of a processor. Version 6 has other tests of a killed server, and frozen writes.
KILLED_WRITES := tests/neo4j/test_outages_in_writes.py::test_a_change_that_an_outage_interrupts_is_resumed_when_it_is_made_again[kill]

test-driver6: $(DRIVER6)/.ready  ## The Neo4j tests with version 6 of the driver, except tests of the server alone
	@$(DRIVER6)/bin/python -c "import neo4j; print('driver', neo4j.__version__)"
	$(DRIVER6)/bin/python -m pytest tests/neo4j $(SAME_IN_BOTH_DRIVERS:%=--ignore=tests/neo4j/test_%.py) --deselect "$(KILLED_WRITES)"

# Spark takes no pandas 3 yet.
$(DISTRIBUTED)/.ready: $(SOURCES)
	@mkdir -p $(dir $(DISTRIBUTED_PINS)) && sed 's/^pandas==.*/pandas==2.3.3/' constraints.txt > $(DISTRIBUTED_PINS)
	$(call install_into,$(DISTRIBUTED),$(DISTRIBUTED_PINS),-e . --group distributed)
	@touch $@

test-distributed: $(DISTRIBUTED)/.ready  ## Ray with two nodes and Spark for real, on loopback; needs Java 17
	PHASEGRAPH_REQUIRE_DISTRIBUTED=1 $(DISTRIBUTED)/bin/python -m pytest tests/distributed/test_ray.py tests/distributed/test_spark.py

# The client of Google that LightRAG brings takes no tenacity 9.2 yet.
$(GRAPHRAG)/.ready: $(SOURCES)
	@mkdir -p $(dir $(GRAPHRAG_PINS)) && sed 's/^tenacity==.*/tenacity==9.1.4/' constraints.txt > $(GRAPHRAG_PINS)
	$(call install_into,$(GRAPHRAG),$(GRAPHRAG_PINS),-e . -e integrations/langchain-phasegraph --group graphrag)
	@touch $@

test-graphrag: $(GRAPHRAG)/.ready  ## LightRAG and nano-graphrag as sources, as the guide has them
	$(GRAPHRAG)/bin/python -m pytest tests/graphrag

CODE := src tests integrations examples tools

lint: $(VENV)/.ready-lint types  ## ruff, mypy --strict, deptry, codespell and the fragments of the changelog
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/python tools/changes.py check
	$(BIN)/deptry src
	cd integrations/langchain-phasegraph && ../../$(BIN)/deptry .
	cd integrations/llama-index-retrievers-phasegraph && ../../$(BIN)/deptry .
	$(BIN)/codespell $(CODE) docs $(wildcard changes) Makefile pyproject.toml *.md

INTEGRATIONS := integrations/langchain-phasegraph/langchain_phasegraph integrations/llama-index-retrievers-phasegraph/llama_index

# The second run reads what the first wrote into the cache; the main modules of two programs do not go into one run.
types: $(VENV)/.ready-lint  ## mypy --strict alone
	$(BIN)/mypy --num-workers $(WORKERS) src $(INTEGRATIONS) tools/reproduce examples/demo.py
	$(BIN)/mypy tools/figures

format: $(VENV)/.ready-lint  ## Lay the code out
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

neo4j: $(VENV)/.ready-test  ## A real Neo4j on loopback in the foreground; needs Java 17 and Maven
	$(BIN)/python tests/neo4j_server/serve.py

bench: $(VENV)/.ready-bench  ## Ratios against named peers, in one run each
	$(BIN)/python tools/benchmarks/run_all.py

$(DOCS)/.ready: $(SOURCES)
	$(call install_into,$(DOCS),constraints.txt,--group docs)
	@touch $@

site: $(DOCS)/.ready  ## The documentation in artifacts/site; a warning is an error
	$(DOCS)/bin/python tools/docs/build.py

docs: site $(VENV)/.ready-test  ## The site, its search, and every program, command and link of its pages
	PHASEGRAPH_SITE=1 $(BIN)/python -m pytest tests/test_docs.py tests/examples/test_tutorials.py

# DATA: the folder of the data sets that are not in the repository; a figure of data that is not there is left out.
# DATE=1 measures nothing: the pages of stale figures say of when they are, until the code changes once more.
# The last line names the figures that are left, for ONLY. JOBS: figures that are made at a time.
figures: $(VENV)/.ready-test  ## Every quoted figure, and the pages that quote it; ONLY="readme rules" DATA=FOLDER JOBS=2
	$(BIN)/python tools/figures $(if $(DATE),--date) $(if $(ONLY),--only $(ONLY)) $(if $(DATA),--data $(DATA)) $(if $(JOBS),--jobs $(JOBS))

figures-check: $(VENV)/.ready-test  ## Fail for a figure that is older than the code, edited by hand, or wrong
	$(BIN)/python tools/figures --check $(if $(DATA),--data $(DATA))

chaos: $(VENV)/.ready-test  ## Faults in both real retrievers, every answer held against the oracle
	$(call reliability,$(VENV),chaos)

kills: $(VENV)/.ready-test  ## 200 processes killed, and full disks, within every command that changes a folder
	$(call reliability,$(VENV),kills)

soak: $(VENV)/.ready-test  ## What stays of 100,000 questions in each framework
	$(call reliability,$(VENV),soak)

siege: $(VENV)/.ready-test  ## Honest clients of serve beside 200 hostile clients, ten minutes
	$(call reliability,$(VENV),siege)

connections: $(VENV)/.ready-test  ## Honest clients of serve beside 10,000 connections that ask nothing
	$(call reliability,$(VENV),connections)

clocks: $(VENV)/.ready-test  ## Searches, changes and a follower while the clock is set back and forth; needs cc
	$(call reliability,$(VENV),clocks)

disk: $(VENV)/.ready-test  ## A full or failing disk at every write, sync, rename and lock of every command; needs cc
	$(call reliability,$(VENV),disk)

fuzz: $(VENV)/.ready-test  ## 200,000 damaged state files and hostile words
	$(call reliability,$(VENV),fuzz)

determinism: $(VENV)/.ready-test  ## One digest over hash seeds, processes, orders, asked and awaited
	$(call reliability,$(VENV),determinism)

compare: $(COMPARE)/.ready  ## The laws over LangChain, LlamaIndex, Haystack, ranx and qdrant-client, too
	$(call reliability,$(COMPARE),compare)

clean:  ## Remove the environment and everything made
	rm -rf $(VENV) .venv-uv $(NEWEST) $(LOWEST) $(DRIVER6) $(DOCS) $(COMPARE) $(DISTRIBUTED) $(GRAPHRAG) .pytest_cache .mypy_cache .ruff_cache .hypothesis artifacts
