# Each target sets up what it needs: Python 3.11 or newer and make are enough.
# Other interpreter: make test PYTHON=python3.13

PYTHON ?= python3
JOBS ?= 2

VENV := .venv
BIN := $(VENV)/bin
# One environment for all; a stamp says which extras it holds and is older than what it came from
# when they must be installed again.
SOURCES := $(VENV)/.stamp-venv pyproject.toml constraints.txt
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# -- what a user runs ------------------------------------------------------------------------------

.PHONY: demo
demo: $(VENV)/.stamp-model ## Run the demo with a real local model (set-up included, about 3 minutes)
	$(BIN)/statepact demo --model local

.PHONY: test
test: lint types ## Lint, types, import directions and the whole test suite
	$(BIN)/python -m pytest -q -n $(JOBS)

# -- what a developer runs -------------------------------------------------------------------------

.PHONY: check
check: lint types unit ## As test, with the unit tests only; under a minute

.PHONY: fmt
fmt: $(VENV)/.stamp-test ## Format the code and fix what ruff can fix
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

.PHONY: docs
docs: $(VENV)/.stamp-docs ## Build the pages into build/docs, warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -q -b html -d build/doctrees docs build/docs
	@echo "pages: build/docs/index.html"

.PHONY: bench
bench: $(VENV)/.stamp-bench ## Measure speed and size against the floor and LangGraph, into build/bench.json
	@mkdir -p build
	$(BIN)/python -m bench

.PHONY: faults
faults: $(VENV)/.stamp-test ## Let everything fail around the stores: about 7 minutes, into build/faults.json
	$(BIN)/python -m faults

.PHONY: faults-long
faults-long: $(VENV)/.stamp-test ## The same with ten times as many faults; writes docs/reliability.md
	$(BIN)/python -m faults --long --write

.PHONY: constraints
constraints: ## Pin all versions anew; with PYTHON=python3.11, the oldest we support
	rm -rf build/constraints && mkdir -p build
	$(PYTHON) -m venv build/constraints
	build/constraints/bin/python -m pip install --quiet --upgrade pip
	build/constraints/bin/python -m pip install --quiet -e '.[dev]'
	sed -n '/^#/p' constraints.txt > build/constraints.txt
	build/constraints/bin/python -m pip freeze --exclude-editable | grep -v -e ' @ ' -e '^-e' >> build/constraints.txt
	mv build/constraints.txt constraints.txt

.PHONY: clean
clean: ## Remove everything that make has made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests docs bench faults -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# -- the pieces ------------------------------------------------------------------------------------

.PHONY: lint
lint: $(VENV)/.stamp-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

.PHONY: types
types: $(VENV)/.stamp-test
	$(BIN)/mypy
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --pythonpath $(BIN)/python

.PHONY: unit
unit: $(VENV)/.stamp-test
	$(BIN)/python -m pytest -q -n $(JOBS) -m "not slow and not localmodel and not data" tests/unit

$(VENV): $(VENV)/.stamp-venv

$(VENV)/.stamp-venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "statepact needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || echo not here)." >&2; \
	  echo "  -> name another one: make $(or $(MAKECMDGOALS),test) PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -m venv --clear $(VENV) || { \
	  echo "'$(PYTHON) -m venv' failed; on Debian and Ubuntu: apt install python3-venv" >&2; exit 2; }
	@touch $@

$(VENV)/.stamp-base: $(SOURCES)
	$(INSTALL) -e .
	@touch $@

$(VENV)/.stamp-test: $(SOURCES)
	$(INSTALL) -e '.[test]'
	@touch $@

$(VENV)/.stamp-docs: $(SOURCES)
	$(INSTALL) -e '.[docs]'
	@touch $@

$(VENV)/.stamp-bench: $(SOURCES)
	$(INSTALL) -e '.[bench]'
	@touch $@

$(VENV)/.stamp-model: $(VENV)/.stamp-base scripts/install-local-model
	scripts/install-local-model $(BIN)/python
	@touch $@
