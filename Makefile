# Two commands do everything on a fresh machine: `make demo` and `make test`. The others: check, search, e2e, bench,
# kep-table, clean.
# Versions are pinned in constraints.txt; a second run installs nothing again.

PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3,$(if $(shell \
	$(name) -c 'import sys; print(sys.version_info >= (3, 11) or "")' 2>/dev/null),$(name))))
BIN := .venv/bin
# One more than there are cores: many tests wait for something.
WORKERS ?= $(shell echo $$(( $$(nproc 2>/dev/null || echo 1) + 1 )))
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt

.PHONY: demo test search e2e check bench kep-table format clean python nftables

demo: .venv/base
	@$(BIN)/zoneward demo

# The order in which sets of strings are looked through is the same in every run too.
test: .venv/dev
	PYTHONHASHSEED=0 $(BIN)/pytest -n $(WORKERS)

# The properties with random examples, for SEARCH_MINUTES (10): the seed of a failure is printed.
search: .venv/dev
	WORKERS=$(WORKERS) $(BIN)/python -m tests.search

# Against a real control plane. Needs Go 1.26 to build it, once (e2e/README.md); where that is missing, one line says so.
e2e: .venv/dev nftables
	$(BIN)/python -m e2e.programs
	$(BIN)/pytest e2e -n 0
	$(BIN)/pytest tests/contract tests/scenarios --server=real -n 0

# What kube-proxy programs the kernel with: Debian's package, as root; otherwise what to install is said.
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

bench: .venv/dev
	$(BIN)/python -m bench

# The five algorithms of KEP-2004 over all 39,273,145 inputs, next to the table that the proposal prints.
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

# Only where Python 3.11 with venv is missing: Debian's packages, as root; otherwise what to install is said.
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
