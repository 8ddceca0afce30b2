# Sluice. `make demo` sets everything up and runs the whole platform on one log; `make help` lists the rest.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
UV := 0.13.8
INSTALLED := .venv/.installed
# The targets start many short Python processes, so keep compiled modules, even if the machine disables that.
unexport PYTHONDONTWRITEBYTECODE

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 16

# Each step of the setup runs only when its inputs changed; a second run downloads nothing.
setup: $(INSTALLED) ## all that the rest needs: Python environment, the daemons' jars, compiled code
	@$(BIN)/python -m sluice.stack jars
	@$(BIN)/python -m compileall -q dags include jobs plugins
	@$(BIN)/python -m sluice.spark.class_archive & archive=$$!; \
	$(BIN)/python -m sluice.spark.warm; wait $$archive

.PHONY: preflight
preflight: ## name what this machine lacks, with the remedy
	@$(PYTHON) include/sluice/stack/preflight.py

.venv/.created:
	@$(PYTHON) include/sluice/stack/preflight.py
	@echo "setup: a Python environment in .venv"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -q --disable-pip-version-check uv==$(UV)
	@touch $@

$(INSTALLED): requirements-dev.txt pyproject.toml | .venv/.created
	@echo "setup: $$(grep -c == requirements-dev.txt) Python packages"
	@$(BIN)/uv pip sync -q --compile-bytecode requirements-dev.txt
	@$(BIN)/uv pip install -q --no-deps -e .
	@touch $@

demo: preflight setup ## the whole platform on one log, with proof: make demo [LOGS=access.log.gz] [HOSTS=3]
	@$(BIN)/sluice demo $(if $(LOGS),--logs "$(LOGS)") $(if $(HOSTS),--hosts "$(HOSTS)")

up: setup ## start the platform (instance main) and wait until it is healthy
	@$(BIN)/sluice --instance main up

down: ## stop the platform that was brought up last; its data stays
	@$(BIN)/sluice down

fast: $(INSTALLED) ## lint, types and the quick tests, which need no daemon; under a minute
	@$(BIN)/python -m tests.fast

test: setup ## all tests but the long ones, against the real stack in an instance of its own (50 minutes on 2 cores)
	@$(BIN)/python -m tests

test-long: setup ## the tests of several hosts, of clusters, of an upgrade, of the laboratory and of each page's look (half an hour)
	@$(BIN)/python -m tests long

test-all: setup ## both, with one platform for both (70 minutes)
	@$(BIN)/python -m tests all

test-containers: $(INSTALLED) ## the platform in containers, with podman as root (half an hour; not in make test)
	@$(BIN)/python -m tests.containers.preflight
	@$(BIN)/pytest -x -v -s -m containers tests/containers

attack: setup ## every route by every caller, hostile SQL and hostile records, against the tests' instance; prints figures (about 15 minutes)
	@$(BIN)/python -m tests.attack

bench: setup ## the performance bars, measured here (about 100 minutes); not grouping's; exits with 1 if one fails
	@$(BIN)/python -m sluice_lab.bench

age: setup ## what queries take on an instance of DAYS=400 days over a new one; exits with 1 above 1.2 (a few minutes)
	@$(BIN)/python -m sluice_lab.bench age $(if $(DAYS),--days $(DAYS))

bench-grouping: setup ## only the bars of grouping, by itself and in Spark (about 20 minutes)
	@$(BIN)/python -m sluice_lab.bench grouping_bars grouping

lab: $(INSTALLED) ## measure the strategies of grouping, write docs/grouping.md, print the bars (a few minutes)
	@$(BIN)/sluice lab page
	@$(BIN)/python -m sluice_lab.bench grouping_bars

lab-transmission: setup ## compare assignors on live brokers, write docs/transmission.md, print its tables and bars (100 minutes; RUNS=30: 16 hours; it goes on where it was stopped)
	@$(BIN)/sluice lab transmission $(if $(RUNS),--runs $(RUNS)) $(if $(SCENARIOS),--scenarios $(SCENARIOS))

lab-placement: setup ## compute placements and migrations, move units that run, write docs/placement.md, print its tables and bars (about 45 minutes; LIVE=0: only compute)
	@$(BIN)/sluice lab placement $(if $(LIVE),--live-runs $(LIVE))

chaos: setup ## faults drawn by chance in a platform of its own, while lines come: make chaos [FAULTS=200] [SEED=7] (hours; writes var/bench/chaos.md)
	@$(BIN)/sluice lab chaos $(if $(FAULTS),--faults "$(FAULTS)") $(if $(SEED),--seed "$(SEED)") $(if $(OUT),--out "$(OUT)")

lint: $(INSTALLED) ## ruff, mypy, and the rows of packages that imports must respect
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@rows=$$($(BIN)/lint-imports --no-logo --cache-dir .mypy_cache/imports) || { echo "$$rows"; exit 1; }

format: $(INSTALLED) ## put every file into ruff's format
	@$(BIN)/ruff check -q --fix-only .
	@$(BIN)/ruff format .

lock: $(INSTALLED) ## resolve requirements.in into requirements.txt, and with requirements-dev.in into requirements-dev.txt
	@lock="$(BIN)/uv pip compile -q --universal --override overrides.txt --no-header --no-annotate"; \
	$$lock --python-version 3.11 requirements.in -o requirements.txt; \
	$$lock --python-version 3.11 requirements-dev.in -c requirements.txt -o requirements-dev.txt; \
	sed -Ei "/sys_platform == '(win32|never)'/d" requirements.txt requirements-dev.txt

audit: setup ## compare all pins, also those inside of jars, with known advisories; exits with 1 if one is open (docs/audit.md)
	@$(BIN)/python -m tests.pins

advisories: setup ## renew the known advisories: make advisories DATE=2026-11-27 FROM="GitHub=/path/to/database ..." (docs/audit.md)
	@$(BIN)/python -m tests.pins.collect $(DATE) $(FROM)

clean: ## delete the environment, the jars and every instance's data (stop them first)
	@for pid in var/*/run/supervisord.pid; do \
	  if [ -f "$$pid" ] && kill -0 "$$(cat "$$pid")" 2>/dev/null; \
	  then echo "$$pid: this instance runs; stop it with sluice down" >&2; exit 1; fi; done
	@rm -rf .venv var .mypy_cache .pytest_cache .ruff_cache .hypothesis

.PHONY: help setup demo up down fast test test-long test-all test-containers attack bench age bench-grouping chaos lab lab-transmission lab-placement lint format lock audit advisories clean
