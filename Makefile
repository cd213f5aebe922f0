# All targets are for root on Debian 12 or later; `make bench` is what to try first.

MAKEFLAGS += --no-print-directory
PYTHON := .venv/bin/python

.PHONY: bench bench-engine openwrt test test-kills test-damage test-planted test-debian-kernel install install-dev lint format clean-build

bench: install ## measure the quick plan and print its table
	@.venv/bin/tunnelbench run

bench-engine: install ## measure the packet engine against its peers, which it installs
	@cargo build --release --quiet --locked
	@$(PYTHON) benches/engine.py

openwrt: ## the package for OpenWrt, into dist/
	@openwrt/build-ipk dist

test: install-dev ## all tests, linters and those that need namespaces included; what measures has the machine to itself
	@failed=0; \
	$(PYTHON) -m pytest --numprocesses auto --dist worksteal tests/unit || failed=1; \
	PYTHON=$(PYTHON) $(PYTHON) -m pytest --dist worksteal --tx '3*popen//python=tests/lab/apart' -m 'not alone' tests/lab || failed=1; \
	$(PYTHON) -m pytest -m alone tests/lab || failed=1; \
	exit $$failed

install: ## what a run needs: Debian packages, uv, Rust, the package in .venv
	@scripts/install-debian

install-dev:
	@scripts/install-debian --dev

test-kills: install-dev ## a run killed at 200 random moments; `make test` does 20 (about 30 minutes)
	@TUNNELBENCH_KILLS=200 $(PYTHON) -m pytest tests/lab/test_kills.py

test-damage: install-dev ## every bit of a store flipped, and cut at every byte; `make test` takes a sample (about 3 hours)
	@TUNNELBENCH_DAMAGE=0 $(PYTHON) -m pytest tests/unit/store/test_damage.py

test-planted: install-dev ## looks for a router slower by a tenth, in 24 rounds; `make test` plants a quarter in 10 (about 5 minutes)
	@TUNNELBENCH_PLANTED=0.1 TUNNELBENCH_PLANTED_ROUNDS=24 $(PYTHON) -m pytest -s tests/lab/test_planted.py

test-debian-kernel: install-dev ## simulated radios and control groups of version 2, in a guest (about a minute, several on a busy machine)
	@$(PYTHON) -m pytest tests/lab/debian_kernel.py

lint: ## the linters alone, each as a test
	@$(PYTHON) -m pytest tests/unit/test_linters.py

format:
	@.venv/bin/ruff check --fix --quiet .
	@.venv/bin/ruff format .
	@cargo fmt

clean-build: ## everything that was built or cached; results are kept
	@rm -rf .venv .cache target dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
