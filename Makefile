# Everything runs in a virtual environment that these targets make. `make help` lists them.
# Another interpreter: `PYTHON=python3.12 make demo`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
TRITON_READY := $(VENV)/.triton-ready
LLVM_READY := $(VENV)/.llvm-ready
CUDA_READY := $(VENV)/.cuda-ready
# Wave brings a torch and an IREE of its own: it has an environment for itself.
WAVE_VENV := .venv-wave
WAVE_READY := $(WAVE_VENV)/.ready
# When the fast tests passed last; what they are about.
FAST_PASSED := $(VENV)/.fast-passed
TESTED := $(shell find src tests bench oracles docs examples -type f -not -path '*/__pycache__/*') Makefile README.md CONTRIBUTING.md
# Pip need not compile or look for its own news.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help demo test test-compilers test-cuda test-wave check lint types fast docs docs-serve bench bench-wave fuzz clean

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

$(LLVM_READY): $(READY)
	$(PIP) -e '.[llvm]'
	@touch $@

# There are wheels of NVRTC for Linux and Windows; g++ or clang++ makes nvcc complete.
$(CUDA_READY): $(READY)
	@case "$$(uname -s)" in \
	  Darwin) echo "NOT TESTED: CUDA has no wheels for this machine" ;; \
	  *) $(PIP) -e '.[cuda-host]' && touch $@ ;; esac

# There are wheels of Wave for Linux on x86 only.
$(WAVE_READY): pyproject.toml
	@if [ "$$(uname -sm)" = "Linux x86_64" ]; then $(PYTHON) -m venv $(WAVE_VENV) && \
	  $(WAVE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[wave,dev]' && touch $@; \
	else echo "NOT TESTED: Wave has no wheels for this machine"; fi

$(DOCS_READY): $(READY)
	$(PIP) -e '.[docs]'
	@touch $@

demo: $(READY)  ## one kernel without barriers: raced, synchronized, proved, run, scheduled, drawn
	$(BIN)/tidegate demo

check: $(READY) lint types fast  ## lint, types and fast tests: before every commit

lint: $(READY)  ## style: ruff's rules and its format
	$(BIN)/ruff check src tests bench oracles examples
	$(BIN)/ruff format --check src tests bench oracles examples

types: $(READY)  ## types, strictly
	$(BIN)/mypy

fast: $(READY) $(TRITON_READY)  ## the tests that take seconds
	$(BIN)/python -m pytest -q -n 2 -m 'not slow and not full and not compilers and not cuda'
	@touch $(FAST_PASSED)

$(FAST_PASSED): $(TESTED)
	$(MAKE) fast

# The fast tests are not run again where nothing has changed since they passed.
test: $(READY) $(DOCS_READY) $(TRITON_READY) $(FAST_PASSED) test-compilers test-cuda test-wave  ## all tests, and the docs built strictly
	$(BIN)/python -m pytest -q -n 2 -m 'slow and not full and not compilers and not cuda'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

test-compilers: $(READY) $(TRITON_READY) $(LLVM_READY)  ## proofs against what ptxas and LLVM make of kernels
	$(BIN)/python -m pytest -q -n 2 -m compilers tests/house/test_real_compilers.py tests/lowering

test-cuda: $(CUDA_READY)  ## CUDA source through NVRTC and nvcc
	@if [ -e $(CUDA_READY) ]; then $(BIN)/python -m pytest -q -n 2 -m 'cuda and not full' tests/hosts/cuda; fi

test-wave: $(WAVE_READY)  ## the tests that need Wave, in an environment of its own
	@if [ -e $(WAVE_READY) ]; then $(WAVE_VENV)/bin/python -m pytest -q -n 2 -m 'not full' tests/hosts/wave; fi

docs: $(DOCS_READY)  ## the documentation as a folder `site/`
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(DOCS_READY)  ## the documentation on this machine
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

bench: $(READY) $(TRITON_READY)  ## the figures of docs/benchmarks.md
	$(BIN)/python -m bench

bench-wave: $(WAVE_READY)  ## the figures about Wave of docs/benchmarks.md
	$(WAVE_VENV)/bin/python -m bench.wave_barriers -o wave.json
	$(WAVE_VENV)/bin/python -m bench.wave_time
	$(WAVE_VENV)/bin/python -m bench.wave_run

fuzz: $(READY) $(TRITON_READY) $(CUDA_READY)  ## random kernels, graphs and damaged files, far more than in the tests
	$(BIN)/python -m pytest -q -n 2 -m slow tests/cli/test_hostile_runs.py --count 10000
	$(BIN)/python -m pytest -q tests/hosts/ptx/test_hostile_ptx.py -k test_damaged_ptx --count 5000
	$(BIN)/python -m pytest -q -n 2 -m 'slow or full' tests/language/test_roundtrip.py tests/language/test_damage.py tests/simulate/test_judge_random.py --count 200000
	$(BIN)/python -m pytest -q -n 2 -m full tests/graph/test_graph_random.py tests/verify/test_verify_random.py tests/language/test_points.py tests/report/test_report.py tests/report/test_explain.py tests/verify/test_agreement.py tests/graph/test_tally.py
	$(BIN)/python -m pytest -q -n 2 tests/placement/test_sync_random.py tests/placement/test_sync_optimal.py tests/placement/test_sync_mutants.py --count 10000
	@if [ -e $(CUDA_READY) ]; then $(BIN)/python -m pytest -q -m slow tests/hosts/cuda/test_cuda_random.py --count 2000; fi
	@if [ -e $(WAVE_READY) ]; then $(WAVE_VENV)/bin/python -m pytest -q -m full tests/hosts/wave/test_wave_random.py --count 10000; fi
	$(BIN)/python -m pytest -q -n 2 -m slow tests/verify/test_twins.py --count 10000

clean:  ## take away what these targets made
	rm -rf $(VENV) $(WAVE_VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
