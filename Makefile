# Everything runs in a virtual environment that these targets make. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
# Pip need not compile or look for its own news.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help demo test check lint types fast docs docs-serve bench fuzz clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[dev]'
	@touch $@

$(DOCS_READY): $(READY)
	$(PIP) -e '.[docs]'
	@touch $@

demo: $(READY)  ## one kernel from Python to its graph
	$(BIN)/tidegate demo

check: $(READY) lint types fast  ## lint, types and fast tests

lint: $(READY)
	$(BIN)/ruff check src tests bench examples
	$(BIN)/ruff format --check src tests bench examples

types: $(READY)
	$(BIN)/mypy

fast: $(READY)
	$(BIN)/python -m pytest -q -n 2 -m 'not slow and not full'

test: $(READY) $(DOCS_READY)  ## all tests, and the docs built strictly
	$(BIN)/python -m pytest -q -n 2 -m 'not full'
	$(BIN)/mkdocs build --quiet --strict

docs: $(DOCS_READY)  ## the documentation as a folder `site/`
	$(BIN)/mkdocs build --strict

docs-serve: $(DOCS_READY)  ## the documentation on this machine
	$(BIN)/mkdocs serve

bench: $(READY)  ## the figures of docs/benchmarks.md
	$(BIN)/python -m bench

fuzz: $(READY)  ## random kernels and damaged files, far more than in the tests
	$(BIN)/python -m pytest -q -n 2 -m 'slow or full' tests/test_roundtrip.py tests/test_damage.py --count 200000

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
