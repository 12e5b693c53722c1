# `make help` lists the targets.
GO        ?= go
FUZZTIME  ?= 20s
BENCHTIME ?= 1s
BIN       := bin/ferrumkv

# Pinned, so that a check passes or fails for what changed here. It runs as a
# program of its own: no dependency of the module.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.DEFAULT_GOAL := help

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build ## build, and let the embedded model tell a story
	@./$(BIN) generate

.PHONY: build
build: ## build bin/ferrumkv
	@$(GO) build -o $(BIN) ./cmd/ferrumkv

.PHONY: test-cpu
test-cpu: ## all tests, on the CPU backend
	@test -d ../shared/data/model || echo "note: without ../shared/data/model the tests on stories260K are skipped"
	$(GO) test -timeout 5m ./...

.PHONY: test-race
test-race: ## all tests under the race detector (needs cgo and a C compiler)
	CGO_ENABLED=1 $(GO) test -race -timeout 10m ./...

.PHONY: test-cuda
test-cuda: ## says what is missing for CUDA
	@scripts/no-backend CUDA

.PHONY: test-metal
test-metal: ## says what is missing for Metal
	@scripts/no-backend Metal

.PHONY: bench-cpu
bench-cpu: ## benchmarks of the packages, BENCHTIME each
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

.PHONY: fuzz
fuzz: ## every fuzz target, FUZZTIME each
	@GO='$(GO)' FUZZTIME='$(FUZZTIME)' scripts/fuzz

.PHONY: lint
lint: ## gofmt, go vet, staticcheck
	@unformatted=$$(gofmt -l backend cmd examples internal kvcache testdata); \
	if [ -n "$$unformatted" ]; then echo "gofmt -w would change:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

.PHONY: cover
cover: ## test coverage, in cover.out and as a total
	$(GO) test -timeout 10m -coverpkg=./... -coverprofile=cover.out ./...
	@$(GO) tool cover -func=cover.out | tail -1

.PHONY: cross
cross: ## build for every platform, without cgo
	@for platform in linux/amd64 linux/arm64 darwin/arm64 windows/amd64; do \
		echo "build $$platform"; \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) build ./... || exit 1; \
	done

.PHONY: clean
clean: ## remove what the targets made
	rm -rf bin cover.out
