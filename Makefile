# The one entry for people and for CI. `make` alone lists the commands.

.DEFAULT_GOAL := help

# The first of these that is new enough makes the environments; `make venv PYTHON=…` names another.
PYTHONS := python3 python3.13 python3.12 python3.11
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in $(PYTHONS); do if $$p -c '$(NEW_ENOUGH)' 2>/dev/null; then echo $$p; break; fi; done)

# Handed to pytest, for instance `make test PYTEST_ARGS="-k refs -x"`.
PYTEST_ARGS ?=
# Processes that share the tests. Tests that somebody chose are few, and quicker in one: no workers.
WORKERS ?= $(if $(PYTEST_ARGS),0,2)
# Each starts with half of the tests, in their order, so that few fixtures of modules are made twice.
SHARED := -n $(WORKERS) --dist=worksteal
# Tests that draw examples draw a sixth of them without it.
THOROUGH := LANCEFS_ALL_EXAMPLES=1
# Images for CI often set it; then each of the hundreds of processes that tests start compiles
# lancefs anew, and so do the workers with the tests.
unexport PYTHONDONTWRITEBYTECODE
BENCH_ARGS ?=
BIN := .venv/bin
# The demo needs little: it makes a small environment of its own only where there is no `.venv`.
DEMO_VENV := $(if $(wildcard .venv/.installed),.venv,.venv-demo)

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: venv
venv: .venv/.installed ## Make the environment .venv, or bring it up to date
	@echo "ready: $(BIN)/python"

.venv/.installed: EXTRAS := cli,pandas,polars,test,dev
.venv-demo/.installed: EXTRAS := pandas

