# The two set-up commands are `make verify` and `make test`; each builds .venv on first use and reuses it after.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
SGLANG := sglang==0.5.13.post1
SGLANG_DIR := .cache/sglang
# The work is many small tensors: more threads a process only fight over the cores.
export OMP_NUM_THREADS ?= 1
# Tests start hundreds of processes: without bytecode each would compile this tree again, a third of their time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: verify targets targets-quick mutants test lint types pytest verify-sglang test-triton clean

verify: $(VENV)/.installed
	$(BIN)/python -m harness verify --jobs $(JOBS) --out out/verify

# Every kernel for every target, without a GPU, against ci/baselines.
targets: $(VENV)/.installed
	$(BIN)/python -m harness targets --jobs $(JOBS)

# Two of the targets, which every change is compiled for; the others every night.
targets-quick: $(VENV)/.installed
	$(BIN)/python -m harness targets --target sm_90 --target sm_120 --jobs $(JOBS)

# The mutants of ci/mutants.jsonl, each by what kills it. `python -m harness mutate --renew` draws what is out of date.
mutants: $(VENV)/.installed
	$(BIN)/python -m harness mutate --sample --jobs $(JOBS)

test: lint types pytest

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

pytest: $(VENV)/.installed
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

# Upstream's kernels are read from the unpacked wheel; the package itself is never installed or imported.
verify-sglang: $(VENV)/.installed $(SGLANG_DIR)/.unpacked
	HARNESS_SGLANG=$(SGLANG_DIR) $(BIN)/python -m harness verify --impl sglang --jobs $(JOBS) --out out/sglang

test-triton: $(VENV)/.installed
	$(BIN)/python ci/triton_matrix.py

clean:
	rm -rf $(VENV) .cache out build dist *.egg-info

$(VENV)/.requirements: ci/requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "make: $(PYTHON) is older than 3.11; run make with PYTHON=python3.11 or newer" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement ci/requirements.txt
	@touch $@

$(VENV)/.installed: $(VENV)/.requirements pyproject.toml
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(SGLANG_DIR)/.unpacked: $(VENV)/.requirements
	mkdir -p $(SGLANG_DIR)
	$(BIN)/python -m pip download --quiet --no-deps --only-binary :all: --dest .cache/wheels $(SGLANG)
	$(BIN)/python -m zipfile --extract .cache/wheels/sglang-*.whl $(SGLANG_DIR)
	@touch $@
