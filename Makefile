# make demo   compress the digits network of examples/ and say where the report is
# make test   lint, types and tests, in an environment made for them
# make bench  the measurements behind the README, hours; goes on where it was stopped (BENCH='--list', '--quick')
# make docs   the generated pages of docs/, the figures of README, and the site of both in build/site
#
# PYTHON=python3.12 make test    to choose the interpreter that the environment in .venv is made with

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := build/demo
WORKERS ?= 2

.PHONY: demo test bench docs clean

demo: $(VENV)/.for-demo
	@rm -rf $(DEMO)
	$(BIN)/tensmith compress examples/digits/digits.onnx --data npz:examples/digits/digits.npz \
		--time-budget 60s --output $(DEMO)

# A test whose process dies ends the run: what is left would wait for it.
# Tests start some hundred interpreters: each would compile the package anew if none kept what it compiled.
test: export PYTHONDONTWRITEBYTECODE =
# Threads of linear algebra wait for each other by spinning, on cores that the other worker needs.
test: export OMP_NUM_THREADS = 1
test: $(VENV)/.for-test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	@$(BIN)/mypy > $(VENV)/types.txt & types=$$!; \
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder \
		--timeout 600 --timeout-method thread --max-worker-restart 0; tests=$$?; \
	wait $$types; types=$$?; cat $(VENV)/types.txt; exit $$((tests | types))

bench: $(VENV)/.for-bench
	$(BIN)/python -m benchmarks.run $(BENCH)

docs: $(VENV)/.for-test
	$(BIN)/python -m benchmarks.trust.onnx_conformance docs/operators.md
	$(BIN)/python -m benchmarks.native.coverage docs/native_operators.md
	$(BIN)/python -m docs.generate
	$(BIN)/python -m benchmarks.readme
	$(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf build dist

# Stamps: each environment is installed once, and again when pyproject.toml asks for other packages.
$(VENV)/.pip:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.for-demo: pyproject.toml | $(VENV)/.pip
	$(BIN)/python -m pip install --quiet --editable '.[openvino,native]'
	@touch $@

$(VENV)/.for-test: pyproject.toml | $(VENV)/.pip
	$(BIN)/python -m pip install --quiet --editable '.[openvino,native,opencl,cuda,tvm,torch,lift,tensorflow,jax,mlx,search,ray]' --group dev
	@touch $@

$(VENV)/.for-bench: pyproject.toml | $(VENV)/.pip
	$(BIN)/python -m pip install --quiet --editable '.[openvino,native,opencl,cuda,tvm,torch,lift,tensorflow,jax,mlx,search,ray,peers]' --group bench
	@touch $@
