# Two commands do everything on a fresh machine: `make demo` and `make test`. The others: check, bench, clean.
# Versions are pinned in constraints.txt; a second run installs nothing again.

PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3,$(if $(shell \
	$(name) -c 'import sys; print(sys.version_info >= (3, 11) or "")' 2>/dev/null),$(name))))
BIN := .venv/bin
WORKERS ?= auto
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt

.PHONY: demo test check bench format clean

demo: .venv/base
	$(BIN)/zoneward plan --sample

test: .venv/dev
	$(BIN)/pytest -n $(WORKERS)

check: .venv/dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: .venv/dev
	$(BIN)/python -m bench

format: .venv/dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf .venv build src/*.egg-info

.venv/pip:
	@test -n "$(PYTHON)" || { echo "zoneward needs Python 3.11 or newer (Debian: apt-get install python3 python3-venv)" >&2; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "python3-venv is missing (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@touch $@

.venv/base: .venv/pip pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	@touch $@

.venv/dev: .venv/base constraints.txt dev-requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --requirement dev-requirements.txt
	@touch $@
