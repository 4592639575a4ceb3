# Every target that needs Python creates .venv from requirements/*.txt first, and does nothing when it is up to date.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps
unexport PYTHONDONTWRITEBYTECODE  # or every process of every test would compile all of src again
LOCK_DATE ?= $(shell date -u -d '7 days ago' +%F)

##@ Use

.PHONY: help
help: ## Show this help
	@bold=; cyan=; plain=; if [ -t 1 ] && [ -z "$${NO_COLOR:-}" ]; then \
	  bold=$$'\033[1m'; cyan=$$'\033[36m'; plain=$$'\033[0m'; fi; \
	awk -v bold="$$bold" -v cyan="$$cyan" -v plain="$$plain" 'BEGIN {FS = ":.*## "} \
	  /^##@/ {printf "\n%s%s%s\n", bold, substr($$0, 5), plain} \
	  /^[a-z0-9-]+:.*## / {printf "  %s%-14s%s %s\n", cyan, $$1, plain, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: $(VENV)/.dev ## Run operator and agent on the current kubeconfig's cluster, or on an embedded API of their own
	$(BIN)/nodemanager up $(ARGS)

.PHONY: demo
demo: $(VENV)/.dev ## Show in a few seconds what this is about, in a folder that stands for a host
	$(BIN)/nodemanager demo $(ARGS)

.PHONY: install
install: $(VENV)/.dev ## Install the CRDs into the current kubeconfig's cluster
	$(BIN)/nodemanager crds --install

.PHONY: uninstall
uninstall: $(VENV)/.dev ## Remove the CRDs, and with them all objects of our kinds, from that cluster; YES=1 does not ask
	$(BIN)/nodemanager crds --uninstall $(if $(YES),--yes)

.PHONY: build
build: bin/manager ## Build bin/manager, one executable file