# The installation builds the kernels: those of an older checkout would not be used.
.venv/.installed .venv-demo/.installed: pyproject.toml setup.py \
  $(wildcard lancefs/datafile/kernels/*.c lancefs/datafile/kernels/*.h)
	@"$(PYTHON)" -c '$(NEW_ENOUGH)' 2>/dev/null || { \
	  echo "lancefs needs Python 3.11 or newer; '$(or $(PYTHON),$(PYTHONS))' is not." >&2; \
	  echo "Name one that is: make $(or $(MAKECMDGOALS),venv) PYTHON=/path/to/python" >&2; \
	  exit 1; }
	@echo "installing lancefs[$(EXTRAS)] into $(@D)"
	@test -x $(@D)/bin/pip || "$(PYTHON)" -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[$(EXTRAS)]'
	@touch $@

.PHONY: demo
demo: $(DEMO_VENV)/.installed ## Show what lancefs does, on a small table
	$(DEMO_VENV)/bin/python examples/demo.py

.PHONY: test
test: .venv/.installed ## Run the tests, except the slow ones
	$(BIN)/pytest $(SHARED) $(PYTEST_ARGS)

# Those of Spark, all of them slow, need more than the others: see test-spark.
.PHONY: test-slow
test-slow: .venv/.installed build/tpch/queries.json ## Run the slow tests, those of Spark excepted
	$(THOROUGH) $(BIN)/pytest $(SHARED) -m "slow or hypothesis" --timeout=900 --durations=15 --ignore=tests/spark $(PYTEST_ARGS)

# Other DuckDBs, each in an environment that has nothing but it and borrows the rest from `.venv`:
# its own packages come first. Of 2.0, whose newest release all other tests have, the fast tests.
DUCKDBS := .venv-duckdb14 .venv-duckdb15 .venv-duckdb20
.venv-duckdb14/.installed: DUCKDB := duckdb==1.4.0
.venv-duckdb15/.installed: DUCKDB := duckdb==1.5.5 duckdb-extension-httpfs==1.5.5 \
  duckdb-extension-lance==1.5.5 duckdb-extension-tpch==1.5.5
.venv-duckdb20/.installed: DUCKDB := duckdb==2.0.0

$(DUCKDBS:=/.installed): .venv/.installed Makefile
	@echo "installing $(DUCKDB) into $(@D)"
	@test -x $(@D)/bin/pip || $(BIN)/python -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps $(DUCKDB)
	@$(BIN)/python -c 'import site; print(f"import site; site.addsitedir({site.getsitepackages()[0]!r})")' \
	  > "$$($(@D)/bin/python -c 'import site; print(site.getsitepackages()[0])')/beside.pth"
	@touch $@

.PHONY: tpch
tpch: build/tpch/queries.json ## Make the tables of TPC-H, for tests

build/tpch/queries.json: tests/sql/tpch.py | .venv-duckdb15/.installed
	.venv-duckdb15/bin/python tests/sql/tpch.py $(@D)

.PHONY: test-duckdb
test-duckdb: $(DUCKDBS:=/.installed) build/tpch/queries.json ## Run the tests of SQL on older DuckDBs
	@set -e; for venv in $(DUCKDBS); do \
	  $$venv/bin/python -c 'import duckdb; print("DuckDB", duckdb.__version__)'; \
	  test $$venv = .venv-duckdb20 && marks="not slow" || marks="slow or not slow"; \
	  $(THOROUGH) $$venv/bin/python -m pytest $(SHARED) -m "$$marks" --timeout=180 -o faulthandler_timeout=150 tests/sql $(PYTEST_ARGS); \
	done

.venv/.spark: .venv/.installed
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[delta,spark]' 'pyspark[connect]'
	@touch $@

# In CI, tests that skip for want of a Java would be tests that nobody runs. They wait for processes
# that start more than they compute; each file has a session of its own, and stays in one worker.
OF_SPARK := -n $(WORKERS) --dist=loadfile -m slow --timeout=900
.PHONY: test-spark
test-spark: .venv/.spark ## Run the tests of Spark, which need a JDK 17
	$(if $(filter true,$(CI)),LANCEFS_SPARK=required) $(BIN)/pytest $(OF_SPARK) tests/spark tests/test_docs.py $(PYTEST_ARGS)

# Older PySparks, in the same way as older DuckDBs.
PYSPARKS := .venv-spark41 .venv-spark42
.venv-spark41/.installed: PYSPARK := pyspark==4.1.0
.venv-spark42/.installed: PYSPARK := pyspark==4.2.0

$(PYSPARKS:=/.installed): .venv/.spark Makefile
	@echo "installing $(PYSPARK) into $(@D)"
	@test -x $(@D)/bin/pip || $(BIN)/python -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps py4j==0.10.9.9 $(PYSPARK)
	@$(BIN)/python -c 'import site; print(f"import site; site.addsitedir({site.getsitepackages()[0]!r})")' \
	  > "$$($(@D)/bin/python -c 'import site; print(site.getsitepackages()[0])')/beside.pth"
	@touch $@

.PHONY: test-spark-older
test-spark-older: $(PYSPARKS:=/.installed) ## Run the tests of Spark on older PySparks
	@set -e; for venv in $(PYSPARKS); do \
	  $$venv/bin/python -c 'import pyspark; print("PySpark", pyspark.__version__)'; \
	  $$venv/bin/python -m pytest $(OF_SPARK) tests/spark $(PYTEST_ARGS); \
	done

# The kernels once more without the library; the tables of the corpus go through all of them.
.PHONY: test-numpy
test-numpy: .venv/.installed ## Run the tests of decoding with the NumPy kernels
	$(THOROUGH) LANCEFS_KERNELS=numpy $(BIN)/pytest $(SHARED) tests/datafile tests/test_corpus.py $(PYTEST_ARGS)

# The oldest releases that pyproject.toml allows, on the oldest Python.
OLDEST := duckdb==1.4.0 fsspec==2024.6.0 numpy==1.26.0 protobuf==4.25.0 pyarrow==18.0.0 \
  pyroaring==1.0.3
OLDEST_PYTHON ?= python3.11
.venv-oldest/.installed: pyproject.toml
	@echo "installing lancefs with $(OLDEST) into $(@D)"
	@test -x $(@D)/bin/pip || "$(OLDEST_PYTHON)" -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -e . $(OLDEST) \
	  hypothesis 'pandas==2.2.*' polars pylance==14.0.2 pytest pytest-timeout pytest-xdist
	@touch $@

.PHONY: test-oldest
test-oldest: .venv-oldest/.installed ## Run the tests of views and stores with the oldest dependencies
	.venv-oldest/bin/pytest $(SHARED) tests/filesystem tests/views tests/test_arrow_dataset.py tests/test_storage.py \
	  tests/test_corpus.py $(PYTEST_ARGS)

KERNELS := lancefs/datafile/kernels
WARNINGS := -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes \
  -Wmissing-prototypes -Werror

.PHONY: kernels
kernels: .venv/.installed ## Build the compiled kernels into the checkout, warnings being errors
	CFLAGS="$(WARNINGS)" $(BIN)/python setup.py --quiet build_ext --inplace --force
	LANCEFS_KERNELS=compiled $(BIN)/python -c "import lancefs; print(lancefs.kernels_in_use())"

# Arrow's own pool hides what is written beyond a buffer; the system's allocator is watched.
SANITIZED := build/sanitized/kernels.so
WATCHED := LD_PRELOAD="$$($(CC) -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 \
  ARROW_DEFAULT_MEMORY_POOL=system LANCEFS_KERNELS=$(abspath $(SANITIZED))

$(SANITIZED): $(wildcard $(KERNELS)/*.c $(KERNELS)/*.h) | .venv/.installed
	mkdir -p $(dir $(SANITIZED))
	$(CC) -std=c11 -g -O1 -fPIC -shared -fvisibility=hidden $(WARNINGS) \
	  -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer \
	  $(KERNELS)/*.c -o $(SANITIZED)

.PHONY: sanitize
sanitize: $(SANITIZED) ## Run the tests of the kernels under the address and UB sanitizers
	$(THOROUGH) $(WATCHED) $(BIN)/python -m pytest -p no:cacheprovider $(SHARED) tests/datafile/kernels $(PYTEST_ARGS)

FUZZ_SECONDS ?= 60
.PHONY: fuzz
fuzz: $(SANITIZED) ## Try the kernels on drawn inputs under the sanitizers, twice FUZZ_SECONDS long
	$(WATCHED) $(BIN)/python tests/fuzz_kernels.py $(FUZZ_SECONDS)
	$(WATCHED) $(BIN)/python tests/fuzz_manifests.py $(FUZZ_SECONDS)

MUTANTS ?= 100000
ATTACK_ARGS ?=
.PHONY: attack
attack: .venv/.installed ## Read MUTANTS damaged tables; ATTACK_ARGS="--seed 7" for a single one
	cd tests && PYTHONPATH=..:. ../$(BIN)/python -m damage.attack $(MUTANTS) $(ATTACK_ARGS)

.PHONY: check
check: .venv/.installed ## Check style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.PHONY: format
format: .venv/.installed ## Format the code and apply the safe fixes
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

.PHONY: protos
protos: .venv/.installed ## Generate lancefs/proto from protos/
	$(BIN)/python protos/generate.py

.PHONY: bench
bench: .venv/.installed ## Run the benchmarks; BENCH_ARGS="--rows 300000" for a trial
	$(BIN)/python benchmarks/run.py $(BENCH_ARGS)
	$(if $(BENCH_ARGS),,$(BIN)/python benchmarks/shapes.py build/bench/6000000)

.PHONY: soak
soak: .venv/.installed ## Read beside a busy writer for SECONDS, by default 600
	$(BIN)/python benchmarks/soak.py --seconds $(or $(SECONDS),600)

.PHONY: bench-duckdb
bench-duckdb: .venv-duckdb15/.installed ## Run the benchmarks of SQL
	$(BIN)/python benchmarks/sql.py

.PHONY: dist
dist: .venv/.installed ## Build the wheels and the source archive into dist/, and check them
	rm -rf build/lib build/bdist.* build/temp.* dist
	$(BIN)/python -m build
	rm -rf build/lib build/bdist.* build/temp.*
	LANCEFS_PURE=1 $(BIN)/python -m build --wheel
	$(BIN)/twine check --strict dist/*

.PHONY: test-dist
test-dist: dist ## Install what was built into empty environments, and run the demo there
	.ci/check-dist $(abspath $(BIN)/python)

# Tests that look at pages skip where there is none.
.PHONY: chromium
chromium: ## Install the browser that the tests of reports use (Debian, Ubuntu; as root)
	apt-get update -qq
	apt-get install -y --no-install-recommends chromium fonts-dejavu-core

.PHONY: clean
clean: ## Remove what was built and cached; the environments .venv* stay
	rm -rf build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -path './.venv*' -prune -o -type d -name __pycache__ -exec rm -rf {} +
