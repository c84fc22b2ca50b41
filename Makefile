# The one entry for people and for CI. `make` alone lists the commands.

.DEFAULT_GOAL := help

# The first of these that is new enough makes the environments; `make venv PYTHON=…` names another.
PYTHONS := python3 python3.13 python3.12 python3.11
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in $(PYTHONS); do if $$p -c '$(NEW_ENOUGH)' 2>/dev/null; then echo $$p; break; fi; done)

# Handed to pytest, for instance `make test PYTEST_ARGS="-k refs -x"`.
PYTEST_ARGS ?=
BIN := .venv/bin
# The demo needs little: it makes a small environment of its own only where there is no `.venv`.
DEMO_VENV := $(if $(wildcard .venv/.installed),.venv,.venv-demo)

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: venv
venv: .venv/.installed ## Make the environment .venv, or bring it up to date
	@echo "ready: $(BIN)/python"

.venv/.installed: EXTRAS := duckdb,pandas,polars,test,dev
.venv-demo/.installed: EXTRAS := duckdb,pandas

.venv/.installed .venv-demo/.installed: pyproject.toml
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
	$(BIN)/pytest $(PYTEST_ARGS)

# pytest ends with 5 when it selects no test, which is no failure while there is no slow one.
.PHONY: test-slow
test-slow: .venv/.installed ## Run the slow tests
	$(BIN)/pytest -m slow --timeout=900 $(PYTEST_ARGS) || [ $$? -eq 5 ]

# The kernels once more without the library; the tables of the corpus go through all of them.
.PHONY: test-numpy
test-numpy: .venv/.installed ## Run the tests of decoding with the NumPy kernels
	LANCEFS_KERNELS=numpy $(BIN)/pytest tests/datafile tests/test_corpus.py $(PYTEST_ARGS)

KERNELS := lancefs/datafile/kernels
WARNINGS := -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes \
  -Wmissing-prototypes -Werror

.PHONY: kernels
kernels: .venv/.installed ## Build the compiled kernels into the checkout, warnings being errors
	CFLAGS="$(WARNINGS)" $(BIN)/python setup.py --quiet build_ext --inplace --force
	LANCEFS_KERNELS=compiled $(BIN)/python -c "import lancefs; print(lancefs.kernels_in_use())"

# Arrow's own pool hides what is written beyond a buffer; the system's allocator is watched.
SANITIZED := build/sanitized/kernels.so
.PHONY: sanitize
sanitize: .venv/.installed ## Run the tests of the kernels under the address and UB sanitizers
	mkdir -p $(dir $(SANITIZED))
	$(CC) -std=c11 -g -O1 -fPIC -shared -fvisibility=hidden $(WARNINGS) \
	  -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer \
	  $(KERNELS)/*.c -o $(SANITIZED)
	LD_PRELOAD="$$($(CC) -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 \
	  ARROW_DEFAULT_MEMORY_POOL=system LANCEFS_KERNELS=$(abspath $(SANITIZED)) \
	  $(BIN)/python -m pytest -p no:cacheprovider tests/datafile/test_kernels.py $(PYTEST_ARGS)

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
bench: .venv/.installed ## Run the benchmarks
	$(BIN)/python benchmarks/run.py

.PHONY: dist
dist: .venv/.installed ## Build the wheel and the source archive into dist/
	$(BIN)/python -m build

.PHONY: clean
clean: ## Remove what was built and cached; the environments .venv* stay
	rm -rf build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -path './.venv*' -prune -o -type d -name __pycache__ -exec rm -rf {} +
