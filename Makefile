.DEFAULT_GOAL := help
.PHONY: help build image test lint fmt bench demo generate

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

build: ## build the release binary
	cargo build --release

image: ## build the static binary and the container image with it
	image/build

# What ships is optimised as a whole, which takes minutes and changes nothing that a test could see.
test: export CARGO_PROFILE_RELEASE_LTO = off
test: export CARGO_PROFILE_RELEASE_CODEGEN_UNITS = 16
# Tests wait for servers and for time to pass: with one a core, the cores would idle a fifth of the time.
test: export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))
test: lint ## everything that CI checks (the first run builds an API server: some minutes)
	tests/registry/tools
	tests/testbed/build
	image/build
	cargo test

lint: ## formatting and lints
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings

fmt: ## format the code
	cargo fmt

bench: ## measure: prints the tables of docs/performance.md (some 3 minutes after the build)
	cargo bench --no-run
	cargo bench --bench reviews -- --quiet
	cargo bench --bench load
	@if tests/registry/tools; then cargo bench --bench lookups; \
	else echo 'not measured without them: reading from registries (cargo bench --bench lookups)'; fi

demo: ## see it judge six upgrades, without a cluster
	cargo run --release -- demo

generate: ## write the generated manifests and documents anew
	cargo build
	for flavor in openshift kubernetes; do target/debug/airgate manifests --flavor $$flavor --tree deploy/$$flavor; done
	target/debug/airgate manifests --flavor payload --dir deploy/payload
	target/debug/airgate manifests --flavor olm --dir deploy/olm
	target/debug/airgate policies reference > docs/policies.md
	target/debug/airgate status --state policies/sample/state --releases policies/sample/releases > docs/status-sample.txt
