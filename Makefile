# Every target is a short script under .ci/; all of them install what is missing first (Debian, Ubuntu).
.PHONY: help run build demo test test-kernels soak sbom bench static clean
.DEFAULT_GOAL := help

help: ## This list
	@sed -nE 's/^([a-z-]+):.*## (.*)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

run: ## Build in release mode and run the agent with the embedded default config; OTEL_EXPORTER_OTLP_* pass through
	@.ci/agent run

build: ## Build the release binary and say where it is
	@.ci/agent build

demo: ## A service slow by its quota, then by a neighbour: agent, Collector and Jaeger on this machine, until Ctrl-C
	@.ci/agent demo

test: ## Run every check and test; what this machine cannot run is listed at the end
	@.ci/test

test-kernels: ## Boot all kernels and flavours, compare every number there, and write the README's table; some minutes
	@.ci/agent kernels

soak: ## Half an hour of churn, load and faults: memory and files must stay flat, and everything be accounted for
	@.ci/agent soak

sbom: ## Write what is linked into the binary as CycloneDX, with versions and licences
	@.ci/sbom

bench: ## Measure what the agent costs beside an empty program and peers; about ten minutes
	@.ci/agent bench

static: ## Build a binary without shared libraries; ARCH=aarch64 for arm64
	@.ci/agent static $(ARCH)

clean: ## Remove what was built here
	@.ci/agent clean
