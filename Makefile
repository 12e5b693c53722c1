# `make help` lists the targets.
GO        ?= go
FUZZTIME  ?= 20s
BENCHTIME ?= 1s
COUNT     ?= 1
BIN       := bin/ferrumkv

# Pinned, so that a check passes or fails for what changed here. It runs as a
# program of its own: no dependency of the module.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.DEFAULT_GOAL := help

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-21s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build ## build, and let the embedded model tell a story
	@./$(BIN) generate

.PHONY: build
build: ## build bin/ferrumkv
	@$(GO) build -o $(BIN) ./cmd/ferrumkv

.PHONY: test-cpu
test-cpu: ## all tests, on the CPU backend
	@test -d ../shared/data/model || echo "note: without ../shared/data/model the tests on stories260K are skipped"
	$(GO) test -timeout 10m ./...

.PHONY: test-race
test-race: ## all tests under the race detector (needs cgo and a C compiler)
	CGO_ENABLED=1 $(GO) test -race -timeout 20m ./...

.PHONY: test-noasm
test-noasm: ## the tests of the CPU backend and the cache on kernels in Go alone
	$(GO) test -count=1 -timeout 10m -tags noasm ./backend/cpu ./kvcache

.PHONY: test-arm64
test-arm64: ## the CPU kernels for arm64, under an emulator where this machine is another
	@GO='$(GO)' scripts/test-arm64

.PHONY: test-cuda
test-cuda: bundle-cuda ## the CUDA backend on this machine's GPU: tests, and the sanitizer if it is installed
	@RESULTS=$(CURDIR)/build/results-cuda build/bundle-cuda/run test sanitize

.PHONY: test-cuda-simt
test-cuda-simt: ## the same tests without a GPU: kernels on the CPU, three orders of execution
	@GO='$(GO)' scripts/cuda-simt seeds

.PHONY: test-cuda-asan
test-cuda-asan: ## the CUDA kernels on the CPU under AddressSanitizer
	@GO='$(GO)' scripts/cuda-simt asan

.PHONY: test-cuda-racecheck
test-cuda-racecheck: ## the CUDA kernels on the CPU under ThreadSanitizer
	@GO='$(GO)' scripts/cuda-simt racecheck

.PHONY: bench-cuda
bench-cuda: bundle-cuda ## the CUDA kernels against the bandwidth and matrix rate of this machine's GPU (4 minutes; BENCH=Kernels/decode/f16: a part)
	@RESULTS=$(CURDIR)/build/results-cuda build/bundle-cuda/run bench
	@$(GO) run ./backend/internal/benchpage build/results-cuda/cuda.txt
	@sed -n '/<!-- aims/,/<!-- end/{/^|/p;}' build/results-cuda/cuda.md; echo "build/results-cuda: cuda.md has all tables, cuda.json all figures"

.PHONY: bench-cuda-page
bench-cuda-page: ## docs/benchmarks/cuda.md with its plot and figures, of build/results-cuda/cuda.txt, made here or on another machine
	cp build/results-cuda/cuda.txt docs/benchmarks/cuda.txt
	$(GO) run ./backend/internal/benchpage docs/benchmarks/cuda.txt

.PHONY: bench-cuda-host
bench-cuda-host: ## the host's part of a step on CUDA, over a driver library that does nothing (needs a C compiler)
	@make -s -C kernels/simt null
	FERRUM_TEST_DEVICE=cuda:0 FERRUM_CUDA_DRIVER=$(CURDIR)/build/simt/libcuda-null.so $(GO) test -run '^$$' -bench '^BenchmarkHost' -benchtime $(BENCHTIME) -count $(COUNT) ./backend/cuda ./kvcache

.PHONY: bundle-cuda
bundle-cuda: ## tests and benchmarks for a GPU machine without Go, in build/bundle-cuda
	@GO='$(GO)' scripts/cuda-bundle

.PHONY: test-metal
test-metal: ## the Metal backend on this Mac, with the framework's own checks on
	@GO='$(GO)' scripts/metal-test test

.PHONY: test-metal-simt
test-metal-simt: ## the same tests without a Mac: kernels on the CPU, three orders of execution
	@scripts/metal-toolchain
	@GO='$(GO)' scripts/metal-simt lint
	@GO='$(GO)' scripts/metal-simt seeds

.PHONY: test-metal-asan
test-metal-asan: ## the Metal kernels and the shim on the CPU under AddressSanitizer
	@scripts/metal-toolchain
	@GO='$(GO)' scripts/metal-simt asan

.PHONY: test-metal-racecheck
test-metal-racecheck: ## the Metal kernels on the CPU under ThreadSanitizer
	@scripts/metal-toolchain
	@GO='$(GO)' scripts/metal-simt racecheck

.PHONY: bench-metal
bench-metal: ## the Metal kernels against the bandwidth and matrix rate of this Mac's GPU
	@GO='$(GO)' scripts/metal-test bench

.PHONY: kernels-metal
kernels-metal: ## compile the Metal kernels beforehand (a Mac with Xcode); without, programs do when they run
	@GO='$(GO)' scripts/metal-library

.PHONY: bench
bench: ## benchmarks of the packages, BENCHTIME each
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) $$($(GO) list ./... | grep -v internal/cpubench)

.PHONY: bench-cpu
bench-cpu: ## the CPU kernels against the limits of this machine (9 minutes; BENCHTIME=1x: smaller, to see that it runs)
	@mkdir -p build
	@$(GO) test -count=1 -timeout 30m -run '^$$' -bench . $(if $(filter 1x,$(BENCHTIME)),-short) ./backend/internal/cpubench > build/bench-cpu.txt; status=$$?; cat build/bench-cpu.txt; exit $$status

.PHONY: bench-cpu-page
bench-cpu-page: ## docs/benchmarks/cpu.md and its plots, of the last bench-cpu
	cp build/bench-cpu.txt docs/benchmarks/cpu.txt
	$(GO) run ./backend/internal/benchpage docs/benchmarks/cpu.txt

.PHONY: quality
quality: ## every figure of docs/quality.md, measured again and compared (minutes)
	FERRUM_TEST_QUALITY=1 $(GO) test -count=1 -timeout 60m -v -run TestQualityDocument ./cmd/ferrumkv

.PHONY: fuzz
fuzz: ## every fuzz target, FUZZTIME each
	@GO='$(GO)' FUZZTIME='$(FUZZTIME)' scripts/fuzz

.PHONY: lint
lint: ## gofmt, go vet, staticcheck
	@unformatted=$$(gofmt -l backend cmd examples internal kernels kvcache scripts testdata); \
	if [ -n "$$unformatted" ]; then echo "gofmt -w would change:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

.PHONY: generate
generate: ## the Go side of kernels/abi.h; a test fails when it is stale
	$(GO) generate ./backend/internal/abi

.PHONY: asm
asm: ## write the assembly of the CPU kernels
	@GO='$(GO)' scripts/asm write

.PHONY: asm-check
asm-check: ## the assembly of the CPU kernels is what its generators write
	@GO='$(GO)' scripts/asm check

.PHONY: kernels-cuda
kernels-cuda: ## compile the CUDA kernels that changed (needs nvcc: see scripts/cuda-toolkit)
	@$(GO) run ./scripts/kernels build

.PHONY: kernels-check
kernels-check: ## the compiled CUDA kernels against sources, MANIFEST and rules (needs the toolkit)
	@$(GO) run ./scripts/kernels check -toolkit

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
	rm -rf bin build cover.out
