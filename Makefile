# Everything sets itself up in .venv on a fresh machine; versions are pinned in constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# one BLAS thread per process: agents run side by side, and timings stay comparable
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: help demo test test-slow browser lint docs bench clean

help:
	@echo "make demo       train on embedded data at five agents and compare (about 20 seconds)"
	@echo "make test       the test suite (under 8 minutes)"
	@echo "make test-slow  reports in a browser, examples and other slow tests"
	@echo "make browser    install Debian's Chromium for them if it is missing"
	@echo "make lint       ruff, mypy, import contracts"
	@echo "make docs       build the documentation, warnings are errors"
	@echo "make bench      speed against scikit-learn, as ratios"

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT= $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt setuptools wheel
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e ".[dev]"
	@touch $(STAMP)

demo: $(STAMP)
	$(BIN)/comt demo

test: $(STAMP)
	$(BIN)/python -m pytest -m "not slow" -n 2

# Chromium for the tests of the reports
browser:
	.ci/browser

test-slow: $(STAMP) browser
	$(BIN)/python -m pytest -m slow

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(STAMP)
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

bench: $(STAMP)
	$(BIN)/comt bench speed

clean:
	rm -rf $(VENV) docs/_build build
