# `make build` and `make test` set up what they need, on a machine with nothing but Python 3.11+ and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .stamps
SETUP := pyproject.toml constraints.txt

.PHONY: build test check lint bench clean

build: $(STAMPS)/run
	$(BIN)/heurgen build heurgen.toml

test: $(STAMPS)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

check: $(STAMPS)/run
	$(BIN)/heurgen check heurgen.toml

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(STAMPS)/run: $(VENV)/bin/pip $(SETUP)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	mkdir -p $(STAMPS) && touch $@

# The CPU build of torch, by its exact version: a plain `torch` would pull gigabytes of CUDA packages.
$(STAMPS)/test: $(STAMPS)/run
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,optimal]' torch triton
	touch $@

clean:
	rm -rf $(VENV) $(STAMPS)
