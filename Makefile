# Each target sets up what it needs in .venv and then runs documented commands.
# A machine needs Python 3.11 or newer and a C compiler: `make demo`, or `make PYTHON=python3.12 demo`.
# The targets for a GPU install nothing: they use $(PYTHON) as it is.

.DEFAULT_GOAL := help

PYTHON ?= python3
PROFILE ?= ci
RUN ?= runs/demo
CASES ?= gpu-cases
WORKERS ?= 2

# The commit whose eager step none may be slower than, by much.
OLDER := b5edb64

VENV := .venv
VPY := $(VENV)/bin/python
READY := $(VENV)/.ready
SINGLE := OMP_NUM_THREADS=1
# The oldest and the newest triton that pyproject.toml allows, beside the pinned one.
OLDEST := 3.6.0
NEWEST := 3.9.0
RACES := build/races
JAX := build/jax
LIGER := build/liger
FLAGGEMS := build/flaggems
EQUIVALENCE := $(SINGLE) $(VPY) -m equivalence

BACKENDS := fast-aten fast-triton-interpreted fast-inductor torch jax
STATEFUL := aten-fp32 aten-bf16 triton-fp32 triton-bf16
SESSIONS := programs trainers curvature $(STATEFUL:%=machine-%)
LATER := $(patsubst %,test-full-%,notes spec equivalence fast house mutants population benchmarks)
FULL := lint types generated test $(LATER) kernels kernels-$(OLDEST) kernels-$(NEWEST) races exact \
	$(BACKENDS:%=conformance-%) conformance-fast-inductor-random \
	conformance-fast-inductor-ci-turn sizes triton-$(OLDEST) triton-$(NEWEST) \
	newest $(SESSIONS:%=%-ci) dags bounds engine matrix bench
REPORTS := $(patsubst %,build/%.json,$(BACKENDS) fast-inductor-random sizes-fast-aten sizes-torch exact-fast-aten exact-kernels)
THOROUGH := engine-thorough conformance-fast-inductor-thorough laws $(SESSIONS:%=%-thorough) matrix-thorough sizes-interpreted flat

.PHONY: help demo quick test test-full check lint types generated regenerate conformance kernels kernels-turn kernels-$(OLDEST) kernels-$(NEWEST) full \
	thorough exact laws dags bounds matrix matrix-thorough sizes sizes-interpreted flat bench newest \
	engine engine-thorough gpu-cases gpu races races-turn strangers tiles clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# One process at a time makes an environment, and a half-made one is made again (tools/set_up.py).
$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "twingrad needs Python 3.11 or newer, and there is no '$(PYTHON)' here. Name one that is: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) tools/set_up.py $(VENV)

demo: $(READY)  ## train on handwritten digits, then judge three of its steps
	$(VPY) -m fast train digits --keep-steps 3 --overwrite --out $(RUN)
	$(VPY) -m equivalence judge $(RUN)

quick: lint  ## the inner loop: format, lint, and quick tests of the house, spec and fast
	$(SINGLE) $(VPY) -m pytest -n $(WORKERS) --dist worksteal -q -m "not slow and not full" -k "not triton" \
		tests/house tests/spec tests/fast/ops tests/fast/runtime

test: $(READY)  ## all tests but those that only `make full` runs
	$(SINGLE) $(VPY) -m pytest -n $(WORKERS) --dist worksteal -m "not full"

test-full: $(LATER)  ## the tests that `make test` leaves out

test-full-%: $(READY)
	$(SINGLE) $(VPY) -m pytest -n $(WORKERS) --dist worksteal -m full \
		$(firstword $(wildcard tests/$* tests/test_$*.py proofs_$*))

check: lint types generated conformance conformance-fast-inductor-turn kernels-turn races-turn  ## format, lint, types, regenerated files, conformance, kernels, races

lint: $(READY)
	$(VPY) -m ruff format --check .
	$(VPY) -m ruff check .

types: $(READY)
	$(VPY) -m mypy
	$(VPY) -m pyright

