# `make demo` and `make test` make their own environment and install what they need from pinned constraints.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
NEWEST := .venv-newest
PEERS ?= $(wildcard ../shared/peers)

.PHONY: demo test test-newest test-faults test-long test-flower test-foreign test-cuda test-kernels lint docs verdicts bench bench-growth bench-gpu clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,flower,privacy]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/counterpoise demo

test: lint
	$(BIN)/python -m pytest -n 2

# What a plain `pip install` takes today: the newest version of everything but torch.
test-newest:
	$(PYTHON) -m venv --clear $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet $(shell grep '^torch==' constraints.txt)
	$(NEWEST)/bin/python -m pip install --quiet --upgrade --editable '.[dev]' $(shell grep '^torch==' constraints.txt)
	$(NEWEST)/bin/python -m pytest tests/cli

test-faults: $(STAMP)
	$(BIN)/python -m pytest -m faults -n 2

test-long: $(STAMP)
	$(BIN)/python -m pytest -m slow -n 2

test-flower: $(STAMP)
	$(BIN)/python -m pytest tests/flower -m 'deploy or not deploy'

# Networks of timm, torchvision and transformers and data sets of Hugging Face, with the torch that is there; no downloads.
test-foreign: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[foreign]'
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -m foreign -n 2

test-cuda: $(STAMP)
	$(BIN)/python -m pytest tests/test_cuda.py tests/models/test_foreign_networks.py tests/kernels

# The kernels, without a GPU in Triton's interpreter; torch for CUDA brings Triton along, torch for the CPU does not.
test-kernels: $(STAMP)
	$(BIN)/python -c 'import triton' || $(BIN)/python -m pip install --quiet triton
	$(BIN)/python -m pytest tests/kernels

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(STAMP)
	$(BIN)/python -m counterpoise.cli.reference docs/reference.md

verdicts: $(STAMP)
	$(BIN)/python experiments/verdicts.py

# Other frameworks join where PEERS is a folder with scripts that run them: see benchmarks/cpu.py.
bench: $(STAMP)
	$(BIN)/python benchmarks/cpu.py $(if $(PEERS),--peers $(PEERS))

bench-growth: $(STAMP)
	$(BIN)/python benchmarks/growth.py

bench-gpu: $(STAMP)
	$(BIN)/python benchmarks/gpu.py

clean:
	rm -rf $(VENV) $(NEWEST) build *.egg-info
