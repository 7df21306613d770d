# Everything runs in .venv, which the first target that needs it makes.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
PY := conf/python
STAMP := $(VENV)/.installed
EXTRAS := test,bench,examples,dev,docs
MKDOCS := NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --config-file conf/mkdocs.yml
FAULTS := tests
PROCESSES := 2

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/:/' | awk -F': ' '{printf "  make %-13s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml
	@conf/ensure-venv $(PYTHON)
	$(PY) -m pip install -q --disable-pip-version-check -e '.[$(EXTRAS)]'
	@touch $@

.PHONY: java
java: # Java 17 or newer, installed where that is possible
	@conf/ensure-java

.PHONY: install
install: $(STAMP) java ## make .venv with everything a developer needs

.PHONY: demo
demo: install ## read a small real Kafka log through Spark and print rows, plan and what was pruned
	$(PY) examples/demo.py

.PHONY: test
test: install ## run the tests in two processes and random order (under ten minutes on two cores)
	$(PY) -m pytest -q -n $(PROCESSES)

.PHONY: lint
lint: $(STAMP) ## ruff, mypy --strict, import layers, dead code, documentation
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports conf/importlinter.ini
	$(PY) -m vulture
	$(MKDOCS)

.PHONY: format
format: $(STAMP) ## let ruff rewrite what it can
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

.PHONY: docs
docs: $(STAMP) ## write the generated tables of docs/ and build the site into .build/site
	$(PY) -m tests.support.doc_tables
	$(MKDOCS)

.PHONY: examples
examples: install ## run every example
	@set -e; for example in examples/*.py; do echo "== $$example"; $(PY) $$example; done

.PHONY: interop
interop: install ## tests against a real Kafka broker (fetches its jars once)
	$(PY) -m pip install -q --disable-pip-version-check -e '.[interop]'
	$(PY) -m pytest -q -m interop --timeout 900 tests/system/interop

.PHONY: faults
faults: install ## crash, fault and fuzz suites, and every property test with thousands of examples
	-$(PY) -m pip install -q --disable-pip-version-check -e '.[fuzz]'
	SEGMENTLOG_EXAMPLES_FACTOR=$${SEGMENTLOG_EXAMPLES_FACTOR:-50} \
	$(PY) -m pytest -q -m "faults or hypothesis" --timeout 7200 $(FAULTS_ARGS) $(FAULTS)

.PHONY: bench
bench: install ## measure the ratios of docs/speed.md
	$(PY) -m tests.bench $(BENCH_ARGS)

.PHONY: bench-report
bench-report: $(STAMP) ## write what --json of the benchmarks noted into docs/speed.md and README (JSON=FILES)
	$(PY) -m tests.bench.report $(JSON)

.PHONY: compatibility
compatibility: java ## reading, writing and streaming with other versions of Spark, from 4.0 on
	PYTHON=$(PYTHON) conf/compatibility $(or $(SPARK_VERSIONS),4.0.1 4.1.1 4.2.0 4.3.0)

.PHONY: same-output
same-output: install ## compare rows, views, dumps and written bytes of all logs with those of commit SINCE
	conf/same-output $(SINCE)

.PHONY: clean
clean: ## remove .venv and everything that was built
	@case "$$(readlink $(VENV))" in */segmentlog-venv.??????) rm -rf "$$(readlink $(VENV))" ;; esac
	rm -rf $(VENV) .build build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