generated: $(READY)
	$(VPY) -m tools.generate --check

regenerate: $(READY)  ## write every generated file anew
	$(VPY) -m tools.generate

# A change has the pages that differ from what the last `make full` judged, and a turn of the others
# (tools/rotation.py). The twins are quick: half of them have their turn at `quick`, and a quarter on
# exact numbers. torch is pinned and the interpreter takes long: what they do at `ci` is left to `make full`.
conformance: $(READY)  ## judge our backends and torch: a turn of the pages
	$(EQUIVALENCE) run --whole --backend fast-aten --profile quick \
		--ops $$($(VPY) -m tools.rotation --turns 2) --jobs $(WORKERS)
	$(EQUIVALENCE) run --backend torch --profile quick --ops $$($(VPY) -m tools.rotation) --jobs $(WORKERS)
	$(EQUIVALENCE) run --whole --backend fast-aten --profile ci --ops $$($(VPY) -m tools.rotation) --jobs $(WORKERS)
	$(EQUIVALENCE) run --whole --backend fast-triton-interpreted --profile quick \
		--ops $$($(VPY) -m tools.rotation) --jobs $(WORKERS)
	$(EQUIVALENCE) exact --backend fast-aten --ops $$($(VPY) -m tools.rotation --turns 4) --jobs $(WORKERS)
	$(EQUIVALENCE) exact --ops $$($(VPY) -m tools.rotation) --jobs $(WORKERS)

# A change compiles the kernels of the pages that changed, and of a turn of the others.
kernels: PAGES =
kernels-turn: PAGES = --ops $$($(VPY) -m tools.rotation)
kernels:  ## compile every kernel for two GPUs that need not be here
kernels kernels-turn: $(READY)
	$(VPY) -m fast kernels $(PAGES) --json build/$@.json --against docs/kernels.json
	$(VPY) -m tools.record_tiles --check
	$(VPY) -m equivalence.runs.specializations $(PAGES)

# Another triton lies beside the pinned one and is found first. The GPU's host may have the oldest.
.PRECIOUS: build/triton-%/.ready
build/triton-%/.ready: $(READY)
	@$(VPY) tools/set_up.py build/triton-$* triton==$*

# The same with another triton.
kernels-$(OLDEST) kernels-$(NEWEST): kernels-%: build/triton-%/.ready
	PYTHONPATH=build/triton-$* $(VPY) -m fast kernels --json build/kernels-$*.json

# docs/tritons.md says what was run.
triton-%: build/triton-%/.ready
	PYTHONPATH=build/triton-$* $(EQUIVALENCE) run --backend fast-triton-interpreted --profile quick \
		--ops $$($(VPY) -m tools.families) --jobs $(WORKERS)
	PYTHONPATH=build/triton-$* $(EQUIVALENCE) exact --jobs $(WORKERS)

# What pip would install today: the pins say what was tested, and this says what users get.
build/newest/.ready: $(READY)
	@$(VPY) tools/set_up.py build/newest --newest

newest: build/newest/.ready  ## run the documents' Python with the newest allowed versions of everything but torch
	build/newest/bin/python -m pip list --disable-pip-version-check
	$(SINGLE) build/newest/bin/python -m pytest -q tests/test_readme.py tests/fast/loops

# ttsem is young, so it stays out of the install. It names a newer Python and a newer triton than it
# needs; that it still finds what is wrong is tried by planted faults, each time.
$(RACES)/.ready: $(READY)
	@$(VPY) tools/set_up.py $(RACES) ttsem --ignore-requires-python

races: SHARE =
races-turn: SHARE = --ops $$($(VPY) -m tools.rotation)
races:  ## watch every kernel for races and wrong addresses, without a GPU
races races-turn: $(RACES)/.ready
	PYTHONPATH=$(RACES) $(EQUIVALENCE) races $(SHARE) --jobs $(WORKERS)

