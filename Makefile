# Every target sets up what it needs in .venv; a machine needs Python 3.11 or later, and make.

PYTHON ?= python3
WORKERS ?= auto
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-browser lint bench bench-gate docs docs-open fuzz test-versions
# Where Python is told to keep no bytecode, every command that tests start would compile all modules.
export PYTHONDONTWRITEBYTECODE =
# The targets share one environment: pip must not run twice in it at once.
.NOTPARALLEL:

help:  ## list the targets
	@awk -F ':.*  ## ' '/^[a-z-]+:.*  ## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.cli  ## damage a real table, repair it before your eyes
	@$(BIN)/unpermute demo

test: $(VENV)/.cli,test  ## run the tests and the examples in the docstrings
	@$(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 8

test-browser: $(VENV)/.browser  ## drive the workbench in Chromium, which is installed where that is allowed
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && apt-get -qq update && apt-get -qq install -y chromium; } || true
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 0 tests/browser

lint: $(VENV)/.lint  ## check style, types and spelling
	@if git rev-parse --git-dir >/dev/null 2>&1; \
		then PATH="$(CURDIR)/$(BIN):$$PATH" pre-commit run --all-files; \
		else sed -n 's/^ *entry: //p' .pre-commit-config.yaml | PATH="$(CURDIR)/$(BIN):$$PATH" sh -ex; \
		fi

fuzz: $(VENV)/.cli,test  ## thousands of odd files, lists, models, matrices and kills
	@OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=2 $(BIN)/python fuzz $(FUZZ)

test-versions: $(VENV)/.cli,test  ## run quick tests with the lowest versions allowed, and the newest Python
	@$(BIN)/python -m pip install -qq --disable-pip-version-check uv
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh tests/versions.sh

bench: $(VENV)/.cli,bench  ## print the benchmark tables (benchmarks/ has longer ones)
	@$(BIN)/python benchmarks/detection.py
	@$(BIN)/python benchmarks/recovery.py --quick
	@$(BIN)/python benchmarks/scale.py
	@$(BIN)/python benchmarks/peers.py --quick

bench-gate: $(VENV)/.cli,test  ## fail if a workload became much slower than recorded (RECORD=1 records better ones)
	@OMP_NUM_THREADS=1 POLARS_MAX_THREADS=1 $(BIN)/python benchmarks/gate.py $(if $(RECORD),--record)

docs: $(VENV)/.cli,dask,docs  ## build the documentation into docs/_build/html; warnings are errors
	@$(BIN)/python -m sphinx -b html -W -n --keep-going -q docs docs/_build/html
	@$(BIN)/python docs/check_links.py docs/_build/html
	@$(BIN)/python docs/list_times.py docs
	@echo "docs/_build/html/index.html"

docs-open: docs  ## build the documentation and serve it on http://localhost:8000
	@$(BIN)/python -m http.server --bind 127.0.0.1 --directory docs/_build/html 8000

# The stamp .venv/.a,b says that the extras a and b are installed; it is renewed when their list is.
$(VENV)/.%: pyproject.toml | $(BIN)/python
	@echo "Installing unpermute[$*] into $(VENV) ..."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable ".[$*]"
	@touch "$@"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "unpermute needs Python 3.11 or later; name one with make PYTHON=...")'
	@$(PYTHON) -m venv $(VENV)
