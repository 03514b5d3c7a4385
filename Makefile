# `make demo` and `make test` work on a fresh machine. The other commands: check, search, e2e, bench, kep-table, format,
# clean. constraints.txt pins all versions; a second run does not install anything again.

PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3,$(if $(shell \
	$(name) -c 'import sys; print(sys.version_info >= (3, 11) or "")' 2>/dev/null),$(name))))
BIN := .venv/bin
# One more than the number of cores, because many tests wait for something.
WORKERS ?= $(shell echo $$(( $$(nproc 2>/dev/null || echo 1) + 1 )))
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
# Without bytecode each process would compile every module again: a quarter of the time of the tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test search e2e check bench kep-table format clean python nftables

demo: .venv/base
	@$(BIN)/zoneward demo

# PYTHONHASHSEED makes the order of sets of strings the same in every run.
test: .venv/dev
	PYTHONHASHSEED=0 $(BIN)/pytest -n $(WORKERS) -m 'not slow'

# Tests properties with random examples for SEARCH_MINUTES (default 10), and prints the seed of a failure.
search: .venv/dev
	WORKERS=$(WORKERS) $(BIN)/python -m tests.search

# The slow tests, and tests against a real control plane. The first run needs Go 1.26 to build it (e2e/README.md), and
# reports if Go is missing.
e2e: .venv/dev nftables
	PYTHONHASHSEED=0 $(BIN)/pytest -n $(WORKERS) -m slow
	$(BIN)/python -m e2e.programs
	$(BIN)/pytest e2e -n 0
	$(BIN)/pytest tests/contract tests/scenarios --server=real -n 0

# The tools with which kube-proxy programs the kernel. Installs Debian's packages as root, else prints what to install.
nftables:
	@PATH="$$PATH:/usr/sbin:/sbin"; command -v nft >/dev/null && command -v ip >/dev/null && exit; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && apt-get install -qq -y nftables iproute2 >/dev/null; \
	else \
		echo "the end-to-end tests need nft and ip (Debian: apt-get install nftables iproute2), and root" >&2; exit 1; \
	fi

check: .venv/dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tests.plain_words

bench: .venv/dev
	$(BIN)/python -m bench

# Scores the five algorithms of KEP-2004 over all 39,273,145 inputs, and compares with the table of the proposal.
kep-table: .venv/dev
	$(BIN)/python -m bench.kep_table

format: .venv/dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf .venv build src/*.egg-info

.venv/pip:
	@$(if $(PYTHON),$(PYTHON),false) -c 'import ensurepip, venv' 2>/dev/null || $(MAKE) --no-print-directory python
	@$(or $(PYTHON),python3) -m venv .venv
	@touch $@

# Runs only if Python 3.11 with venv is missing. Installs Debian's packages as root, else prints what to install.
python:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && apt-get install -qq -y python3 python3-venv >/dev/null; \
	else \
		echo "zoneward needs Python 3.11 or newer with venv (Debian: apt-get install python3 python3-venv)" >&2; exit 1; \
	fi

.venv/base: .venv/pip pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	@touch $@

.venv/dev: .venv/base constraints.txt dev-requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .[lab,cluster,controller] --requirement dev-requirements.txt
	@touch $@