# What takes longer than a change may wait for. A step that has passed stays shown, also in other
# checkouts, until a file that it read changes (tools/shown.py); logs lie in build/full. A step that
# fails stops no other one.
full: $(READY)  ## everything at its usual strength, but for what is shown already: run it before a release
	@$(VPY) -m tools.shown $(FULL); status=$$?; $(VPY) -m tools.seconds $(REPORTS); exit $$status
	@$(VPY) -m tools.rotation --record

thorough: $(READY)  ## hunt with more and longer random cases, on two cores for a night
	@$(VPY) -m tools.shown $(THOROUGH)

# JAX compiles every operation for every shape that it meets, so it has the small profile. It lies in a
# folder of its own, so that an environment without it is what other steps run in.
$(JAX)/.ready: $(READY)
	@$(VPY) tools/set_up.py $(JAX) jax jaxlib ml_dtypes opt_einsum

conformance-jax: $(JAX)/.ready  ## judge JAX, which stays out of the install
	PYTHONPATH=$(JAX) $(VPY) -m pytest -q -k jax tests/equivalence/backends/jax/test_backend.py \
		tests/equivalence/budgets/test_findings.py
	PYTHONPATH=$(JAX) $(EQUIVALENCE) run --backend jax --profile quick --jobs $(WORKERS) --json build/jax.json

# Each program is compiled, which takes much longer than to judge it. A row of some thirty takes seconds
# of a core at `quick`, and four times as long at `ci`; where numbers are drawn, many minutes. So each change
# has its turn of the pages that draw nothing at `quick`, and `make full` all of them, in two steps, and in
# a third one a larger turn at `ci`; a night has all at `ci`.
INDUCTOR := $(EQUIVALENCE) run --whole --backend fast-inductor --call-limit 360 --jobs $(WORKERS)

conformance-fast-inductor-turn: $(READY)
	$(INDUCTOR) --profile quick --ops $$($(VPY) -m tools.rotation --compiled)

conformance-fast-inductor-ci-turn: $(READY)
	$(INDUCTOR) --profile ci --ops $$($(VPY) -m tools.rotation --compiled --turns 12)

conformance-fast-inductor: $(READY)
	$(INDUCTOR) --profile quick --json build/fast-inductor.json --ops $$($(VPY) -m tools.rotation --all --compiled)

conformance-fast-inductor-random: $(READY)
	$(INDUCTOR) --profile quick --json build/fast-inductor-random.json --ops $$($(VPY) -m tools.rotation --all --drawing)

conformance-fast-inductor-thorough: $(READY)
	$(INDUCTOR) --profile ci --json build/fast-inductor-ci.json

$(LIGER)/.ready: $(READY)
	@$(VPY) tools/set_up.py $(LIGER) liger-kernel

$(FLAGGEMS)/.ready: $(READY)
	@$(VPY) tools/set_up.py $(FLAGGEMS) flag_gems==5.0.2 PyYAML==6.0.3 SQLAlchemy==2.0.48

tiles: $(LIGER)/.ready $(FLAGGEMS)/.ready  ## write down what the tiles of products are, beside those of Liger and FlagGems
	PYTHONPATH=$(LIGER):$(FLAGGEMS) $(VPY) -m tools.record_tiles
	$(VPY) -m tools.generate_tiles

strangers: $(LIGER)/.ready $(FLAGGEMS)/.ready  ## find again what is known of Liger and FlagGems (docs/findings.md)
	PYTHONPATH=$(LIGER):$(FLAGGEMS) $(VPY) -m pytest -q tests/equivalence/backends/strangers

conformance-%: $(READY)
	$(EQUIVALENCE) run $(if $(filter fast-%,$*),--whole) --backend $* --profile ci --jobs $(WORKERS) --json build/$*.json

# Of machine-aten-fp32-ci, the last word is the profile and those between choose the runs.
machine-%: $(READY)
	$(EQUIVALENCE) machine --profile $(lastword $(subst -, ,$*)) \
		--only '*$(wordlist 1,2,$(subst -, ,$*))*' --jobs $(WORKERS)

