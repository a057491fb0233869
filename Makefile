# make install | demo | docs | test | test-slow | test-browser | test-gpu-kernels | sanitize | soak | clean
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
SANITIZED := build/sanitized
NATIVE := $(wildcard src/halowire/kernels/native/*)

# Programs that tests start, hundreds of them, compile no file twice, also where the environment asks Python to.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: install demo docs test test-slow test-browser test-gpu-kernels sanitize soak lint clean

install: $(STAMP)

# torch first and pinned: this version has a small CPU build; an unpinned one pulls gigabytes of CUDA packages.
$(STAMP): pyproject.toml CMakeLists.txt $(NATIVE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "torch==2.13.0" numpy
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev,partition,pyg,report]"
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

# Two processes at a time, each with whole files of tests, so that fixtures and resident workers are shared.
test: lint
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

test-slow: install
	HYPOTHESIS_PROFILE=search $(BIN)/python -m pytest -m slow
	$(BIN)/python -m pytest $$($(BIN)/python -m tests.support.pyg_list tests)
	HYPOTHESIS_PROFILE=search $(BIN)/python -m pytest tests/property/test_fuzz_*.py

test-browser: install
	$(BIN)/python -m pytest -m browser

# Needs no GPU: interprets the Triton kernels, compiles them for GPUs that are not here, and executes their PTX on the CPU.
test-gpu-kernels: export TRITON_CACHE_DIR = build/triton
test-gpu-kernels: $(VENV)/.gpu-dev
	TRITON_INTERPRET=1 $(BIN)/python -m pytest -k "triton and not float64" tests/unit/kernels tests/property/test_kernels_attend.py
	TRITON_INTERPRET=1 $(BIN)/python -m pytest -m gpu_kernels tests/gpu
	$(BIN)/python -m pytest -m gpu_kernels tests/gpu
	$(BIN)/python tools/gpu_table.py

$(VENV)/.gpu-dev: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[gpu-dev]"
	touch $@

# First the proof that faults are found, then everything that reads bytes or indices with the kernels: no report may come.
sanitize: $(SANITIZED)/.built
	$(BIN)/python -m pytest -m slow tests/faults/test_sanitizers.py
	HYPOTHESIS_PROFILE=search $(BIN)/python -m tests.support.sanitized tests/unit/kernels tests/unit/partitioning \
	  tests/unit/wire tests/property

# Without --upgrade pip would keep an older build; a folder of its own leaves the installed kernels alone.
$(SANITIZED)/.built: $(STAMP) CMakeLists.txt $(NATIVE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(SANITIZED) \
	  --config-settings=build-dir=build/sanitized-objects --config-settings=cmake.define.HALOWIRE_CHECKED=ON \
	  --config-settings=cmake.define.HALOWIRE_SANITIZE=address,undefined .
	touch $@

# Faults injected into real runs, at most 25 minutes; needs root (network namespaces, small disks).
soak: install
	$(BIN)/python -m bench.soak

clean:
	rm -rf build dist runs docs/_build .pytest_cache .mypy_cache .ruff_cache
