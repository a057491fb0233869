# make install | demo | docs | test | test-slow | test-browser | test-gpu-kernels | clean
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
NATIVE := $(wildcard src/halowire/kernels/native/*)

.PHONY: install demo docs test test-slow test-browser test-gpu-kernels lint clean

install: $(STAMP)

# torch first and pinned: this version has a small CPU build; an unpinned one pulls gigabytes of CUDA packages.
$(STAMP): pyproject.toml CMakeLists.txt $(NATIVE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "torch==2.13.0" numpy
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev,pyg,report]"
	touch $(STAMP)

demo: install
	$(BIN)/halowire train debian --workers 2 --epochs 60 --model.hidden 128 --out runs/demo --overwrite

docs: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build
	@echo "pages in docs/_build/index.html"

lint: install
	$(BIN)/ruff check src tests bench tools examples
	$(BIN)/ruff format --check src tests bench tools examples
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest

test-slow: install
	HYPOTHESIS_PROFILE=search $(BIN)/python -m pytest -m slow

test-browser: install
	$(BIN)/python -m pytest -m browser

# Needs no GPU: interprets the Triton kernels, compiles them for GPUs that are not here, and executes their PTX on the CPU.
test-gpu-kernels: export TRITON_CACHE_DIR = build/triton
test-gpu-kernels: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[gpu-dev]"
	TRITON_INTERPRET=1 $(BIN)/python -m pytest -k "triton and not float64" tests/unit/kernels tests/property/test_kernels_attend.py
	TRITON_INTERPRET=1 $(BIN)/python -m pytest -m gpu_kernels tests/gpu
	$(BIN)/python -m pytest -m gpu_kernels tests/gpu
	$(BIN)/python tools/gpu_table.py

clean:
	rm -rf build dist runs docs/_build .pytest_cache .mypy_cache .ruff_cache
