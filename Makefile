# `make build` and `make test` set up what they need, on a machine with nothing but Python 3.11+ and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .stamps
SETUP := pyproject.toml constraints.txt

.PHONY: build test test-cluster fuzz mutants test-browser pictures docs check lint bench gpu-check gpu-fuzz fits versions clean

build: $(STAMPS)/run
	$(BIN)/heurgen build heurgen.toml

test: $(STAMPS)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not cluster and not browser"
	@echo "not run: tests that start a Ray cluster (make test-cluster), a browser (make test-browser), and what was skipped above"

# Sweeps on a Ray cluster whose nodes come and go: a minute and more.
test-cluster: $(STAMPS)/cluster
	HEURGEN_REQUIRE_RAY=1 $(BIN)/python -m pytest -q -m cluster tests/tune

$(STAMPS)/cluster: $(STAMPS)/test
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ray]'
	touch $@

# The HTML report in a real Chromium: Debian's package, Playwright's client, axe-core from the npm registry.
test-browser: $(STAMPS)/browser
	HEURGEN_REQUIRE_BROWSER=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal tests/browser

$(STAMPS)/browser: $(STAMPS)/test
	command -v chromium >/dev/null || { apt-get -q update && apt-get -qy install chromium; }
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt playwright==1.65.2 matplotlib==3.11.2
	npm install --silent --no-save --prefix $(STAMPS) axe-core@4.14.1
	touch $@

# The pictures of README and docs again; `make test-browser` compares them.
pictures: $(STAMPS)/browser
	$(BIN)/python -m tests.browser.pictures
	PYTHONPATH=.:kernels $(BIN)/python -m benchmarks.pictures
	PYTHONPATH=.:kernels $(BIN)/python -m benchmarks.text_pictures

# The documentation as a site that opens from its folder; a warning is an error.
docs: $(STAMPS)/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

$(STAMPS)/docs: $(STAMPS)/run
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

# Damaged files for every reader, for an hour: SECONDS=60 for a minute.
fuzz: $(STAMPS)/test
	$(BIN)/python -m tests.fuzz $(or $(SECONDS),3600)

# Mutants of the compiler and of the launch path: hours, less with SAMPLE=100 (of each room) or FILES='heurgen/ir/*'.
# The survivors, and why: docs/mutants.md.
mutants: $(STAMPS)/test
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt mutmut==3.8.1
	$(BIN)/python -m tests.mutation --jobs $(or $(JOBS),2) $(if $(SAMPLE),--sample $(SAMPLE)) $(FILES)

check: $(STAMPS)/run
	$(BIN)/heurgen check heurgen.toml

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(STAMPS)/run: $(VENV)/bin/pip $(SETUP)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	mkdir -p $(STAMPS) && touch $@

# The CPU build of torch, by its exact version: a plain `torch` would pull gigabytes of CUDA packages.
$(STAMPS)/test: $(VENV)/bin/pip $(SETUP)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs,optimal]' torch triton
	mkdir -p $(STAMPS) && touch $(STAMPS)/run $@

# On a GPU machine, with torch, triton and pytest but no network: writes benchmarks/gpu_check.json.
gpu-check:
	$(PYTHON) benchmarks/gpu_check.py

# There, too: random calls beside their references for three minutes.
gpu-fuzz:
	PYTHONPATH=.:kernels $(PYTHON) -m tests.kernels.fuzz $(or $(SECONDS),180)

# Every config that the selectors can return, compiled for four targets, some for four more: 25 minutes; writes benchmarks/fits.json.
fits: $(STAMPS)/test
	$(BIN)/python benchmarks/fits.py

# The Tritons of torch 2.12 to 2.15, former Transformers, the vLLMs between the tested ones and the least that pyproject.toml asks
# for, each in a place of its own: all compiles and is launched as they expect, tokens are right, and models. Half an hour.
TRITONS := 3.7.1 3.8.0 3.9.0
TRANSFORMERS := 5.5.0 5.17.0 5.18.0 5.23.0
VLLMS := 0.27.1 0.28.0 0.29.0 0.30.0 0.31.0 0.32.0
versions: $(STAMPS)/test
	fetch() { test -d $(STAMPS)/$$1-$$2 || $(BIN)/pip install --quiet --disable-pip-version-check --target $(STAMPS)/$$1-$$2 $$1==$$2 $$3; }; \
	check() { PYTHONPATH=$(CURDIR)/$(STAMPS)/$$1 $(BIN)/python -m pytest -q -n 2 $$2; }; \
	for v in $(TRITONS); do \
	  fetch triton $$v --no-deps && check triton-$$v "tests/kernels/tools/test_versions.py tests/kernels/ahead tests/kernels/host" || exit 1; \
	done; \
	for v in $(TRANSFORMERS); do \
	  fetch transformers $$v psutil && check transformers-$$v "tests/kernels/servers/test_transformers*.py" || exit 1; \
	done; \
	HEURGEN_VLLM_VERSIONS="$(VLLMS)" $(BIN)/python -m pytest -q -n 2 tests/kernels/servers/test_vllm.py || exit 1; \
	least=$$($(BIN)/python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; print(*(n.replace('>=', '==') for n in p['dependencies'] + p['optional-dependencies']['parquet']))"); \
	test -d $(STAMPS)/least || $(BIN)/pip install --quiet --disable-pip-version-check --target $(STAMPS)/least $$least; \
	check least "tests/base tests/ir tests/logs tests/render tests/spec tests/trees tests/ship tests/cli tests/audit"

clean:
	rm -rf $(VENV) $(STAMPS)
