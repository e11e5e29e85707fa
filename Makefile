PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

help: ## what there is to run
	@grep -hE '^[a-z-]+:.*?## ' $(MAKEFILE_LIST) | awk -F':.*?## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch numpy
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[zh,elmo,distributed,test]'
	touch $@

install: $(STAMP) ## create .venv from constraints.txt

test: $(STAMP) ## the fast tier: style, floors, unit, contract, golden, invariants, cases (under 20 minutes)
	$(BIN)/python tools/check_floors.py
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q --durations=15

test-slow: $(STAMP) ## kills at random moments, large files
	$(BIN)/python -m pytest -q -m slow

fuzz: $(STAMP) ## property tests with many more examples
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest -q -m 'not slow' tests/unit/text tests/unit/interop

check: $(STAMP) ## format, lint, types, floors
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .
	$(BIN)/mypy
	$(BIN)/python tools/check_floors.py

demo: $(STAMP) ## the main job on real data (WHEELS=DIR without network)
	$(BIN)/polysemy demo --out runs/demo $(if $(WHEELS),--wheels $(WHEELS))

bench: $(STAMP) ## every benchmark, one after another, on an idle machine
	for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

docs: $(STAMP) ## the pages made from the table of systems, and the tested blocks
	$(BIN)/python tools/make_docs.py
	$(BIN)/python -m pytest -q tests/docs

.PHONY: help install test test-slow fuzz check bench docs demo
.DEFAULT_GOAL := help
