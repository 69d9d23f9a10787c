# `make up` and `make test` do all the set-up; they need python3 (3.11 or newer), python3-venv and make.
# Flags for the program or pytest: make up ARGS="--port 8600", make test ARGS="-k supervise"; ARGS="-n0" runs
# one test after the other.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
ARGS ?=

.PHONY: help up test lint bench chaos compare clean
.DEFAULT_GOAL := help

help:
	@echo "make up     start Strata on http://127.0.0.1:8501"
	@echo "make test   install what the tests need and run them"
	@echo "make lint   ruff and mypy"
	@echo "make bench  measure"
	@echo "make chaos  kills the store's processes 200 times, and tries a thousand random histories"
	@echo "make compare  2,000 random queries, answered by Debian's Prometheus and by us"
	@echo "make clean  remove what these made"

# One command a line and nothing after it: make then runs the program itself, and a signal reaches it.
up: $(VENV)/installed
	@$(BIN)/strata up $(ARGS)

test: $(VENV)/installed-dev
	@tests/install_programs.sh
	$(BIN)/pytest -q -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

lint: $(VENV)/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(VENV)/installed-dev
	@tests/install_programs.sh
	@$(BIN)/python -m tests.bench $(ARGS)

chaos: $(VENV)/installed-dev
	@$(BIN)/python -m tests.chaos $(ARGS)

compare: $(VENV)/installed-dev
	@tests/install_programs.sh
	@$(BIN)/python -m tests.promql.compare $(ARGS)

clean:
	rm -rf $(VENV) *.egg-info build

# The stamps are written last: an installation that was broken off is done again.
$(VENV)/installed: pyproject.toml | $(VENV)/usable
	@echo "installing Strata into $(VENV); the first time takes a minute or two"
	@$(PIP) install --editable .
	@touch $@

$(VENV)/installed-dev: pyproject.toml | $(VENV)/usable
	@echo "installing Strata and its tools into $(VENV); the first time takes a minute or two"
	@$(PIP) install --editable ".[dev]"
	@touch $(VENV)/installed $@

$(VENV)/usable:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Strata needs Python 3.11 or newer; name one: make PYTHON=python3.11")'
	@$(PYTHON) -m venv $(VENV) || { echo "on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@touch $@
