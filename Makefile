# The entry points of the project; `make help` lists them.
# Nothing here downloads from anywhere but the Debian, PyPI clients that the machine has set up.

PYTHON ?= /usr/bin/python3
BIN := .venv/bin
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

# What a node needs to run containers, and what builds the demo image.
DEBIAN_PACKAGES := crun runc conmon skopeo nftables libnftables1 busybox-static curl iproute2 python3-venv

.PHONY: help setup run test unit fuzz check format bench clients clients-all lock clean

help: ## Show what can be done here
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: build/.debian .venv/.installed build/demo-image.tar ## Install Debian packages, .venv/ and the demo image

build/.debian: Makefile
	@mkdir -p build
	@missing=$$(for p in $(DEBIAN_PACKAGES); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	if [ -n "$$missing" ]; then \
	  echo "installing Debian packages:" $$missing; \
	  $(SUDO) apt-get update -qq; \
	  DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq --no-install-recommends $$missing >build/apt.log || { cat build/apt.log; exit 1; }; \
	fi
	@touch $@

build/uv/bin/uv: build/.debian
	@$(PYTHON) -m venv build/uv
	@build/uv/bin/pip install --quiet --disable-pip-version-check uv

.venv/.installed: requirements.lock pyproject.toml build/uv/bin/uv
	@echo "preparing .venv from requirements.lock"
	@build/uv/bin/uv venv --quiet --allow-existing --python $(PYTHON) .venv
	@build/uv/bin/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	@build/uv/bin/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

lock: build/uv/bin/uv ## Resolve requirements.lock anew from pyproject.toml
	build/uv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  pyproject.toml --group dev --output-file requirements.lock --upgrade

build/demo-image.tar: tools/build_demo_image.py .venv/.installed
	@$(BIN)/python tools/build_demo_image.py $@

run: setup ## Start a standalone cluster in the foreground and apply the example
	@$(BIN)/python tools/demo.py $(ARGS)

test: setup check ## Everything: lint, types, layers, all tests (as root: real containers too), clients
	@$(BIN)/python -m pytest $(ARGS)
	@$(if $(ARGS),,$(BIN)/python -m clients registries)

unit: .venv/.installed ## The tests that need no root, fast
	@$(BIN)/python -m pytest tests/unit tests/api tests/sim tests/tidy $(ARGS)

fuzz: .venv/.installed ## Draw new random cases for every test that takes some; CASES=2000 each
	@SHEPHERD_FUZZ_CASES=$(or $(CASES),2000) $(BIN)/python -m pytest tests/unit -m hypothesis --timeout 3600 $(ARGS)

check: .venv/.installed ## Lint, format, types, import layers
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --quiet --check
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo >build/imports.log || { cat build/imports.log; exit 1; }

format: .venv/.installed ## Put the code in its normal form
	@$(BIN)/ruff check --quiet --fix
	@$(BIN)/ruff format --quiet

bench: setup ## Measure; `make bench ARGS=--json` prints JSON
	@$(BIN)/python -m bench $(ARGS)

clients: setup ## Run the suites of existing clients that registries hold; `ARGS=kr8s` runs one
	@$(BIN)/python -m clients $(or $(ARGS),registries)

clients-all: setup ## All their suites: SHEPHERD_CLIENT_CHECKOUTS names a folder of checkouts
	@$(BIN)/python -m clients $(ARGS)

clean: ## Remove what set-up and tests made
	rm -rf build .venv .mypy_cache .ruff_cache .pytest_cache