programs-% trainers-% curvature-%: $(READY)
	$(EQUIVALENCE) $(firstword $(subst -, ,$@)) --profile $* --jobs $(WORKERS)

# docs/bounds.md has a case of each row.
bounds: $(READY)  ## look again for a case of every row whose bound says something
	$(SINGLE) $(VPY) -m tools.record_bounds --check --jobs $(WORKERS)

# Programs of any extents, many and large; those that are compiled take half a minute each.
dags: $(READY)  ## judge many random programs, eager and compiled
	$(EQUIVALENCE) programs --provider aten --only 'dags-*' --cases 2000 --nodes 40 --jobs $(WORKERS)
	$(EQUIVALENCE) programs --provider triton --only 'dags-*' --cases 300 --nodes 12 --jobs $(WORKERS)
	$(EQUIVALENCE) programs --engine inductor --only '*-dags-*' --cases 30 --jobs $(WORKERS)

matrix: $(READY)  ## judge the population, the wrong ones and the right ones
	$(SINGLE) $(VPY) -m population --profile ci --no-rivals --jobs $(WORKERS) --json build/matrix.json

matrix-thorough: $(READY)
	$(SINGLE) $(VPY) -m population --profile thorough --no-rivals --jobs $(WORKERS) --json build/matrix-thorough.json

sizes: $(READY)  ## judge the aten provider and torch at real sizes
	$(EQUIVALENCE) run --whole --backend fast-aten --profile sizes --jobs $(WORKERS) --json build/sizes-fast-aten.json
	$(EQUIVALENCE) run --backend torch --profile sizes --jobs $(WORKERS) --json build/sizes-torch.json

# A kernel of one program for each row takes minutes for 65,601 of them in the interpreter.
sizes-interpreted: $(READY)
	$(EQUIVALENCE) run --whole --backend fast-triton-interpreted --profile sizes --call-limit 1800 --jobs $(WORKERS)

# Runs of calls share their few programs, so that many of them take a minute.
engine: $(READY)  ## judge programs, trainings and runs of calls that torch's Inductor compiles
	$(EQUIVALENCE) programs --engine inductor --profile quick --jobs $(WORKERS)
	$(EQUIVALENCE) trainers --engine inductor --profile quick --jobs $(WORKERS)
	$(EQUIVALENCE) machine --engine inductor --profile ci --jobs $(WORKERS)

engine-thorough: $(READY)
	$(EQUIVALENCE) programs --engine inductor --profile ci --jobs $(WORKERS)
	$(EQUIVALENCE) trainers --engine inductor --profile ci --jobs $(WORKERS)
	$(EQUIVALENCE) machine --engine inductor --profile thorough --jobs $(WORKERS)

exact: $(READY)  ## run every kernel and twin on exact numbers, and compare it with its page by ==
	$(EQUIVALENCE) exact --backend fast-aten --jobs $(WORKERS) --json build/exact-fast-aten.json
	$(EQUIVALENCE) exact --jobs $(WORKERS) --json build/exact-kernels.json

laws: $(READY)
	$(SINGLE) $(VPY) -m pytest tests/spec -n $(WORKERS) -q --hypothesis-profile thorough

flat: $(READY)
	$(SINGLE) $(VPY) -m benchmarks flat --json build/flat.json

bench: $(READY)  ## side by side with torch and with an older commit, on this CPU
	$(SINGLE) $(VPY) -m benchmarks cpu --json build/cpu.json
	$(SINGLE) $(VPY) -m benchmarks against $(OLDER) --json build/against.json

gpu-cases: $(READY)  ## record the cases that a machine with a GPU replays
	$(EQUIVALENCE) run --backend fast-triton --ring device --profile $(PROFILE) --record $(CASES)

gpu:  ## replay the cases and measure, on a machine with a GPU; installs nothing
	$(PYTHON) -m benchmarks gpu --cases $(CASES)

clean:  ## remove everything that a command has made
	rm -rf $(VENV) build dist runs $(CASES) .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
