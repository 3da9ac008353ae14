# Each target sets up what it needs in .venv and then runs documented commands.
# A machine needs Python 3.11 or newer and a C compiler: `make demo`, or `make PYTHON=python3.12 demo`.
# The targets for a GPU install nothing: they use $(PYTHON) as it is.

.DEFAULT_GOAL := help

PYTHON ?= python3
PROFILE ?= ci
RUN ?= runs/demo
CASES ?= gpu-cases
WORKERS ?= 2

VENV := .venv
VPY := $(VENV)/bin/python
READY := $(VENV)/.ready
SINGLE := OMP_NUM_THREADS=1
OLDEST := build/triton-3.6.0
EQUIVALENCE := $(SINGLE) $(VPY) -m equivalence

.PHONY: help demo test check lint types generated conformance kernels kernels-oldest bench \
	gpu-cases gpu clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The stamp is written last, so an interrupted set-up starts again from nothing.
$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "twingrad needs Python 3.11 or newer, and there is no '$(PYTHON)' here. Name one that is: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "twingrad needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Name another: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Setting up $(VENV), which takes a minute or two ..."
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt $(VPY) -m pip install -qq --disable-pip-version-check --editable '.[dev]'
	@touch $(READY)

demo: $(READY)  ## train on handwritten digits, then judge three of its steps
	$(VPY) -m fast train digits --keep-steps 3 --overwrite --out $(RUN)
	$(VPY) -m equivalence judge $(RUN)

test: $(READY)  ## all tests
	$(SINGLE) $(VPY) -m pytest -n $(WORKERS) --dist worksteal

check: lint types generated conformance kernels kernels-oldest  ## format, lint, types, regenerated files, conformance, kernels

lint: $(READY)
	$(VPY) -m ruff format --check .
	$(VPY) -m ruff check .

types: $(READY)
	$(VPY) -m mypy
	$(VPY) -m pyright

generated: $(READY)
	$(VPY) -m tools.generate_protocols --check
	$(VPY) -m tools.generate_mutants --check
	$(VPY) -m tools.generate_entries --check
	$(VPY) -m tools.generate_trust --check

conformance: $(READY)  ## judge our backends and torch (PROFILE=quick, ci or thorough)
	$(EQUIVALENCE) run --backend fast-aten --profile $(PROFILE)
	$(EQUIVALENCE) run --backend fast-triton-interpreted --profile $(PROFILE)
	$(EQUIVALENCE) run --backend torch --profile $(PROFILE)

kernels: $(READY)  ## compile every kernel for two GPUs that need not be here
	$(VPY) -m fast kernels --target sm_80,sm_90 --json build/kernels.json
	$(VPY) -m equivalence.runs.specializations

# The GPU's host may have an older triton; it lies beside the pinned one and is found first.
$(OLDEST)/.ready: $(READY)
	@rm -rf $(OLDEST)
	@$(VPY) -m pip install -qq --disable-pip-version-check --no-deps --target $(OLDEST) triton==3.6.0
	@touch $@

kernels-oldest: $(OLDEST)/.ready  ## the same with triton 3.6.0
	PYTHONPATH=$(OLDEST) $(VPY) -m fast kernels --target sm_80,sm_90 --json build/kernels-3.6.0.json

bench: $(READY)  ## side by side with torch, on this CPU
	$(SINGLE) $(VPY) -m benchmarks cpu --json build/cpu.json
	$(SINGLE) $(VPY) -m benchmarks flat --json build/flat.json

gpu-cases: $(READY)  ## record the cases that a machine with a GPU replays
	$(EQUIVALENCE) run --backend fast-triton --ring device --profile $(PROFILE) --record $(CASES)

gpu:  ## replay the cases and measure, on a machine with a GPU; installs nothing
	$(PYTHON) -m benchmarks gpu --cases $(CASES)

clean:  ## remove everything that a command has made
	rm -rf $(VENV) build dist runs $(CASES) .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
