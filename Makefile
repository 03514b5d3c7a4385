# `make demo` and `make test` work on a fresh machine. The other commands: check, search, e2e-programs, e2e, e2e-minors,
# cluster, cluster-down, e2e-cluster, conformance, bench, bench-cluster, kep-table, dist, image, site, format, clean.
# constraints.txt pins all versions; a second run installs nothing again.

PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3,$(if $(shell \
	$(name) -c 'import sys; print(sys.version_info >= (3, 11) or "")' 2>/dev/null),$(name))))
BIN := .venv/bin
# $(call debian,CONDITION,PACKAGES,WHAT): where the condition is not met, installs Debian's packages as root, without the
# services that come with them; else prints what to install. A machine that just started may hold apt's lock for a while.
debian = @PATH="$$PATH:/usr/sbin:/sbin"; if { $(1); } >/dev/null; then exit; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		for each in prometheus containerd; do systemctl cat $$each >/dev/null 2>&1 || new="$$new $$each"; done; \
		apt-get update -qq && apt-get install -qq -y -o DPkg::Lock::Timeout=120 \
			--no-install-recommends $(2) >/dev/null || exit; \
		for each in $$new; do systemctl disable --quiet --now $$each 2>/dev/null || true; done; \
	else \
		echo "make $@ needs $(3) (Debian: apt-get install $(2)) and root" >&2; exit 1; \
	fi

# One more than the number of cores, because many tests wait for something.
WORKERS ?= $(shell echo $$(( $$(nproc 2>/dev/null || echo 1) + 1 )))
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
# Without bytecode each process would compile every module again: a quarter of the time of the tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test search e2e e2e-programs e2e-minors cluster cluster-down e2e-cluster conformance
.PHONY: check bench bench-cluster kep-table dist image site format clean python nftables prometheus pyinstaller buildah
.PHONY: chromium containerd shells

demo: .venv/base
	@echo '$$ $(BIN)/zoneward advise --sample'
	@$(BIN)/zoneward advise -q --sample
	@echo; echo '$$ $(BIN)/zoneward demo'
	@$(BIN)/zoneward demo
	@echo; echo 'Next: $(BIN)/zoneward advise --sample 1    the commands of the first action'
	@echo '      $(BIN)/zoneward advise               the same for the cluster of your kubeconfig'

# PYTHONHASHSEED makes the order of sets of strings the same in every run. Properties try half of the examples that
# `pytest` alone and `make search` try. The time limit only ends a hang: the first run compiles machine code, which takes a
# page of the docs 25 s of CPU on a fast machine.
test: .venv/dev
	PYTHONHASHSEED=0 $(BIN)/pytest -n $(WORKERS) -m 'not slow' --hypothesis-profile=quick --timeout 600

# Tests properties with random examples for SEARCH_MINUTES (default 10), and prints the seed of a failure.
search: .venv/dev
	WORKERS=$(WORKERS) $(BIN)/python -m tests.search

# The slow tests, and tests against a real control plane.
e2e: e2e-programs
	PYTHONHASHSEED=0 $(BIN)/pytest -n $(WORKERS) -m slow
	# Each process has separate servers and namespaces, and waits most of the time. The slowest files come first.
	$(BIN)/pytest e2e tests/contract tests/scenarios --server=real -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# What they run. The first run needs Go 1.26 to build the control plane (e2e/README.md), and reports if Go is missing.
e2e-programs: .venv/dev nftables prometheus pyinstaller buildah chromium shells
	$(BIN)/python -m e2e.programs
	$(BIN)/python -m e2e.krew
	$(BIN)/python -m release.helm

# The last three minors of Kubernetes: the contract with each API server, and each kube-proxy and controller beside it. The
# first run builds the two earlier ones, which takes ten minutes of CPU each.
MINORS ?= 1.35 1.36 1.37
e2e-minors: .venv/dev nftables
	$(BIN)/python -m e2e.programs $(MINORS)
	for minor in $(MINORS); do KUBERNETES=$$minor $(BIN)/pytest -n 2 --dist loadfile --server=real \
		tests/contract tests/scenarios e2e/test_adopt.py e2e/test_take_over.py e2e/test_live.py e2e/test_deploy.py || exit; done
	KUBERNETES_MINORS="$(MINORS)" $(BIN)/pytest -n 2 e2e/test_version_skew.py

