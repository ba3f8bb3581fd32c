# Python 3.11 and 3.12 come first: Spark 3.5 knows them best. The first that runs is taken.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)
BIN := .venv/bin
# What needs neither a JVM nor a broker, and takes less than ten seconds a test.
UNIT := not kafka and not spark and not judge and not registry and not slow and not full and not soak and not containers
INSTALLED := .venv/.installed
# One worker of pytest-xdist has Spark. Two have the rest, because much of their time is waiting.
# "-n 0" in ARGS runs without workers.
PYTEST := $(BIN)/python -m pytest -n 3
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup lock test test-unit test-all test-full test-soak test-containers records coverage matrix mutation demo recording pictures docs site lint format sbom audit clean

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## Make the virtual environment in .venv with everything in it

$(INSTALLED): pyproject.toml .ci/constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --use-pep517 --no-deps --require-hashes \
		--requirement .ci/constraints.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

lock: $(INSTALLED) ## Lock what development needs, with hashes; ARGS="--upgrade" takes the newest
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra dev \
		--generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make lock" \
		--output-file .ci/constraints.txt pyproject.toml $(ARGS)

test: $(INSTALLED) ## Run the tests on real parts; ARGS="-k gate" runs some
	$(PYTEST) -m "not full and not soak and not containers" $(ARGS)

test-all: test test-full ## Both: everything that `make test` leaves out, too

test-full: $(INSTALLED) ## Ask real Hudi and Hive everywhere, and draw more random cases
	TEST_BUDGET=10 $(PYTEST) --hudi live -m "(full or fuzz or hypothesis) and not soak and not containers" $(ARGS)

test-unit: $(INSTALLED) ## Run what needs neither a JVM nor a broker
	$(PYTEST) -m "$(UNIT)" $(ARGS)

test-soak: $(INSTALLED) ## Run the tests that take ten minutes or more each
	$(BIN)/python -m pytest -m soak $(ARGS)

test-containers: $(INSTALLED) ## Build the image, run compose/ and the story from outside; needs a Docker engine
	$(BIN)/python -m pytest -m containers $(ARGS)

records: $(INSTALLED) ## Ask real Hudi everywhere and record what it does; ARGS="-k removal" for some
	TZ=UTC $(BIN)/python -m pytest --hudi record $(ARGS)

coverage: $(INSTALLED) ## Measure what the unit tests cover, with branches
	$(BIN)/python -m pytest -q -m "$(UNIT)" --cov --cov-report=term $(ARGS)

matrix: $(INSTALLED) ## Run the unit tests on every other Python of this machine (3.12, 3.13)
	.ci/matrix -m "$(UNIT)" $(ARGS)

mutation: $(INSTALLED) ## Break the rules that guard data, then the pure modules at random; list survivors
	.ci/mutation $(ARGS)

demo: $(INSTALLED) ## Play the whole story on a real Kafka, Hudi and Hive ACID table
	PYTHONPATH=tests $(BIN)/python -m demo $(ARGS)

recording: $(INSTALLED) ## Record a run of the demo as docs/images/demo.svg
	$(BIN)/python .ci/recording.py

pictures: $(INSTALLED) ## Draw docs/images/pictures.toml as SVG
	$(BIN)/python .ci/pictures.py

docs: $(INSTALLED) ## Write what is generated: pages of docs/, alerts, files of new events
	PYTHONPATH=tests $(BIN)/python -m support.event_files
	PYTHONPATH=tests $(BIN)/python tests/support/architecture.py

site: $(INSTALLED) ## Build the documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: $(INSTALLED) ## Check format, style, types and the import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports --no-cache

format: $(INSTALLED) ## Put the code into its format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

sbom: $(INSTALLED) ## Write the bill of materials of an installation (CycloneDX) into dist
	.ci/sbom $(ARGS)

audit: $(INSTALLED) ## Look up known vulnerabilities of the lock; "Error 3": no data could be had
	$(BIN)/python .ci/audit.py

clean: ## Remove what was made here; the jar cache of the user stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
