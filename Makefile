# Every target makes the virtual environment that it needs: make PYTHON=python3.12 VENV=/tmp/v test
PYTHON ?= python3
VENV ?= .venv
RUN := $(VENV)/bin/python
DEMO_ARGS ?=
BENCH_ARGS ?=
TEST_ARGS ?=
# A worker for each processor; one that has nothing left takes tests from another.
PYTEST := $(RUN) -m pytest -n auto --dist worksteal

export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PIP_ROOT_USER_ACTION = ignore

.PHONY: help demo test check bench docs format lint types slow doctest smoke clean
.NOTPARALLEL:

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /: /'

demo: $(VENV)/with-demo  ## load airports and flights, kill a writer, show what came back
	$(RUN) -m benchmark.demo $(DEMO_ARGS)

test: $(VENV)/with-test  ## the tests, in a few minutes
	$(PYTEST) $(TEST_ARGS)

check: format lint types slow doctest docs smoke  ## all that CI does besides demo and test

bench: $(VENV)/with-bench  ## the benchmarks beside sqlite3 and lmdb
	$(RUN) -m benchmark $(BENCH_ARGS)

docs: $(VENV)/with-test  ## the links and examples of README.md and docs/ (nothing is rendered)
	$(RUN) -m pytest tests/test_readme.py tests/test_docs.py

format: $(VENV)/with-check
	$(RUN) -m ruff format --check .

lint: $(VENV)/with-check
	$(RUN) -m ruff check .

types: $(VENV)/with-check $(VENV)/with-test $(VENV)/with-bench $(VENV)/with-demo
	$(RUN) -m mypy

slow: $(VENV)/with-test  ## the tests that "make test" leaves out
	$(PYTEST) -m slow

doctest: $(VENV)/with-test
	$(RUN) -m pytest --doctest-modules memdb

smoke: $(VENV)/with-bench
	$(RUN) -m benchmark --smoke

clean:  ## remove what the other targets made
	rm -rf $(VENV) build dist *.egg-info .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache

$(RUN):
	$(PYTHON) -m venv $(VENV)

# A stamp for each extra of setup.cfg.
$(VENV)/with-%: setup.cfg pyproject.toml | $(RUN)
	$(RUN) -m pip install --quiet --editable '.[$*]'
	@touch $@
