# The short way to everything; CMakePresets.json has the long one.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
export PATH := $(PATH):$(if $(CARGO_HOME),$(CARGO_HOME),$(HOME)/.cargo)/bin
# Checkouts in different folders share objects.
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1
BIN := build/release/bin
PYTHON := .venv/bin/python
DEMO_MODEL := models/SmolLM2-135M-Instruct

.DEFAULT_GOAL := help
.PHONY: help setup configure build command demo test test-slow bench bench-peers check format clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F '|' '{printf "  make %-11s  %s\n", $$1, $$2}'

setup:  ## install what is missing
	@tools/setup

configure: setup
	@cmake --preset release

build: configure  ## build the release
	@cmake --build --preset release -j $(JOBS)

command: configure  ## build the command alone, without the tests
	@cmake --build --preset release -j $(JOBS) --target rlgen

demo: command  ## roll out completions from a real model and print them
	@$(PYTHON) tools/fetch_demo_model.py
	@mkdir -p out
	@$(BIN)/rlgen generate --model $(DEMO_MODEL) --prompts examples/prompts/demo.jsonl \
	  --output out/demo.jsonl --overwrite --table
	@printf '%s\n' '' 'The rollouts are in out/demo.jsonl (docs/rollouts.md). Try next:' \
	  '  $(BIN)/rlgen generate --model $(DEMO_MODEL) --chat --prompt "Why is the sky blue?"' \
	  '  $(BIN)/rlgen score --model $(DEMO_MODEL) --input out/demo.jsonl --output out/scored.jsonl' \
	  '  $(BIN)/rlgen inspect --model $(DEMO_MODEL)' \
	  '  make test'

test: build  ## run the fast tests
	@ctest --preset release

test-slow: build  ## run the slow tests too (torch parity, the demo model, emulated NEON, fuzzing)
	@tools/setup --slow
	@$(PYTHON) tools/fetch_demo_model.py
	@ctest --preset release
	@ctest --preset slow

bench: command  ## measure the machine and the demo model on it
	@$(PYTHON) tools/fetch_demo_model.py
	@$(BIN)/rlgen bench --model $(DEMO_MODEL)

bench-peers: command  ## measure other engines beside rlgen and put the table into README.md (hours)
	@$(PYTHON) tools/fetch_demo_model.py
	@$(PYTHON) bench/peers.py install || echo 'What could not be installed is left out of the table.'
	@$(PYTHON) bench/peers.py run --json bench/results/peers.json
	@$(PYTHON) bench/peers.py table bench/results/peers.json --write

check: setup  ## layers, sizes, style, options
	@tools/check_layers
	@tools/check_size
	@tools/check_style
	@tools/check_options

format:  ## format the C++ files
	@git ls-files '*.h' '*.cpp' | xargs -r clang-format-16 -i

clean:  ## remove what was built
	@rm -rf build dist
