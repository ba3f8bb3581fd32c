# Python 3.11 and 3.12 come first: Spark 3.5 knows them best. The first that runs is taken.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)
BIN := .venv/bin
INSTALLED := .venv/.installed
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup test demo lint format clean

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## Make the virtual environment in .venv with everything in it

$(INSTALLED): pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --use-pep517 --editable '.[dev]'
	@touch $@

test: $(INSTALLED) ## Run every test on real parts; ARGS="-k gate" runs some
	$(BIN)/python -m pytest $(ARGS)

demo: $(INSTALLED) ## Play the whole story on a real Kafka, Hudi and Hive ACID table
	$(BIN)/tidegate demo $(ARGS)

lint: $(INSTALLED) ## Check format, style, types and the import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports --no-cache

format: $(INSTALLED) ## Put the code into its format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## Remove what was made here; the jar cache of the user stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
