# Two commands for everyone: `make demo` and `make test`. Each makes its own environment in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export OPENBLAS_NUM_THREADS ?= 1
# Tests start the program some hundred times: it is compiled for the first of them, whatever the shell says.
unexport PYTHONDONTWRITEBYTECODE
ENGINES ?= $(if $(shell command -v java),spark or )$(if $(shell command -v mariadbd),mariadb or )clickhouse

# A release and its ledger are synced to the disk some twenty times: tests write in memory, where there is room.
PYTEST = $(shell [ -w /dev/shm ] && [ "$$(df -Pk /dev/shm | awk 'END { print $$4 }')" -gt 4000000 ] && echo TMPDIR=/dev/shm) $(BIN)/pytest

.PHONY: demo studio test quick check docs package pythons engines mutants bench lock clean

demo: $(VENV)/.runtime
	$(BIN)/fitnoise new --demo
	@echo "In this checkout: make studio"

# The studio, on the folder of the newest demo, or FOLDER.
studio: $(VENV)/.dev
	$(BIN)/fitnoise studio "$(or $(FOLDER),$(firstword $(shell ls -dt fitnoise-demo* 2>/dev/null) .))"

# Everything: style, types, words, and all tests, with every branch of the kernel taken.
test: check
	$(PYTEST) -n 2 --dist worksteal -rfEs --cov

# Style, types, words, and one case of each fast test; with ROOM, such as reading: style and the tests of that package.
ifdef ROOM
quick: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	files=$$($(BIN)/python tests/rooms.py $(ROOM)) && $(PYTEST) -n 2 --dist worksteal -m "not slow" --sample $$files
else
quick: check
	$(PYTEST) -n 2 --dist worksteal -m "not slow" --sample
endif

check: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python tests/language.py --check
	$(BIN)/python tests/language.py --subjects

# Counting in the engines that this system has, beside those of `make test`: Spark with Java, MariaDB with mariadbd on
# the path, ClickHouse embedded. What was left out is named. All tests share one session of Spark: one process.
engines: $(VENV)/.engines
	@$(if $(findstring spark,$(ENGINES)),,echo "left out: Spark, for want of Java or not asked for")
	@$(if $(findstring mariadb,$(ENGINES)),,echo "left out: MariaDB, for want of mariadbd or not asked for")
	FITNOISE_ENGINES=1 $(PYTEST) -rs tests/test_spark.py tests/test_databases.py tests/test_counting.py tests/test_persons.py tests/test_shares.py tests/test_merge.py tests/test_amounts.py tests/test_by_class.py tests/test_conditions.py tests/test_dates.py tests/test_dropped_by_rules.py tests/test_documentation.py -k "$(ENGINES)"

# The documentation as a site, in build/docs: warnings are errors, and nothing is fetched from anywhere.
docs: $(VENV)/.dev
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs

# The wheel, from the source distribution, in a fresh environment: its size, the demo, a tutorial, and every extra alone.
package: $(VENV)/.dev
	$(BIN)/python tests/packaged.py

# The demo and a tutorial with every Python that is here, from 3.11 on, but that of `make package`; each is named.
pythons: $(VENV)/.dev
	$(BIN)/python tests/packaged.py --pythons

# Every stage beside the least it could take, as ratios in one run; and whether one is slower than it was.
bench: $(VENV)/.dev
	$(BIN)/python benchmarks/stages.py

# Small changes of the kernel, each of which some test must notice (an hour); FILES="losses order" tries some of its files.
mutants: $(VENV)/.dev
	$(BIN)/python tests/mutants.py $(FILES)

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "fitnoise needs Python 3.11 or newer; set PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: $(VENV)/.created requirements.lock pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.lock requirements-gpu.txt $(wildcard packages/*/pyproject.toml)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-gpu.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable packages/fitnoise-lab --editable packages/fitnoise-check
	@touch $@

$(VENV)/.engines: $(VENV)/.dev requirements-engines.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-engines.txt
	@touch $@

# Renew the pinned versions (needs uv).
lock:
	uv pip compile pyproject.toml --group build --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-strip-extras -o requirements.lock --upgrade --quiet
	uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-strip-extras -c requirements.lock -o requirements-dev.lock --upgrade --quiet

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage*
