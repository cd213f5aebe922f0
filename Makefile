# All targets are for root on Debian 12 or later; `make bench` is what to try first.

MAKEFLAGS += --no-print-directory
PYTHON := .venv/bin/python

.PHONY: bench bench-engine test install install-dev lint format clean-build

bench: install ## measure the quick plan and print its table
	@.venv/bin/tunnelbench run

bench-engine: install ## measure the packet engine against its peers, which it installs
	@cargo build --release --quiet --locked
	@$(PYTHON) benches/engine.py

test: install-dev ## all tests, linters and those that need namespaces included
	@$(PYTHON) -m pytest

install: ## what a run needs: Debian packages, uv, Rust, the package in .venv
	@scripts/install-debian

install-dev:
	@scripts/install-debian --dev

lint: ## the linters alone, each as a test
	@$(PYTHON) -m pytest tests/unit/test_linters.py

format:
	@.venv/bin/ruff check --fix --quiet .
	@.venv/bin/ruff format .
	@cargo fmt

clean-build: ## everything that was built or cached; results are kept
	@rm -rf .venv .cache target dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
