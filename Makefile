# Everything runs in a virtual environment that these targets make. `make help` lists them.
# Another interpreter: `PYTHON=python3.12 make demo`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
TRITON_READY := $(VENV)/.triton-ready
# Pip need not compile or look for its own news.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help demo test check lint types fast docs docs-serve bench fuzz clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[dev]'
	@touch $@

# There are wheels of Triton for Linux only; elsewhere the tests that need it say that they did not run.
$(TRITON_READY): $(READY)
	@if [ "$$(uname -s)" = Linux ]; then $(PIP) -e '.[triton]'; fi
	@touch $@

$(DOCS_READY): $(READY)
	$(PIP) -e '.[docs]'
	@touch $@

demo: $(READY)  ## one kernel: run, judged, without its barriers, with them again
	$(BIN)/tidegate demo

check: $(READY) lint types fast  ## lint, types and fast tests: before every commit

lint: $(READY)  ## style: ruff's rules and its format
	$(BIN)/ruff check src tests bench examples
	$(BIN)/ruff format --check src tests bench examples

types: $(READY)  ## types, strictly
	$(BIN)/mypy

fast: $(READY) $(TRITON_READY)  ## the tests that take seconds
	$(BIN)/python -m pytest -q -n 2 -m 'not slow and not full'

test: $(READY) $(DOCS_READY) $(TRITON_READY)  ## all tests, and the docs built strictly
	$(BIN)/python -m pytest -q -n 2 -m 'not full'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

docs: $(DOCS_READY)  ## the documentation as a folder `site/`
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(DOCS_READY)  ## the documentation on this machine
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

bench: $(READY) $(TRITON_READY)  ## the figures of docs/benchmarks.md
	$(BIN)/python -m bench

fuzz: $(READY) $(TRITON_READY)  ## random kernels, graphs and damaged files, far more than in the tests
	$(BIN)/python -m pytest -q -n 2 -m 'slow or full' tests/test_roundtrip.py tests/test_damage.py tests/test_judge_random.py --count 200000
	$(BIN)/python -m pytest -q -n 2 tests/test_sync_random.py tests/test_sync_optimal.py tests/test_sync_mutants.py --count 10000

clean:  ## take away what these targets made
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
