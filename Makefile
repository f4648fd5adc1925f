# Every verb sets up what it needs in .venv and reuses it the next time.
#
#   make demo    trains on our own GBA game for two minutes; one worker is killed on the way
#   make test    every test, two halves at a time; long ones in their short form     (within 8 minutes on 2 cores)
#   make test-full  the same with the long forms: whole products instead of pairs, more kills, more seeds
#   make soak    a million steps of eight emulated games; memory must stay flat       (about half an hour)
#   make soak-faults  a fault a second in a pool that heals; rows, memory and logs are compared   (20 minutes)
#   make check   ruff, mypy, import direction, house rules, codespell
#   make bench   peers and Ninelives side by side; writes benchmarks/RESULTS.md
#   make docs    the documentation as a site in ./site; make docs-serve shows it at http://127.0.0.1:8000
#   make dist    source distribution and wheel in ./dist
#   make setup   only the full install
#   make clean   back to a fresh clone
#
# PYTHON is the interpreter that makes .venv (3.11 to 3.13); ARGS is passed to the tool that runs.

PYTHON ?= python3
ARGS ?=

# The slowest tests are listed at the end of each half, in CI's output too.
SLOWEST := --durations=15

BIN := .venv/bin
SOURCES := src tests benchmarks examples roms setup.py
PROSE := $(SOURCES) docs README.md CHANGELOG.md CONTRIBUTING.md Makefile pyproject.toml
INPUTS := pyproject.toml setup.py constraints.txt $(shell find src -name "*.[ch]")
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
PACKAGE := $(INSTALL) --no-build-isolation --editable

.DELETE_ON_ERROR:
.PHONY: help setup check test test-full test-workers test-games soak soak-faults demo bench docs clean

help:
	@sed -n 's/^#   //p' Makefile

setup: .venv/full

check: .venv/full
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check --quiet $(SOURCES)
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/unit/test_import_direction.py tests/unit/test_house_rules.py
	$(BIN)/codespell $(PROSE)

# Two halves of about the same length at the same time; with ARGS, pytest as it is. Both have the usual priority: on a busy
# machine a lower one would get next to nothing.
test: .venv/full
ifeq ($(strip $(ARGS)),)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target test-workers test-games
else
	$(BIN)/python -m pytest $(ARGS)
endif

# Target-specific variables reach the prerequisites too.
test-full: export NINELIVES_FULL := 1
test-full: test

test-workers:
	$(BIN)/python -m pytest $(SLOWEST) tests/api tests/cli tests/faults tests/heal tests/process

test-games:
	$(BIN)/python -m pytest $(SLOWEST) tests/dist tests/docs tests/sims tests/train tests/unit

soak: .venv/full
	$(BIN)/python benchmarks/soak.py $(ARGS)

soak-faults: .venv/full
	$(BIN)/python benchmarks/soak_faults.py $(ARGS)

demo: .venv/light
	$(BIN)/ninelives demo $(ARGS)

bench: .venv/python
	$(BIN)/python benchmarks/run.py $(ARGS)

.PHONY: docs-serve dist

docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

docs-serve: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve $(ARGS)

# Without build isolation, as every install here: setuptools and numpy are those of the constraints.
dist: .venv/light
	$(INSTALL) build twine
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*

clean:
	rm -rf .venv .venv-bench .cores build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis src/ninelives.egg-info
	find src -name '_*.so' -delete
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is made when its install is complete, and again when anything that goes into the install has changed.
# The native modules are built here; setuptools comes from the constraints too, hence no build isolation.

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	  || { echo "Ninelives needs Python 3.11 to 3.13: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

# torch first and by its exact version: any looser request may choose a build with gigabytes of GPU libraries.
.venv/light: .venv/python $(INPUTS)
	$(INSTALL) setuptools numpy
	$(INSTALL) "$$(grep '^torch==' constraints.txt)"
	$(PACKAGE) ".[train,cores]"
	@touch $@

# nes_py comes as source: if it cannot be built, its tests are skipped and say so; the same holds for Debian's cores. It is
# installed without its dependencies, because it requires an older pyglet than stable-retro does and does not use it here.
.venv/full: .venv/light
	$(PACKAGE) ".[test,check]"
	$(INSTALL) --no-deps nes_py gym gym-notices || echo "nes_py cannot be built here (it needs g++): no tests of it"
	.ci/cores
	@touch $@

.venv/docs: .venv/light
	$(PACKAGE) ".[docs]"
	@touch $@
