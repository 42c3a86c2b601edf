# What one can do here. `make` alone lists it; every target sets up what it needs, once.
# Settable: NAME (one benchmark, the pipeline of a walk, the area of mutants), SEEDS, FROM and SEED (of a simulation), WORKERS (test processes), ARGS (passed on to pytest), HOURS (of a soak run), PYTHON (for the first setup).

BIN     := .venv/bin
RUNTIME := .venv/.runtime-ready
DEV     := .venv/.dev-ready
WORKERS ?= 6
NAME    ?=
HOURS   ?= 3
ARGS    ?=
# Three test processes for each of two processors: half of the tests start processes and wait for them most of the time.
# One file's tests stay in one process: kill loops and their servers do not compete with themselves. Files run in their
# order, mixed by tests/support/scheduling.py. Files with few tests are the long ones, and sorted to the end they would
# keep one process busy.
FILES   := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
PYTEST  := $(BIN)/python -m pytest $(FILES)
SIZE    := -m "not chaos and not servers"
CORE    := tests/unit tests/contract -m "not chaos and not servers and not postgres and not browser" \
           --ignore=tests/contract/runners --ignore=tests/contract/api/test_api_fuzz.py --ignore-glob='*_kills.py' \
           --ignore-glob='*_browser.py' --ignore-glob='tests/contract/test_browser_*.py'

# Tests and benchmarks start hundreds of Python processes. Where this variable is set, each would compile every module again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test servers test-servers test-core quick check format bench screenshots chaos fuzz simulate soak security mutate walk requirements settings wheel release-check docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(DEV) ## make .venv with everything that development needs

demo: $(RUNTIME) ## see it work: all pipelines at once against simulated upstreams, a crash included, and a report
	@$(BIN)/forager demo

test: $(DEV) ## check, then all tests in CI size: what CI runs
	@$(MAKE) --no-print-directory --jobs 2 check servers
	$(BIN)/python -m scripts.run_tests $(FILES) $(SIZE) $(ARGS)

# What the tests need, got while mypy keeps one processor busy. Collecting the tests once leaves their compiled modules
# behind; otherwise every test process would compile all of them. What is wrong with a module is reported by the tests.
servers: $(DEV)
	@scripts/setup postgres
	@scripts/setup browser
	@scripts/setup prefect
	@scripts/setup bigquery
	@scripts/setup brokers
	@scripts/setup s3
	@scripts/setup pgbouncer
	@scripts/setup ops
	@scripts/setup clients
	@$(BIN)/python -m pytest --collect-only -q $(SIZE) >/dev/null 2>&1 || true

test-servers: $(DEV) ## what only a real Kafka broker and a real OpenSearch can show; needs Java 17 and Maven
	@scripts/setup kafka
	@scripts/setup opensearch
	$(BIN)/python -m scripts.run_tests -m servers tests/servers $(ARGS)

# Unit tests never wait: more processes than processors would only import everything once more.
quick: $(DEV) ## format, lint and unit tests, under a minute
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(PYTEST) -n logical -q tests/unit $(ARGS)

# No PostgreSQL, no broker, no browser, no killed process and no fuzzing. Where another server is not installed, its tests are skipped.
test-core: $(DEV) ## unit tests, and the contracts on SQLite: about 3 minutes
	$(PYTEST) -q $(CORE) $(ARGS)

check: $(DEV) ## format, lint, strict types, import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	@scripts/check_dashboard

format: $(DEV) ## rewrite the code in the one format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(DEV) ## run the benchmarks, or one (make bench NAME=pull), and write docs/benchmarks.md
	@scripts/setup postgres
	@scripts/setup browser
	@scripts/setup brokers
	$(BIN)/python -m bench $(NAME)

screenshots: $(DEV) ## pictures of every page of the dashboard, in light, dark and 390 px, into build/screenshots
	@scripts/setup browser
	$(BIN)/python -m scripts.screenshots

chaos: $(DEV) ## the full-size fault runs (kill -9, outages, full disks), or one check (NAME=R7); writes docs/contributing/chaos.md
	@scripts/setup postgres
	@scripts/setup browser
	@scripts/setup s3
	@scripts/setup brokers
	@scripts/setup pgbouncer
	$(BIN)/python -m scripts.chaos $(NAME) $(ARGS)

fuzz: $(DEV) ## long property tests
	@scripts/setup postgres
	FORAGER_FUZZ_EXAMPLES=100 $(PYTEST) tests/property tests/contract/api/test_api_fuzz.py --hypothesis-profile fuzz --timeout 3600 -o faulthandler_timeout=3900 $(ARGS)

simulate: $(DEV) ## the whole application on a simulated machine, by seed: make simulate SEEDS=1000, or SEED=17 for one
	$(BIN)/python -m tests.simulate --seeds $(or $(SEEDS),1000) --from $(or $(FROM),1) $(if $(SEED),--seed $(SEED)) $(ARGS)

soak: $(DEV) ## all pipelines for HOURS (3), browsers included: memory, handles, WAL, queue and lag must stay flat
	@scripts/setup browser
	$(BIN)/python -m scripts.soak --hours $(HOURS)

security: $(DEV) ## run every security check, audit the dependencies, write docs/security.md (ARGS=--full for the long search)
	@scripts/setup postgres
	@scripts/setup browser
	@scripts/setup brokers
	@scripts/setup s3
	@scripts/setup bigquery
	$(BIN)/python -m scripts.security $(ARGS)

mutate: $(DEV) ## put defects into the code, one at a time, and count those that the tests notice: make mutate NAME=core
	@scripts/setup postgres
	$(BIN)/python -m scripts.mutate $(or $(NAME),core) $(ARGS)

walk: $(DEV) ## list the files that one task passes through: make walk NAME=places
	@$(BIN)/python -m scripts.walk $(NAME)

requirements: $(DEV) ## write docs/contributing/requirements.md from the names of the tests
	$(BIN)/python -m scripts.requirements_doc

settings: $(DEV) ## write docs/settings.md and .env.example from the declarations of the settings
	$(BIN)/python -m scripts.settings_doc

wheel: $(DEV) ## build dist/forager_data-*.whl
	@scripts/setup wheel

release-check: $(DEV) ## build wheel and sdist, and check version, metadata, contents, changelog and licences
	@$(BIN)/python -m scripts.release_check

docs: ## build the documentation as a site with search into build/site, links checked
	@scripts/setup docs
	@$(BIN)/python -m scripts.docs_site

clean: ## remove .venv, caches and build output (never .forager, which holds data)
	rm -rf .venv dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .schemathesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUNTIME): pyproject.toml constraints.txt scripts/setup
	@scripts/setup runtime
	@touch $@

$(DEV): pyproject.toml constraints.txt scripts/setup
	@scripts/setup dev
	@touch $@ $(RUNTIME)
