# All targets need root on Debian 12 or later. Start with `make bench`.

MAKEFLAGS += --no-print-directory
PYTHON := .venv/bin/python
# scripts/rust/cargo says why it stands in front.
ifndef RUST_PATH
export RUST_PATH := $(PATH)
export PATH := $(CURDIR)/scripts/rust:$(PATH)
endif
# Test workers. Most lab tests wait most of the time: four workers keep two CPUs busy.
WORKERS ?= 4
# `make site` builds the folder SITE from the contributed runs in RESULTS.
SITE ?= dist/site
RESULTS ?= results
TUNNELBENCH := .venv/bin/tunnelbench
# Time for each target of `make fuzz` [s].
FUZZ_SECONDS ?= 600

# No target is a file.
.PHONY: $(shell sed -n "s/^\([a-z-]*\):.*/\1/p" Makefile)

bench: install ## measure the plan `quick` and print its table
	@.venv/bin/tunnelbench run

bench-engine: install ## measure the packet engine and similar programs, which it installs
	@cargo build --release --quiet --locked
	@$(PYTHON) benches/engine.py

openwrt: ## build the package for OpenWrt in dist/
	@openwrt/build-ipk dist

test: install-dev ## run all tests and linters; tests that judge a rate run afterwards, one at a time
	@failed=0; \
	PYTHON=$(PYTHON) $(PYTHON) -m pytest --dist worksteal --tx '$(WORKERS)*popen//python=tests/apart' -m 'not alone' tests || failed=1; \
	$(PYTHON) -m pytest -m alone tests/lab || failed=1; \
	exit $$failed

wheel: install ## build the wheel in dist/, for `pipx install` or `uv tool install` on other machines
	@rm -f dist/*.whl
	@[ -x .cache/wheel/bin/pip ] || python3 -m venv .cache/wheel
	@.cache/wheel/bin/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist/*.whl

site: ## check the contributed runs in results/, and build the site of them in SITE
	@[ -x $(TUNNELBENCH) ] || $(MAKE) install
	@$(TUNNELBENCH) contribute --check $(RESULTS)
	@mkdir -p $(dir $(SITE))
	@$(TUNNELBENCH) site --no-imported $(SITE) $(RESULTS)

install: ## install what a run needs: Debian packages, uv, Rust, the package in .venv, manual pages and completion
	@scripts/install-debian
	@scripts/install-help .venv/bin/tunnelbench

install-dev: ## install what the tests need, too
	@scripts/install-debian --dev

test-kills: install-dev ## kill a run at 200 random moments (about 30 minutes); `make test` does 2
	@TUNNELBENCH_KILLS=200 $(PYTHON) -m pytest tests/lab/test_kills.py

test-interrupts: install-dev ## send 1,000 signals at random moments of doctor, run and clean (an hour or more); `make test` sends 3
	@TUNNELBENCH_INTERRUPTS=1000 PYTHON=$(PYTHON) $(PYTHON) -m pytest -rP -p no:tests.quiet --tx '$(WORKERS)*popen//python=tests/apart' --dist load tests/lab/test_interrupts.py

test-damage: install-dev ## flip every bit of a store and cut it at every byte (about 3 hours); `make test` takes a sample
	@TUNNELBENCH_DAMAGE=0 $(PYTHON) -m pytest tests/unit/store/test_damage.py

test-planted: install-dev ## find a router that is 10 % slower, in 24 rounds (about 5 minutes); `make test` finds 60 % in 12
	@TUNNELBENCH_PLANTED=0.1 TUNNELBENCH_PLANTED_ROUNDS=24 $(PYTHON) -m pytest -s tests/lab/test_planted.py

fuzz: install-dev ## fuzz each target for FUZZ_SECONDS (an hour together); `make test` takes some seconds
	@failed=0; \
	for target in plans testbeds imports foreign_results tables daemon_output; do \
		$(PYTHON) -m tests.fuzz.run $$target --seconds $(FUZZ_SECONDS) || failed=1; \
	done; \
	scripts/fuzz-engine $(FUZZ_SECONDS) || failed=1; \
	exit $$failed

test-debian-kernel: install-dev ## test in guests what a kernel may lack: tunnels (`make test` has 2), radios, guests that are killed (about 15 minutes)
	@TUNNELBENCH_GUEST_TUNNELS=all $(PYTHON) -m pytest tests/lab/debian_kernel.py tests/lab/netem_lines.py tests/lab/test_guest.py

test-boards: install-dev ## prove tunnels through the virtual routers of all boards, and filters, MTUs, IPv6 and connections on malta, count a known number of instructions there, and take a CPU from a router (about 35 minutes)
	@$(PYTHON) -m pytest tests/lab/boards.py tests/lab/conditions.py tests/lab/fixed_speed.py tests/lab/two_cpus.py

test-builds: install-dev ## find a VPN program that is 5 % slower on the virtual router beside two busy CPUs, five times of five (about an hour)
	@$(PYTHON) -m pytest -s tests/lab/builds_under_load.py

test-labgrid: install-dev ## let labgrid switch a virtual router off and on in mid-run (about 5 minutes); `make test` has a router of namespaces
	@$(PYTHON) -m pytest tests/lab/labgrid_malta.py

test-racks: install-dev ## a campaign on namespaces, a guest, a virtual router and a simulated rack, with faults (about 30 minutes)
	@TUNNELBENCH_RACKS=long $(PYTHON) -m pytest tests/lab/test_campaign.py

bench-racks: install-dev ## 20,000 jobs of 200 simulated racks with killed workers, and a store with a million trials (about an hour)
	@$(PYTHON) benches/racks.py jobs --jobs 1000
	@$(PYTHON) benches/racks.py jobs
	@$(PYTHON) benches/racks.py store

lint: ## run the linters, each as a test
	@$(PYTHON) -m pytest tests/unit/test_linters.py

format: ## format Python and Rust
	@.venv/bin/ruff check --fix --quiet .
	@.venv/bin/ruff format .
	@cargo fmt

docs: ## write what README.md, docs/ and the OpenWrt package take from the program, and the picture of the page
	@$(PYTHON) -m pytest -q --force-regen tests/unit/tunnel/test_tunnels_page.py \
		tests/unit/test_openwrt_package.py tests/unit/test_readme.py tests/browser/test_picture.py

sample: install-dev ## measure the run that README.md and docs/sample.md show, on a quiet machine (about 5 minutes)
	@.venv/bin/tunnelbench run quick
	@.venv/bin/tunnelbench export last -o docs/sample-run.json
	@$(MAKE) docs

sample-malta: install-dev ## measure the run on the virtual router `malta` that README.md shows, on a quiet machine (about 20 minutes)
	@.venv/bin/tunnelbench run quick --on malta
	@.venv/bin/tunnelbench export last -o docs/malta-run.json
	@$(MAKE) docs

reproduce: ## measure the plan `quick` on the virtual router `malta`, and compare with the figures of README.md (13 to 14 minutes)
	@scripts/install-debian --virtual-router
	@$(TUNNELBENCH) run quick --on malta --set rounds=2
	@$(TUNNELBENCH) compare docs/malta-run.json last --within 3

clean-build: ## remove everything that was built or cached; results are kept
	@rm -rf .venv .cache target dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
