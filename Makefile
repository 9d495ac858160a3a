# Every target explains itself: `make` lists them.
# A fresh machine needs make and a python3 (>= 3.10) with venv and pip; the targets build their own environments.

PYTHON ?= python3
JOBS   ?= auto
ARGS   ?=
SECONDS ?= 60
SEED   ?=

# The default interpreter lives in .venv, any other (make test PYTHON=/path/to/python3.12) in .venv-<version>.
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
VENV    := $(if $(filter python3,$(PYTHON)),.venv,.venv-$(VERSION))
PARITY  := .venv-parity
BROWSER := .venv-browser
READERS := .venv-readers
PACKAGE := .venv-package
FUZZ    := .venv-fuzz

PARITY_TORCH    := torch==2.13.0
PARITY_PACKAGES := numpy ml_dtypes expecttest hypothesis pytest pytest-xdist
NATIVE     := $(wildcard src/mindtorch_v2/*/native/*.[ch])
PURE_TESTS := $(wildcard $(addprefix tests/mindtorch_v2/, test_profiler.py profiler/test_profiler*.py \
	test_autograd_api.py autograd/test_autograd*.py dispatch/test_rows.py dispatch/test_op_axes.py \
	nn/test_module.py core/test_cycles.py))
READERS_TOOLS   := HolisticTraceAnalysis==0.5.0 torch-tb-profiler==0.4.3
READERS_PACKAGES := viztracer==1.1.1 numpy ml_dtypes hypothesis pytest selenium pandas plotly networkx psutil pyyaml fsspec tensorboard
FUZZ_PACKAGES   := atheris==3.0.0 numpy ml_dtypes
BROWSER_PACKAGES := numpy ml_dtypes hypothesis pytest selenium

.DEFAULT_GOAL := help
.PHONY: help demo test check parity attack package sanitize browser pictures readers fuzz bench bench-quick fmt clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  Variables: PYTHON=$(PYTHON) (interpreter), JOBS=$(JOBS) (test processes), ARGS= (passed to pytest), SECONDS=$(SECONDS) (attacks, fuzzing)"

demo: $(VENV)/installed  ## train a small GPT under the profiler: losses, table, trace, report
	$(VENV)/bin/python -m mindtorch_v2 examples/gpt.py --steps 10 --profile demo

test: $(VENV)/installed  ## run the test suite (no torch needed); recording and autograd once more without the compiled helper
	$(VENV)/bin/python -m pytest -q -n $(JOBS) $(ARGS)
	$(if $(ARGS),,MINDTORCH_PURE=1 $(VENV)/bin/python -m pytest -q -n $(JOBS) $(PURE_TESTS))

check: $(VENV)/installed  ## lint, formatting, types and layers
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/python -m pytest -q tests/mindtorch_v2/test_layers.py

parity: $(PARITY)/installed  ## compare with torch 2.13: tests, then the figures and their floors
	PYTHONPATH=src $(PARITY)/bin/python -m pytest -q -n $(JOBS) tests/parity $(ARGS)
	PYTHONPATH=src $(PARITY)/bin/python tests/parity/measure.py

attack: $(VENV)/installed  ## kills, hostile files, odd calls, threads, full disks, no memory, interrupts (SECONDS in all, SEED=, ARGS=names)
	$(VENV)/bin/python tests/attack/run.py --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

package:  ## install the package as users do (needs a C compiler), and see that its compiled parts and its command run
	$(PYTHON) -m venv --clear $(PACKAGE)
	$(PACKAGE)/bin/python -m pip install --quiet --disable-pip-version-check .
	cd $(PACKAGE) && bin/python -W error -c 'from mindtorch_v2.core import tap; from mindtorch_v2.kernels.compiled import C; assert tap.HELPER and C'
	cd $(PACKAGE) && bin/mindtorch --version

sanitize: $(VENV)/installed  ## run the C modules under ASan and UBSan, and the thread pool under TSan (gcc, Linux; slow)
	$(VENV)/bin/python tests/native/sanitize.py $(ARGS)

browser: $(BROWSER)/installed  ## test the HTML report in headless chromium (apt-get install chromium chromium-driver)
	PYTHONPATH=src:tests/mindtorch_v2 $(BROWSER)/bin/python -m pytest -q tests/browser $(ARGS)

readers: $(READERS)/installed  ## open our files with Perfetto, HTA, TensorBoard's plugin and speedscope (needs chromium, npm)
	PYTHONPATH=src SPEEDSCOPE=$(READERS)/node_modules/speedscope \
		$(READERS)/bin/python -m pytest -q -o filterwarnings=ignore tests/readers $(ARGS)

fuzz: $(FUZZ)/installed  ## fuzz the readers of checkpoints, traces and spools, SECONDS each (atheris; outside CI)
	PYTHONPATH=src $(FUZZ)/bin/python tests/fuzz/run.py --seconds $(SECONDS) $(ARGS)

pictures: $(BROWSER)/installed  ## take the pictures of the report in docs/pictures
	$(BROWSER)/bin/python -m pip install --quiet --disable-pip-version-check pillow
	PYTHONPATH=src:tests/mindtorch_v2 $(BROWSER)/bin/python tests/browser/pictures.py

bench: $(VENV)/installed $(PARITY)/installed  ## measure speed beside torch, into benchmarks/results.json and .md
	PYTHONPATH=src $(PARITY)/bin/python benchmarks/run.py

bench-quick: $(VENV)/installed $(PARITY)/installed  ## measure a few things, and fail where one became twice as slow
	PYTHONPATH=src $(PARITY)/bin/python benchmarks/quick.py

fmt: $(VENV)/installed  ## format the code and mend what the linter can mend
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

clean:  ## remove environments, caches and builds
	rm -rf .venv .venv-* fuzz build dist demo src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps: an environment is installed once, and again only when what it is made from changes.
$(VENV)/installed: pyproject.toml $(NATIVE)
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# torch comes first and alone, so that nothing else has a say in which build of it is chosen.
$(PARITY)/installed: Makefile pyproject.toml $(NATIVE)
	$(PYTHON) -m venv $(PARITY)
	$(PARITY)/bin/python -m pip install --quiet --disable-pip-version-check $(PARITY_TORCH)
	$(PARITY)/bin/python -m pip install --quiet --disable-pip-version-check $(PARITY_PACKAGES)
	$(PARITY)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

$(BROWSER)/installed: Makefile
	$(PYTHON) -m venv $(BROWSER)
	$(BROWSER)/bin/python -m pip install --quiet --disable-pip-version-check $(BROWSER_PACKAGES)
	@touch $@

$(FUZZ)/installed: Makefile
	$(PYTHON) -m venv $(FUZZ)
	$(FUZZ)/bin/python -m pip install --quiet --disable-pip-version-check $(FUZZ_PACKAGES)
	@touch $@

# The tools ask for more than they use to read a file, hence without what they depend on.
$(READERS)/installed: Makefile
	$(PYTHON) -m venv $(READERS)
	$(READERS)/bin/python -m pip install --quiet --disable-pip-version-check $(READERS_PACKAGES)
	$(READERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps $(READERS_TOOLS)
	npm install --silent --no-save --prefix $(READERS) speedscope@1
	@touch $@
