# make repro       set up .venv and run the default project     make test   set up .venv and run all checks and tests
# make repro-all   the same, and what takes longer              make lint   ruff and mypy alone
# make publish-default   the results of make repro as version 0.1.0 under artifacts/      make help   this text
SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := $(CURDIR)/.venv/bin
# DVC's stages call `optotype` by name; nothing reports home.
export PATH := $(BIN):$(PATH)
export DVC_NO_ANALYTICS := 1

.PHONY: help setup repro repro-all publish-default test lint format constraints
.DEFAULT_GOAL := help

help:
	@sed -n '1,3s/^# //p' Makefile

# The stamp is written last: a set-up that was cut short is taken up again.
.venv/.ready: constraints.txt pyproject.toml
	@"$(PYTHON)" -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and "optotype needs Python 3.11 or newer; this is %d.%d. Try: make PYTHON=python3.11 $(MAKECMDGOALS)" % v[:2])'
	"$(PYTHON)" -m venv .venv
	"$(BIN)/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[default,dev]'
	@touch $@

setup: .venv/.ready

repro: setup
	@optotype unlock >/dev/null
	dvc repro
	@echo "The reports are reports/ranking.html, reports/compression.html and reports/retrieval.html"

# What judges the default project's results takes longer than making them: its pipeline is reports/dvc.yaml.
repro-all: repro
	dvc repro reports/dvc.yaml
	@echo "The reports are reports/evaluation.html, reports/mixtures.html and reports/judgement.html"

# Published versions are for good: with the same results this does nothing, with others it is refused.
VERSION ?= 0.1.0
publish-default: repro
	optotype publish pairs emoji@$(VERSION) --from data/pairs --title "Emoji and their names" \
	  --message "Images, English captions and names in six languages"
	optotype publish ranking emoji@$(VERSION) --from data/ranking --title "Vision encoders ranked on emoji by RAVEL" \
	  --message "Eight encoders for two language models, all four choices of prenorm"
	optotype publish suite emoji@$(VERSION) --from data/suite --title "Questions about emoji, compressed" \
	  --message "100 of 591 questions, chosen by alignment probes of small encoders"
	optotype publish frontier emoji@$(VERSION) --from data/frontier --title "Emoji questions that every family finds hard" \
	  --message "A diagnostic of this panel, no forecast"

lint: setup
	ruff check .
	ruff format --check .
	mypy

format: setup
	ruff check --fix .
	ruff format .

test: setup lint
	python -m pytest -q -n auto --dist loadfile --no-loadscope-reorder

# Resolves the newest versions that pyproject.toml and the pins of torch, zarr allow, and writes them down.
constraints:
	"$(PYTHON)" -m venv .venv-constraints
	.venv-constraints/bin/python -m pip install --quiet 'torch==2.13.0' --editable '.[default,dev]'
	(sed -n '1,2p' constraints.txt; .venv-constraints/bin/python -m pip freeze --exclude-editable | sed 's/+cpu//') > constraints.txt.new
	mv constraints.txt.new constraints.txt
	rm -rf .venv-constraints
