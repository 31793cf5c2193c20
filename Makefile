# Every target makes the virtual environment by itself; nothing but Python 3.11 or newer and make is needed.
VENV ?= .venv
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN = $(VENV)/bin
# Test processes side by side, which import libraries for 20 s and hold a few models: one more than cores, as some wait for
# processes that they have started; at most 8.
JOBS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1); echo $$(( n < 8 ? n + 1 : 8 )))
SIDE_BY_SIDE = -n $(JOBS) --dist loadfile --no-loadscope-reorder
# `dev` is enough for all but a few tests; test-all installs every extra, in an environment of its own, as lmms-eval and Ray
# hold other packages back.
EXTRAS ?= dev
FURTHER ?=
EVERY_EXTRA = dev,corpus,docs,lmms-eval,mcp,mlflow,mteb,onnx,peft,quantized,ray,search,sentence-transformers,sequences,signing,tensorboard,trackio
# Tests whose outcome could depend on the precision of a step.
TRAINS = tests/models tests/modules tests/objectives tests/data/pairs tests/loop/test_sharding.py \
	$(addprefix tests/launch/test_,adapters.py kill.py resume.py) $(patsubst %,tests/runs/test_%.py, \
	data_order golden optimizers packed train vision_language)
READY = $(VENV)/.ready
# $(call install,EXTRAS): uv unpacks in seconds what takes pip minutes, but does not know pip's indexes
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
install = { $(PIP) uv && $(BIN)/python -m uv pip install --quiet --no-config --python $(BIN)/python --editable ".[$1]" $(FURTHER) \
	$(if $(PIP_CONSTRAINT),--constraint $(PIP_CONSTRAINT)) 2> /dev/null; } || $(PIP) --editable ".[$1]" $(FURTHER)
# The versions that the tests have passed with; PIP_CONSTRAINT= takes the newest that pyproject.toml admits.
export PIP_CONSTRAINT ?= $(CURDIR)/.ci/constraints.txt

.PHONY: help run speedrun test test-bf16 test-all every-test mutants test-slurm check bench pictures docs dist lock image

help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

run: $(READY)  ## pretrain a small encoder on real text; overrides go in ARGS="optimizer=muon seed=1"
	@$(BIN)/tiryns $(ARGS)

speedrun: $(READY)  ## the default recipe's loss in as little time as a recipe takes (docs/speedrun.md)
	@OMP_NUM_THREADS=1 $(BIN)/tiryns experiment=speedrun $(ARGS)

test: $(READY)  ## the tests that prove the promises, in some minutes
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE) $(ARGS)

test-bf16: $(READY)  ## the tests of all that trains once more, in bf16, which any CPU can
	@TIRYNS_TEST_PRECISION=bf16-mixed $(BIN)/python -m pytest $(SIDE_BY_SIDE) $(TRAINS) $(ARGS)

test-all:  ## the long tests too, with every extra, and without ARGS those on a SLURM cluster
	@$(MAKE) --no-print-directory every-test VENV=$(VENV)-all EXTRAS=$(EVERY_EXTRA) FURTHER=spacy

every-test: $(READY)
	@$(BIN)/python -c "import torchvision" 2> /dev/null || \
		$(BIN)/python -m pip uninstall --quiet --yes torchvision  # of another build than torch, which no test needs
	@sh .ci/chromium
	@HYPOTHESIS_PROFILE=repeatable TIRYNS_TEST_NO_SKIPS=$(EXTRAS),$(FURTHER) $(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not benchmark and not slurm" $(ARGS)
ifndef ARGS
	@TIRYNS_TEST_NO_SKIPS=$(EXTRAS),$(FURTHER) $(BIN)/python -m pytest -m slurm tests/slurm
endif

mutants: $(READY)  ## small mistakes in the code of the promises: is there one that no test notices? (20 minutes)
	@$(BIN)/python -W ignore -m tests.mutants $(ARGS)

test-slurm: $(READY)  ## the tests on a real SLURM cluster, which they start on this machine (Debian, as root)
	@$(BIN)/python -m pytest -m slurm tests/slurm $(ARGS)

check: $(READY)  ## lint, format, types, layers, private names and the budget
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports
	@$(BIN)/python -m tests.house.code.private_names && $(BIN)/python -m tests.house.budget --check

bench: $(READY)  ## measure against peers and print the tables; one alone: make bench ONLY=permute
	@$(BIN)/python -m tests.benchmarks $(ONLY)

pictures: $(READY)  ## the pictures of README and docs, taken anew from the default run of today's program
	@$(BIN)/python -m tests.documented.pictures

docs: $(VENV)/.ready-docs  ## the documentation, as pages in site/
	@$(BIN)/python -m mkdocs build --strict --quiet && echo "open site/index.html"

dist: $(READY)  ## the sdist and the wheel of this checkout, in dist/, and what is in them checked
	@rm -rf build dist  # of an earlier wheel, whose files would go into this one
	@$(BIN)/python -m build --outdir dist . > /dev/null
	@$(BIN)/python -m tests.support.installed dist

lock: $(READY)  ## uv.lock anew, with the newest versions that pyproject.toml admits
	@$(PIP) uv
	@$(BIN)/python -m uv lock --upgrade

image:  ## a container image of this checkout: tiryns:<version> with docker, tiryns.sif with apptainer
	@if docker info > /dev/null 2>&1; then \
		docker build --file docs/templates/Dockerfile --tag tiryns:$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml) .; \
	elif command -v apptainer > /dev/null; then apptainer build tiryns.sif docs/templates/tiryns.def; \
	else echo "make image needs docker or apptainer, and neither runs here" && exit 1; fi

$(VENV)/.ready-docs: $(READY)
	@$(call install,docs)
	@touch $@

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; name it with make PYTHON=..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) ..."
	@$(call install,$(EXTRAS))
	@touch $@