# The tools with which kube-proxy programs the kernel.
nftables:
	$(call debian,command -v nft && command -v ip && command -v iptables,nftables iptables iproute2,nft and ip and iptables)

# Debian starts its Prometheus; the tests start one of their own.
prometheus:
	$(call debian,command -v prometheus,prometheus,a Prometheus)

# The shells in which completion is tried, and what formats the man pages.
shells:
	$(call debian,command -v zsh && command -v fish && command -v groff,zsh fish groff-base,zsh and fish and groff)

# What PyInstaller needs of Linux: the library of the Python that it packs, and binutils.
pyinstaller: LIBRARY = libpython$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_python_version())')
pyinstaller: .venv/dev
	$(call debian,[ "$$(uname)" != Linux ] || { command -v objdump && command -v objcopy && $(BIN)/python -c \
		'import ctypes; import sysconfig; ctypes.CDLL(sysconfig.get_config_var("INSTSONAME"))' 2>/dev/null; },binutils \
		$(LIBRARY),binutils and Python as a library)

# What builds the container image.
buildah:
	$(call debian,command -v buildah && command -v mmdebstrap,buildah mmdebstrap,buildah and mmdebstrap)

# The container image, as dist/zoneward-image.tar. The first time it makes a base of Debian's packages.
image: .venv/dev buildah
	$(BIN)/python -m release.image

# The browser that tests read pages with.
chromium:
	$(call debian,command -v chromium || command -v chromium-browser || command -v google-chrome,chromium,chromium)

# A cluster of six real kubelets on this machine, until `make cluster-down`; as root (cluster/README.md).
cluster: .venv/dev nftables containerd
	@$(BIN)/python -m cluster up

cluster-down: .venv/dev
	@$(BIN)/python -m cluster down

# Starts that are interrupted; then on one cluster the manifests, rollouts under load, and a part of Kubernetes' own tests
# with Zoneward's controller and proxy (docs/conformance.md).
e2e-cluster: .venv/dev nftables containerd buildah
	$(BIN)/python -m cluster.programs
	$(BIN)/python -m release.helm
	$(BIN)/pytest cluster -n 0

# Kubernetes' own tests with the built-in parts, with Zoneward's controller, and with its proxy too, slow ones included: an
# hour and a half.
conformance: .venv/dev nftables containerd
	$(BIN)/python -m cluster conformance

# Connections that fail while Pods, nodes, controllers and proxies come and go, with the built-in parts and with Zoneward's
# (docs/disruption.md): an hour. DISRUPTIONS='rollout drain --runs 1' is less.
bench-cluster: .venv/dev nftables containerd buildah
	$(BIN)/python -m cluster bench $(DISRUPTIONS)

# What the nodes of a cluster run. Debian starts its containerd; the cluster starts its own.
containerd:
	$(call debian,command -v containerd && command -v runc && command -v conntrack && command -v busybox && \
		command -v mmdebstrap && [ -e /usr/lib/cni/ptp ],containerd runc containernetworking-plugins busybox-static \
		conntrack mmdebstrap,containerd and runc and CNI plugins and conntrack and busybox and mmdebstrap)

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

# What a release has, in dist/: docs/releasing.md. The archive is that of this machine's platform.
dist: .venv/dev pyinstaller
	$(BIN)/python -m release.packages
	$(BIN)/python -m release.archive
	$(BIN)/python -m release.krew

# The documentation as a site in dist/site: `dev`, and every release that has a tag. VERSIONS='0.1=HEAD dev=.' are others.
site: .venv/base
	$(BIN)/python -m release.documentation $(VERSIONS)

format: .venv/dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf .venv dist build src/*.egg-info

.venv/pip:
	@$(if $(PYTHON),$(PYTHON),false) -c 'import ensurepip, venv' 2>/dev/null || $(MAKE) --no-print-directory python
	@echo 'Making .venv ...' >&2
	@$(or $(PYTHON),python3) -m venv .venv
	@touch $@

# Runs only if Python 3.11 with venv is missing.
python:
	$(call debian,false,python3 python3-venv,Python 3.11 or newer with venv)

.venv/base: .venv/pip pyproject.toml constraints.txt
	@echo 'Installing Zoneward and its libraries into .venv: about half a minute ...' >&2
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	@touch $@

.venv/dev: .venv/base constraints.txt dev-requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .[lab,cluster,controller] --requirement dev-requirements.txt
	@touch $@