bin/manager: $(VENV)/.dev requirements/runtime.txt $(wildcard tools/*) $(shell find src -type f -not -name '*.pyc')
	rm -rf build/site
	$(PIP_INSTALL) --require-hashes --target build/site -r requirements/runtime.txt
	$(PIP_INSTALL) --no-build-isolation --target build/site .
	$(BIN)/python -m tools.binary build/site $@
	rm -rf build

.PHONY: release
release: $(VENV)/.release ## Build dist/ for hosts without Python, packages too: TARGETS=names, SIGNING_KEY=minisign.key
	$(BIN)/python -m tools.release $(TARGETS) $(if $(SIGNING_KEY),--sign "$(SIGNING_KEY)") $(ARGS)

.PHONY: release-again
release-again: ## Build TARGETS=names once more, from nothing in another folder, and compare them with dist/
	tools/release/again.sh $(TARGETS)

.PHONY: image
IMAGE ?= nodemanager
image: ## Build the container image (IMAGE=name, IMAGE_FLAGS for docker build; needs docker)
	docker build $(if $(BASE),--build-arg "BASE=$(BASE)") $(IMAGE_FLAGS) --tag "$(IMAGE):$$(sed -n 's/^__version__ = "\(.*\)"/\1/p' src/nodemanager/__init__.py)" .

.PHONY: release-image
release-image: ## Build the image for others: the same, on BASE=name@sha256:... that you have looked at
	@[[ "$(BASE)" =~ ^[^@[:space:]]+@sha256:[0-9a-f]{64}$$ ]] || { echo "cannot build an image for others:" \
	  "BASE='$(BASE)' has no digest, and a tag may mean something else tomorrow; find it with" \
	  "'docker buildx imagetools inspect python:3.11-slim-bookworm' and give BASE=python@sha256:..." >&2; exit 1; }
	$(MAKE) image

.PHONY: deb
deb: bin/manager ## Build dist/nodemanager_VERSION_ARCHITECTURE.deb for this Debian
	$(BIN)/python -m tools.deb bin/manager dist

##@ Develop

.PHONY: test
test: $(VENV)/.dev ## Run the tests (with KUBEBUILDER_ASSETS=dir: also against kube-apiserver and etcd)
	$(BIN)/pytest $(ARGS)

.PHONY: test-readonly
test-readonly: $(VENV)/.dev ## Run them where nothing but a temporary folder can be written (as root)
	tools/readonly.sh $(BIN)/pytest $(ARGS)

.PHONY: check
check: $(VENV)/.dev verify ## Lint, format check, strict types, import contracts, generated files
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tools.rooms
	$(BIN)/python -m tools.registered

.PHONY: fmt
fmt: $(VENV)/.dev ## Format the code and mend what ruff can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: generate
generate: $(VENV)/.dev ## Write config/, docs/reference/, docs/pictures/ and parts of charts/ from the code
	$(BIN)/python -m tools.generate

.PHONY: verify
verify: $(VENV)/.dev ## Fail when a generated file is not what the code says
	$(BIN)/python -m tools.generate --check

# By file, so that the hosts of a file are booted once, and in our order: xdist has files with few tests come last,
# however long they take. Hosts wait more than they compute, so three files for each core. A benchmark wants the machine
# for itself.
.PHONY: e2e
AT_ONCE ?= $(shell echo $$((3 * $$(nproc))))
ALONE := tests/hosts/test_drift_bench.py
e2e: $(VENV)/.dev bin/manager ## Run the built bin/manager the way a user does, on real hosts, too (as root)
	@[ "$$(id -u)" = 0 ] || { echo "cannot boot hosts: only root can; run sudo make e2e," \
	  "or $(BIN)/pytest tests/e2e for what needs none" >&2; exit 1; }
	$(BIN)/pytest -n $(AT_ONCE) --dist loadfile --no-loadscope-reorder tests/e2e tests/hosts $(or $(ARGS),--ignore=$(ALONE))
	$(if $(ARGS),,$(BIN)/pytest -n 0 $(ALONE))

# Where e2e skips what needs a release, as building one takes minutes, this fails. But for Alpine, whose root nobody
# can fetch here: tests/support/release_hosts.py says where to put it.
.PHONY: e2e-release
OF_RELEASE := $(sort $(wildcard tests/e2e/test_static*.py)) $(addprefix tests/hosts/test_,examples.py release_packages.py self_update.py)
e2e-release: $(VENV)/.dev bin/manager ## Run what is about the programs in dist/, which have to be of these sources (as root)
	NODEMANAGER_TEST_RELEASE=1 $(BIN)/pytest --dist loadfile --no-loadscope-reorder $(OF_RELEASE) $(ARGS)

# One worker: a guest without KVM takes a core. FIGURES=dir keeps what it measured, and what DRBD said.
.PHONY: lab
lab: $(VENV)/.dev ## Boot two QEMU guests with real bonds, VLANs and DRBD between them (as root; docs/lab.md)
	@[ "$$(id -u)" = 0 ] || { echo "cannot boot guests: their root is made by mmdebstrap, as root; run sudo make lab" >&2; exit 1; }
	NODEMANAGER_LAB_FIGURES="$(abspath $(FIGURES))" nice -n 19 $(BIN)/pytest -n 0 tests/lab $(ARGS)

.PHONY: lab-smoke
lab-smoke: $(VENV)/.dev ## Boot the guests of the lab, and try what the rest of it stands on (as root)
	$(BIN)/pytest -n 0 tests/lab/test_smoke.py $(ARGS)

.PHONY: mutate
mutate: $(VENV)/.dev ## Make small mistakes where they cost most, and see whether tests notice (as root; ARGS=--help)
	$(BIN)/python -m tools.mutate $(ARGS)

.PHONY: bench
bench: $(VENV)/.dev $(VENV)/.bench bin/manager ## Measure side by side, as ratios (with KUBEBUILDER_ASSETS=dir: also kube-apiserver)
	PYTHONPATH=tests $(BIN)/python -m bench $(ARGS)

.PHONY: docs
docs: $(VENV)/.dev $(VENV)/.docs ## Build the documentation into site/, and check its links
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --site-dir site
	rm -rf site/assets/javascripts/lunr  # search in other languages
	find site -name '*.map' -delete
	$(BIN)/python -m tools.website.verify site

.PHONY: docs-check
docs-check: docs $(VENV)/.browser ## Look at site/ in Chromium, wide and narrow, light and dark (screenshots: SHOTS=dir)
	SHOTS="$(SHOTS)" $(BIN)/pytest -n 0 tests/website $(ARGS)

.PHONY: docs-record
docs-record: $(VENV)/.dev ## Record the terminal of the home page anew, from a real session (needs kubectl)
	$(BIN)/python -m tools.website.record
	$(BIN)/python -m tools.generate

.PHONY: lock
lock: ## Refresh the lock files (needs uv on PATH)
	cd requirements && for lock in runtime signing s3 server dev docs browser bench release; do \
	  uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	    --exclude-newer $(LOCK_DATE) --upgrade $$lock.in --output-file $$lock.txt; done

.PHONY: clean
clean: ## Remove everything that make created
	rm -rf $(VENV) bin build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Files

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "cannot create .venv: Python 3.11 or newer is needed; set PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "cannot create .venv: on Debian and Ubuntu install python3-venv" >&2; rm -rf $(VENV); exit 1; }

$(VENV)/.dev: requirements/dev.txt pyproject.toml | $(BIN)/python
	@echo "filling .venv with what requirements/dev.txt locks: a minute or two, once" >&2
	$(PIP_INSTALL) --require-hashes -r requirements/dev.txt
	$(PIP_INSTALL) --no-build-isolation --editable .
	@touch $@

$(VENV)/.docs: requirements/docs.txt $(VENV)/.dev
	$(PIP_INSTALL) --require-hashes -r requirements/docs.txt
	@touch $@

$(VENV)/.browser: requirements/browser.txt $(VENV)/.dev
	$(PIP_INSTALL) --require-hashes -r requirements/browser.txt
	@touch $@

$(VENV)/.release: requirements/release.txt $(VENV)/.dev
	$(PIP_INSTALL) --require-hashes -r requirements/release.txt
	@touch $@

$(VENV)/.bench: requirements/bench.txt $(VENV)/.dev
	$(PIP_INSTALL) --require-hashes -r requirements/bench.txt
	@touch $@
