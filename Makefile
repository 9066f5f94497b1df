# The commands of the README. Everything is installed into .venv; nothing outside the checkout is changed.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
TORCH ?= torch==2.13.0
MINDSPORE ?= mindspore==2.10.0
TRITON ?= triton==3.9.0
ATHERIS ?= atheris==3.0.0
TRAINERS ?= transformers==5.23.0 accelerate==1.15.0 lightning==2.6.6
STORE ?= runs/
FAULT ?= none
ARGS ?=

BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: demo test test-all test-mindspore test-triton test-trainers check bench dashboard docs lock clean

demo: .venv/.installed
	@exec $(BIN)/mindscope demo --fault $(FAULT) --store $(STORE) $(ARGS)

dashboard: .venv/.installed
	@exec $(BIN)/mindscope dashboard $(STORE) $(ARGS)

IN_PARALLEL := -n 3 --dist loadfile --no-loadscope-reorder -m "not browser and not alone"
# Three test processes on two cores, since many tests wait for other processes; more BLAS threads would only wait, too.
# A file stays with one process: what it makes once for its tests is made once. `xdist_group` does nothing with pytest 9.2.
test test-all test-mindspore test-trainers: export OPENBLAS_NUM_THREADS = 1
test test-all test-mindspore test-trainers: export OMP_NUM_THREADS = 1

# Browser tests, and those of what a process holds, run last and alone: their trainings need a free core.
test: .venv/.installed-test
	$(BIN)/python -m pytest $(IN_PARALLEL) $(ARGS)
	$(BIN)/python -m pytest -m "browser or alone" $(ARGS) || [ $$? = 5 ]

# The complete suites: every sampled case, every seed.
test-all: .venv/.installed-test .atheris/.installed
	MINDSCOPE_TEST_ALL=1 PYTHONPATH=.atheris $(BIN)/python -m pytest $(IN_PARALLEL) $(ARGS)
	MINDSCOPE_TEST_ALL=1 PYTHONPATH=.atheris $(BIN)/python -m pytest -m "browser or alone" $(ARGS) || [ $$? = 5 ]

# MindSpore's wheels need NumPy 1 and 2.8 GB: they get an environment of their own.
test-mindspore: .venv-mindspore/.installed
	.venv-mindspore/bin/python -m pytest tests/probe/mindspore $(ARGS)

# The Triton kernels in Triton's interpreter, which needs no GPU; its wheel takes a gigabyte, so it has its own folder.
test-triton: .venv/.installed-test .triton/.installed
	TRITON_INTERPRET=1 PYTHONPATH=.triton $(BIN)/python -m pytest tests/probe/kernels/test_device.py $(ARGS)

# The trainers of Hugging Face and Lightning, in an environment that adds them to the locked one.
test-trainers: .venv-trainers/.installed
	.venv-trainers/bin/python -m pytest tests/probe/torch_modes/test_huggingface.py tests/probe/torch_modes/test_lightning.py $(ARGS)

check: .venv/.installed-test .check/mindscope
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/.installed-test
	@set -e; for name in monitor_overhead default_cost call_path store diagnosis engine; do $(BIN)/python benchmarks/$$name.py $(ARGS); done

# The generated parts of the documentation: catalogues, the page of benchmarks, screenshots of the dashboard.
docs: .venv/.installed-test
	for module in framework.primitive_catalogue probe.collector_catalogue insight.rule_catalogue armour.attack_catalogue; do $(BIN)/python -m mindscope.$$module; done
	$(BIN)/python benchmarks/render.py
	MINDSCOPE_WRITE_DOCS=1 $(BIN)/python -m pytest -q tests/end_to_end/test_browser_pages.py tests/end_to_end/test_insight_pages.py

# Needs uv; writes the files for `pip install --require-hashes`.
lock:
	printf 'setuptools>=77\n' > .venv/build.in
	uv pip compile --universal --generate-hashes --python-version 3.11 --no-emit-index-url --no-header --no-annotate -q \
	  --extra demo pyproject.toml .venv/build.in -o requirements.lock
	uv pip compile --universal --generate-hashes --python-version 3.11 --no-emit-index-url --no-header --no-annotate -q \
	  --extra test -c requirements.lock pyproject.toml .venv/build.in -o requirements-test.lock

clean:
	rm -rf .venv .venv-mindspore .venv-trainers .triton .atheris .check build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mindscope needs Python 3.11 or newer, found " + sys.version)'
	$(PYTHON) -m venv .venv

.venv/.installed: .venv/bin/python requirements.lock pyproject.toml
	$(PIP) install --require-hashes -r requirements.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	@echo 'compiling the kernels, once: about half a minute'
	@scratch=$$(mktemp -d) && $(BIN)/mindscope demo --steps 2 --no-dashboard --store "$$scratch" >/dev/null && rm -r "$$scratch"
	@touch $@

# torch first: the lock then pins its dependencies; its CPU wheel is enough.
.venv/.installed-test: .venv/.installed requirements-test.lock
	$(PIP) install '$(TORCH)'
	$(PIP) install --require-hashes -r requirements-test.lock
	@touch $@

# Where there is no wheel of it, its tests are skipped.
.atheris/.installed:
	-$(PIP) install --no-deps --only-binary :all: --target .atheris '$(ATHERIS)'
	@mkdir -p .atheris && touch $@

.triton/.installed:
	$(PIP) install --no-deps --target .triton '$(TRITON)'
	@touch $@

.venv-mindspore/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-mindspore
	.venv-mindspore/bin/python -m pip install --quiet --disable-pip-version-check '$(MINDSPORE)' --editable '.[mindspore]' \
	  pytest pytest-timeout hypothesis
	@touch $@

# This environment sees the packages of .venv and does not install them again, torch's CPU build above all.
.venv-trainers/.installed: .venv/.installed-test
	$(BIN)/python -m venv .venv-trainers
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	  > $$(.venv-trainers/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/locked.pth
	echo '$(TORCH)' > .venv-trainers/constraints.txt
	.venv-trainers/bin/python -m pip install --quiet --disable-pip-version-check -c .venv-trainers/constraints.txt $(TRAINERS)
	@touch $@

# mypy finds the package under its import name through this link.
.check/mindscope:
	mkdir -p .check && ln -s .. .check/mindscope
