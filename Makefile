# Everything a contributor or CI runs. `make help` lists it; each target sets up what it needs.
# Needs only make and Python 3.11 or newer: the rest goes into .venv, inside this checkout.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
# The environment is current when it was made by this Python from this lock file and project.
STAMP := .venv/made-from-$(shell { $(PYTHON) --version; cat requirements/dev.txt; \
	sed -n '/^\[project/,/^\[tool/p' pyproject.toml; } 2>/dev/null | cksum | cut -d' ' -f1)
# The compiled placement kernel. Without a C compiler it is not made, and plans are slower.
KERNEL := src/holdfast/core/scheduling/kernel/kernel.so
READY := $(STAMP) $(KERNEL)
TESTS ?= tests
# Tests that are named are all run, also the long ones.
SOME = $(filter-out tests,$(TESTS))

.DEFAULT_GOAL := help
.PHONY: $(shell sed -nE 's/^([a-z0-9-]+):.*\#\#.*/\1/p' Makefile)

help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 17

setup: $(READY) ## create the virtual environment (every other target does this when needed)

$(STAMP):
	@test -n "$(PYTHON)" || { echo "holdfast needs Python 3.11 or newer; none of python3, python3.13, python3.12, python3.11 is. Set PYTHON=/path/to/python."; exit 3; }
	rm -rf .venv
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/dev.txt
	HOLDFAST_VERSION=0.0.0.dev0 $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

