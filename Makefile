# `make build` and `make test` set up what they need, on a machine with nothing but Python 3.11+ and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .stamps
SETUP := pyproject.toml constraints.txt

.PHONY: build test test-browser check lint bench clean

build: $(STAMPS)/run
	$(BIN)/heurgen build heurgen.toml

test: $(STAMPS)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

# The HTML report in a real Chromium: Debian's package, Playwright's client, axe-core from the npm registry.
test-browser: $(STAMPS)/browser
	HEURGEN_REQUIRE_BROWSER=1 $(BIN)/python -m pytest -q tests/browser

$(STAMPS)/browser: $(STAMPS)/test
	command -v chromium >/dev/null || { apt-get -q update && apt-get -qy install chromium; }
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt playwright==1.65.2
	npm install --silent --no-save --prefix $(STAMPS) axe-core@4.14.1
	touch $@

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