$(KERNEL): scripts/build_kernel.py $(wildcard src/holdfast/core/scheduling/kernel/*.py) | $(STAMP)
	@$(BIN)/python scripts/build_kernel.py

check: $(READY) ## lint, types, import contracts, rules of the codebase, tests that docs name, generated files
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/unit/test_tidy.py tests/unit/test_sim_fidelity.py
	$(BIN)/python scripts/generate_crds.py --check
	$(BIN)/python scripts/generate_chart_readme.py --check
	$(BIN)/python scripts/generate_aws.py --check
	$(BIN)/python scripts/generate_parity.py --check
	$(BIN)/python scripts/generate_metrics.py --check

check-aws: $(READY) ## check the CloudFormation template and the Terraform module with cfn-lint, moto, python-hcl2, Terraform
	PYTHONPATH=tests:tests/support $(BIN)/python scripts/check_aws.py

check-charts: $(READY) ## check the charts with helm lint, kubeconform, helm-unittest and promtool (needs Go and promtool)
	$(BIN)/python scripts/check_charts.py

check-workflows: $(READY) ## check the workflows of GitHub with actionlint (needs Go)
	$(BIN)/python scripts/check_workflows.py

test: $(READY) ## run the tests, without long ones and with samples of exhaustive ones (TESTS=path/to/some to run some)
	$(BIN)/python -m pytest -n auto --dist worksteal $(if $(SOME),,-m "not exhaustive") $(TESTS)

test-all: test ## run all tests: those of `make test`, then the others; prints the ten slowest
	$(if $(SOME),,$(BIN)/python -m pytest -n auto --dist worksteal -m exhaustive --durations 10 $(TESTS))

fuzz: $(READY) ## plan and check random scenarios, then fuzz-api (N=10000 SEED=1 PLANNER=product, or naive)
	PYTHONPATH=tests:tests/support $(BIN)/python scripts/fuzz.py --count $(or $(N),10000) --seed $(or $(SEED),1) --planner $(or $(PLANNER),product)
	$(MAKE) fuzz-api

oracle: $(READY) ## compare plans of small random cases with the best plans (N=5000 SEED=1)
	PYTHONPATH=tests:tests/support $(BIN)/python scripts/run_oracle.py --count $(or $(N),5000) --seed $(or $(SEED),1)

fuzz-api: $(READY) ## send malformed requests to the embedded API server (N=10000 SEED=1)
	PYTHONPATH=tests:tests/support $(BIN)/python scripts/fuzz_api.py --count $(or $(N),10000) --seed $(or $(SEED),1)

fuzz-hostile: $(READY) ## run the program with objects that have hostile values (N=100 SEED=1)
	PYTHONPATH=tests:tests/support $(BIN)/python scripts/fuzz_hostile.py --count $(or $(N),100) --seed $(or $(SEED),1)

mutants: $(READY) ## change the meaning of single expressions and report what the tests notice (N=100 SEED=1 MODULE=ledger)
	PYTHONPATH=scripts $(BIN)/python scripts/mutants.py --count $(or $(N),100) --seed $(or $(SEED),1) --module "$(MODULE)"

sim: $(READY) ## replay a random fault simulation of the whole program (SEED=7), or run many (SEED=1 N=1000; long ones from SEED=1000000, many restarts from SEED=2000000, gangs from SEED=3000000)
	PYTHONPATH=tests:tests/support $(BIN)/python scripts/sim.py --seed $(or $(SEED),7) --count $(or $(N),1)

faults: $(READY) ## inject faults between the real process and its endpoints (KIND=all SEED=1 TIME=1800 N=; docs/reliability.md)
	PYTHONPATH=tests:tests/support $(BIN)/python scripts/run_faults.py --kind $(or $(KIND),all) --seed $(or $(SEED),1) --time $(or $(TIME),1800) --count $(or $(N),0)

bench: $(READY) ## measure; prints tables, asserts nothing
	$(BIN)/python tests/bench/bench_cli.py
	PYTHONPATH=tests:tests/support $(BIN)/python tests/bench/bench_state_pods.py
	PYTHONPATH=tests:tests/support $(BIN)/python tests/bench/bench_cluster_state.py
	PYTHONPATH=tests:tests/support $(BIN)/python tests/bench/bench_explain.py
	PYTHONPATH=tests:tests/support $(BIN)/python tests/bench/bench_planner.py
	PYTHONPATH=tests:tests/support $(BIN)/python tests/bench/bench_packing.py
	PYTHONPATH=tests:tests/support $(BIN)/python tests/bench/bench_sizing.py
	PYTHONPATH=tests:tests/support $(BIN)/python tests/bench/bench_ledger.py
	PYTHONPATH=tests:tests/support $(BIN)/python tests/bench/bench_disruption.py
	PYTHONPATH=tests:tests/support $(BIN)/python tests/bench/bench_kube.py
	PYTHONPATH=tests:tests/support $(BIN)/python tests/bench/bench_sim_api.py
	PYTHONPATH=tests:tests/support $(BIN)/python tests/bench/bench_aws.py
	PYTHONPATH=tests:tests/support $(BIN)/python tests/bench/bench_idle.py
	PYTHONPATH=tests:tests/support $(BIN)/python tests/bench/bench_metrics.py
	PYTHONPATH=tests:tests/support $(BIN)/python tests/bench/bench_sim_aws.py
	PYTHONPATH=tests:tests/support $(BIN)/python tests/bench/bench_record.py
	PYTHONPATH=tests:tests/support $(BIN)/python tests/bench/bench_app.py
	PYTHONPATH=tests:tests/support $(BIN)/python tests/bench/bench_requests.py

bench-compare: $(READY) ## compare the time of plans with another commit (BASE=HEAD~1; nine minutes)
	PYTHONPATH=tests:tests/support $(BIN)/python tests/bench/compare_planner.py --base $(or $(BASE),HEAD~1)

demo: $(READY) ## show the controllers at work, in the terminal (DEMO='--speed 60' and the like)
	$(BIN)/holdfast demo $(DEMO)

demo-picture: $(READY) ## draw docs/images/demo.svg, the screen of the demo in the README
	$(BIN)/python scripts/draw_demo.py

wheel: $(READY) ## build wheels for Linux on x86-64 and arm64 into dist/
	$(BIN)/python scripts/build_wheels.py

image: $(READY) ## build the container image with buildah, podman or docker (IMAGE='--base X --run-base Y --tag Z -- more flags')
	$(BIN)/python scripts/build_image.py $(IMAGE)

charts: $(READY) ## package the charts with the version of git into dist/
	$(BIN)/python scripts/package_charts.py

release: $(READY) ## build wheels, sdist, charts, image, SBOM, checksums and signature into dist/release-VERSION (RELEASE='--help')
	$(BIN)/python scripts/build_release.py $(RELEASE)

publish: $(READY) ## create a draft release on GitHub from dist/release-VERSION (needs gh)
	version=$$($(BIN)/python scripts/git_version.py) && folder=dist/release-$$version && \
		gh release create "v$$version" --draft --verify-tag --title "Holdfast $$version" \
			--notes-file "$$folder/RELEASE_NOTES.md" "$$folder"/*

check-release: $(READY) ## build a release twice from clones of HEAD, compare and verify (IMAGE='--base X --run-base Y' includes the image)
	IMAGE='$(IMAGE)' $(BIN)/python -m pytest -q -p no:cacheprovider -s -o python_files=e2e_release.py tests/release

peers: $(READY) ## build the real programs that tests compare with (needs Go; minutes the first time)
	$(BIN)/python scripts/build_peers.py

e2e: $(READY) ## test with real programs: kube-apiserver, Karpenter and its scheduler, the AWS CLI (needs Go)
	PYTHONPATH=tests:tests/support $(BIN)/python scripts/e2e.py

e2e-oldest: $(READY) ## test with the control plane of the oldest supported Kubernetes (needs Go; builds for minutes the first time)
	PYTHONPATH=tests:tests/support $(BIN)/python scripts/e2e.py --oldest

e2e-page: $(READY) ## test the page in a real browser (needs chromium; reports what is missing)
	$(BIN)/python scripts/e2e_page.py

page: $(READY) ## serve the page with the documents of a made-up cluster (CLUSTER=small, hostile or huge; PORT=8088)
	PYTHONPATH=tests:tests/support $(BIN)/python tests/support/page_server.py $(or $(CLUSTER),small) $(or $(PORT),8088)

e2e-install: $(READY) ## install the image with the chart on two real kubelets (needs root, Debian packages and Go; PREVIOUS=commit to upgrade from, or none)
	PYTHONPATH=tests:tests/support:scripts $(BIN)/python scripts/e2e_install.py $(if $(PREVIOUS),--previous $(PREVIOUS))

e2e-move: $(READY) ## move a cluster from the real Karpenter to Holdfast and back, and watch both (needs Go; WATCH=900 seconds; 40 minutes)
	WATCH=$(or $(WATCH),900) PYTHONPATH=tests:tests/support:scripts $(BIN)/python -m pytest -q -s -p no:cacheprovider -o python_files='e2e_*.py' tests/peers/e2e_move.py

bench-peer: $(READY) ## compare Karpenter's scheduler with Holdfast's on the same files (needs Go)
	PYTHONPATH=tests:tests/support:scripts $(BIN)/python tests/bench/bench_peer.py

bench-page: $(READY) ## measure the page with 10,000 nodes and 500 reservations in Chromium (needs chromium)
	PYTHONPATH=tests:tests/support $(BIN)/python tests/bench/bench_page.py

bench-live: $(READY) ## measure two hundred nodes on a real control plane: seconds, CPU time, memory (needs Go)
	$(BIN)/python scripts/build_peers.py etcd kube-apiserver kube-controller-manager kube-scheduler karpenter-aws
	PYTHONPATH=tests:tests/support:scripts $(BIN)/python tests/bench/bench_live.py

bench-story: $(READY) ## run the same workloads with Holdfast and with Karpenter: restarts, cost, slots (needs Go; 20 minutes)
	$(BIN)/python scripts/build_peers.py etcd kube-apiserver kube-controller-manager kube-scheduler karpenter-aws
	PYTHONPATH=tests:tests/support:scripts $(BIN)/python tests/bench/bench_story.py

duel: $(READY) ## run Karpenter and Holdfast through the same story and print a table (RUNS=3 SECONDS=310; needs Go; 36 minutes; docs/duel.md)
	$(BIN)/python scripts/build_peers.py etcd kube-apiserver kube-controller-manager kube-scheduler karpenter-aws
	PYTHONPATH=tests:tests/support:scripts $(BIN)/python scripts/duel.py $(if $(RUNS),--runs $(RUNS)) $(if $(SECONDS),--seconds $(SECONDS)) $(DUEL)

compare-day: $(READY) ## compare a simulated day with the same day in real time at 60 times speed (HOURS=24 takes 24 minutes; docs/simulate.md)
	PYTHONPATH=tests:tests/support $(BIN)/python tests/bench/compare_day.py --hours $(or $(HOURS),24)

format: $(READY) ## format the code and apply safe fixes
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

data: $(READY) ## regenerate the shipped EC2 data (downloads its source, so `make check` does not)
	$(BIN)/python scripts/generate_data.py

generate: $(READY) ## write the generated files
	$(BIN)/python scripts/generate_crds.py
	$(BIN)/python scripts/generate_chart_readme.py
	$(BIN)/python scripts/generate_aws.py
	$(BIN)/python scripts/generate_parity.py
	$(BIN)/python scripts/generate_metrics.py

lock: $(READY) ## resolve the dependencies again into requirements/*.txt
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header \
		--output-file requirements/runtime.txt pyproject.toml
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header \
		--output-file requirements/dev.txt pyproject.toml requirements/dev.in
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header \
		--output-file requirements/awscli.txt requirements/awscli.in
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header \
		--output-file requirements/wheel.txt requirements/wheel.in
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header \
		--output-file requirements/aws-checks.txt requirements/aws-checks.in

clean: ## remove the virtual environment and caches
	rm -rf .venv .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis dist $(KERNEL)
