# `make help` lists the targets.
GO        ?= go
FUZZTIME  ?= 20s
BENCHTIME ?= 1s
COUNT     ?= 1
BIN       := bin/ferrumkv
ALL       := ./... ./cmd/... ./scripts/... # ./... ends where another module begins

# Pinned, so that a check passes or fails for what changed here. It runs as a
# program of its own: no dependency of the module.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Commands that are silent for long are announced after two seconds: $(SAY) 'what it does' command
SAY := @scripts/announce 2

.DEFAULT_GOAL := help

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-21s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build ## build, and let the embedded model tell a story
	@./$(BIN) generate

.PHONY: build
build: ## build bin/ferrumkv
	$(SAY) 'downloading the modules that $(BIN) needs' sh -c '$(GO) list -deps ./cmd/ferrumkv >/dev/null 2>&1 || true' # without a line each
	$(SAY) 'building $(BIN): the first build compiles the packages of all devices, which takes minutes; later ones take seconds' $(GO) build -o $(BIN) ./cmd/ferrumkv

.PHONY: nvml
nvml: ## build bin/ferrumkv-nvml, which reads the state of NVIDIA devices for doctor
	$(SAY) 'building $(BIN)-nvml' env CGO_CFLAGS="-O2 -g -Wno-deprecated-declarations" $(GO) build -o $(BIN)-nvml ./cmd/ferrumkv-nvml

.PHONY: test-cpu
test-cpu: ## tests, on the CPU backend: all but the long ones
	@test -d "$${FERRUM_TEST_DATA:-../shared/data}" || echo "note: tests of published models and traces are skipped, nothing else needs these; docs/test-data.md says where to get them"
	GOGC=$${GOGC:-400} $(GO) test -short -timeout 20m $(ALL)

.PHONY: test-tiers
test-tiers: ## tiers under the race detector at full size: a million operations, every stored bit flipped (10 minutes)
	$(SAY) 'testing tiers under the race detector: 10 minutes' env GO='$(GO)' scripts/test-race tiers

.PHONY: test-cuda-simt
test-cuda-simt: ## what runs on a CUDA device without a GPU: kernels on the CPU
	$(SAY) 'building the CUDA kernels for this CPU, and the tests: minutes' env GO='$(GO)' scripts/test-cuda-simt test

.PHONY: test-metal-simt
test-metal-simt: ## what runs on a Metal device without a Mac: kernels on the CPU
	$(SAY) $(TOOLCHAIN)
	$(SAY) 'building the stand-in for Metal, and the tests: minutes' env GO='$(GO)' scripts/test-metal-simt test

# These are recorded in .ci/passed: a change need not run them where their inputs did not change.
RECORDED := test-long test-long-pool test-long-program test-race test-race-backend test-race-pool test-race-program test-nvml test-yzma test-events test-metrics test-openai test-noasm test-arm64 \
	test-cuda-kernels test-cuda-seeds test-cuda-asan test-cuda-racecheck \
	test-metal-lint test-metal-kernels test-metal-seeds test-metal-asan test-metal-racecheck kernels-check
test-long: ## the library's packages that have long tests, with these
test-long-pool: ## the pool's
test-long-program: ## the program's and the workshop's
test-race: ## the library's tests under the race detector
test-race-backend: ## the conformance suite's and the CPU backend's
test-race-pool: ## the pool's
test-race-program: ## the program's and the workshop's
test-nvml: ## ferrumkv-nvml, which no pattern finds
test-yzma: ## the example that runs llama.cpp by yzma (npm has its library)
test-events: ## events of caches with go-zeromq at either end
test-metrics: ## metrics with client_golang, and with Debian's Prometheus
test-openai: ## ferrumkv serve with OpenAI's own client
test-noasm: ## the CPU backend and the cache on kernels in Go alone
test-arm64: ## the CPU kernels for arm64, under an emulator where this machine is another
test-cuda-kernels: ## the CUDA kernels and their stand-in, in C++
test-cuda-seeds: ## the CUDA backend on the stand-in under further orders of execution
test-cuda-asan: ## the CUDA kernels on the CPU under AddressSanitizer
test-cuda-racecheck: ## the CUDA kernels on the CPU under ThreadSanitizer
test-metal-lint: ## every Metal kernel, and the shim, as Apple's compiler would see them
test-metal-kernels: ## the Metal kernels and their stand-in, in C++
test-metal-seeds: ## the Metal backend on the stand-in under further orders of execution
test-metal-asan: ## the Metal kernels and the shim on the CPU under AddressSanitizer
test-metal-racecheck: ## the Metal kernels on the CPU under ThreadSanitizer
kernels-check: ## the compiled CUDA kernels' machine code against sources, rules and NVIDIA's headers (unpacks its toolkit)
.PHONY: $(RECORDED)
$(RECORDED):
	@$(GO) run ./scripts/checks run $@

.PHONY: test-llmd
test-llmd: ## events of caches with llm-d's own subscriber, pool and index at the other end (downloads 152 MB, compiles for a minute)
	$(SAY) 'testing with llm-d-kv-cache' env GO='$(GO)' scripts/test-events llmd

TOOLCHAIN := 'looking for clang 19 and the run-time libraries, and installing what is missing: minutes' scripts/install-metal-toolchain
BUNDLE := 'building build/bundle-cuda: minutes' env GO='$(GO)' scripts/bundle-cuda

.PHONY: metal-toolchain
$(filter test-metal-%,$(RECORDED)): metal-toolchain
metal-toolchain:
	$(SAY) $(TOOLCHAIN)

.PHONY: checks
checks: ## what checks there are, and of which inputs the slow ones last passed
	@$(GO) run ./scripts/checks list

.PHONY: passed
passed: ## run the slow checks whose inputs changed, and record what passes
	$(SAY) $(TOOLCHAIN)
	@$(GO) run ./scripts/checks passed $(if $(MINUTES),-minutes $(MINUTES))

.PHONY: nightly
nightly: ## every check at full size, fuzzing, benchmarks (an estimate: 80 minutes on two quiet cores); run again to continue (ONLY=names, MINUTES=60, FRESH=1)
	$(SAY) $(TOOLCHAIN)
	@$(GO) run ./scripts/checks nightly $(if $(ONLY),-only '$(ONLY)') $(if $(MINUTES),-minutes $(MINUTES)) $(if $(FRESH),-fresh)

.PHONY: test-cuda
test-cuda: ## the CUDA backend on this machine's GPU: tests, and the sanitizer if it is installed
	$(SAY) $(BUNDLE)
	@RESULTS=$(CURDIR)/build/results-cuda build/bundle-cuda/run test sanitize

.PHONY: bench-cuda
bench-cuda: ## the CUDA kernels against the bandwidth and matrix rate of this machine's GPU (4 minutes; BENCH=Kernels/decode/f16: a part)
	$(SAY) $(BUNDLE)
	@RESULTS=$(CURDIR)/build/results-cuda build/bundle-cuda/run bench
	@$(GO) run ./cmd/internal/benchpage build/results-cuda/cuda.txt
	@sed -n '/<!-- aims/,/<!-- end/{/^|/p;}' build/results-cuda/cuda.md; echo "build/results-cuda: cuda.md has all tables, cuda.json all figures"

.PHONY: bench-cuda-page
bench-cuda-page: ## docs/benchmarks/cuda.md with its plot and figures, of build/results-cuda/cuda.txt, made here or on another machine, and of cuda-pack.json beside it
	cp build/results-cuda/cuda.txt docs/benchmarks/cuda.txt
	$(GO) run ./cmd/internal/benchpage docs/benchmarks/cuda.txt

.PHONY: bench-cuda-host
bench-cuda-host: ## the host's part of a step on CUDA, over a driver library that does nothing (needs a C compiler)
	$(SAY) 'building the driver library that does nothing' make -s -C kernels/simt null
	FERRUM_TEST_DEVICE=cuda:0 FERRUM_CUDA_DRIVER=$(CURDIR)/build/simt/libcuda-null.so $(GO) test -run '^$$' -bench '^BenchmarkHost' -benchtime $(BENCHTIME) -count $(COUNT) ./backend/cuda ./kvcache

.PHONY: bundle-cuda
bundle-cuda: ## tests and benchmarks for a GPU machine without Go: build/bundle-cuda, packed in one file (5 minutes)
	$(SAY) $(BUNDLE)
	$(SAY) 'packing build/bundle-cuda: minutes' scripts/pack-cuda-bundle

.PHONY: gpu-pack
gpu-pack: ## what a rented GPU is asked in half an hour: build/gpu-pack.tar.xz (needs nvcc; docs/kernels.md has the three calls)
	$(SAY) 'building build/gpu-pack: minutes' env GO='$(GO)' scripts/build-gpu-pack

.PHONY: test-metal
test-metal: ## the Metal backend on this Mac, with the framework's own checks on
	$(SAY) 'building the tests of the Metal backend: minutes' env GO='$(GO)' scripts/test-metal test

.PHONY: bench-metal
bench-metal: ## the Metal kernels against the bandwidth and matrix rate of this Mac's GPU
	$(SAY) 'building the benchmarks of the Metal backend: minutes' env GO='$(GO)' scripts/test-metal bench

.PHONY: kernels-metal
kernels-metal: ## compile the Metal kernels beforehand (a Mac with Xcode); without, programs do when they run
	$(SAY) 'compiling the Metal kernels' env GO='$(GO)' scripts/build-metal-library

.PHONY: bench
bench: ## benchmarks of the packages, BENCHTIME each
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) $$($(GO) list $(ALL) | grep -v internal/bench)

.PHONY: bench-cpu
bench-cpu: ## the CPU kernels against the limits of this machine (14 minutes; BENCHTIME=1x: smaller, to see that it runs)
	@mkdir -p build
	$(SAY) 'measuring, into build/bench-cpu.txt: 14 minutes' $(GO) test -count=1 -timeout 30m -run '^$$' -bench . $(if $(filter 1x,$(BENCHTIME)),-short) ./internal/bench > build/bench-cpu.txt; status=$$?; cat build/bench-cpu.txt; exit $$status

.PHONY: bench-peers
bench-peers: ## attention beside ggml's (FERRUM_PEERS_GGML=FOLDER) and ONNX Runtime's (from npm), in turns in one process (15 minutes; BENCHTIME=1x: smaller, to see that it runs)
	@mkdir -p build
	$(SAY) 'measuring, into build/bench-peers.txt: 15 minutes' env GO='$(GO)' scripts/bench-peers $(if $(filter 1x,$(BENCHTIME)),-short) > build/bench-peers.new; status=$$?; test ! -s build/bench-peers.new || { mv build/bench-peers.new build/bench-peers.txt; cat build/bench-peers.txt; }; exit $$status

.PHONY: models-grid
models-grid: ## docs/models-grid.md: texts of tiny models of each architecture and type of GGUF beside llama.cpp's (numpy, npm; 15 to 20 minutes)
	$(SAY) 'comparing texts with those of llama.cpp: 15 to 20 minutes' env GO='$(GO)' scripts/models-grid

.PHONY: proof
proof: build ## build/proof.txt: what a model of yours computes on this machine, to be pasted (MODEL=PATH)
	@mkdir -p build
	@./$(BIN) proof $(if $(MODEL),--model '$(MODEL)') > build/proof.new; status=$$?; test ! -s build/proof.new || { mv build/proof.new build/proof.txt; cat build/proof.txt; }; exit $$status

.PHONY: load
load: build ## a minute of load on this program's server with the embedded model: build/load.html, build/load.json
	@mkdir -p build
	$(SAY) 'loading a server for a minute' $(GO) run ./scripts/load $(BIN) build

.PHONY: bench-peers-page
bench-peers-page: ## docs/benchmarks/peers.md, of the last bench-peers
	cp build/bench-peers.txt docs/benchmarks/peers.txt
	$(GO) run ./cmd/internal/benchpage docs/benchmarks/peers.txt

.PHONY: bench-cpu-page
bench-cpu-page: ## docs/benchmarks/cpu.md and its plots, of the last bench-cpu
	cp build/bench-cpu.txt docs/benchmarks/cpu.txt
	$(GO) run ./cmd/internal/benchpage docs/benchmarks/cpu.txt

.PHONY: quality
quality: ## every figure of docs/quality.md, measured again and compared (minutes; those of stories260K need docs/test-data.md)
	FERRUM_TEST_QUALITY=1 $(GO) test -count=1 -timeout 60m -v -run TestQualityDocument ./cmd/ferrumkv

.PHONY: fuzz
fuzz: ## every fuzz target, FUZZTIME each
	@GO='$(GO)' FUZZTIME='$(FUZZTIME)' scripts/fuzz

.PHONY: lint
lint: ## gofmt, go vet, staticcheck
	@unformatted=$$(gofmt -l *.go backend cmd examples internal kernels kvcache kvevents schedule scripts testdata); \
	if [ -n "$$unformatted" ]; then echo "gofmt -w would change:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet $(ALL)
	$(GO) run $(STATICCHECK) $(ALL)

.PHONY: tidy
tidy: ## go.mod and go.sum of the library, the program and the workshop, and go.work.sum
	$(SAY) 'asking for the modules' env GO='$(GO)' scripts/tidy write

.PHONY: generate
generate: ## what follows from kernels/abi.h and backend/params.go, in Go; tests fail when it is stale
	$(GO) generate ./backend ./backend/internal/abi

.PHONY: api
api: ## docs/api.txt, the list of what the packages export; tests fail when it is stale
	$(SAY) 'listing what the packages export, for all platforms' $(GO) run ./scripts/api -w

.PHONY: asm
asm: ## write the assembly of the CPU kernels
	$(SAY) 'generating the assembly' env GO='$(GO)' scripts/write-asm write

.PHONY: asm-check
asm-check: ## the assembly of the CPU kernels is what its generators write
	$(SAY) 'generating the assembly' env GO='$(GO)' scripts/write-asm check

.PHONY: kernels-cuda
kernels-cuda: ## compile the CUDA kernels that changed (needs nvcc, which scripts/unpack-cuda-toolkit unpacks on Debian)
	$(SAY) 'compiling the CUDA kernels that changed: minutes' sh -c 'bin=$$(scripts/unpack-cuda-toolkit) && PATH="$$bin:$$PATH" exec $(GO) run ./scripts/kernels build'

.PHONY: cover
cover: ## test coverage, in cover.out and as a total
	$(GO) test -timeout 10m -coverpkg=./...,./cmd/... -coverprofile=cover.out ./... ./cmd/...
	@$(GO) tool cover -func=cover.out | tail -1

# Without optimizations, which take a third of the time and find no mistakes.
.PHONY: cross
cross: ## build for every other platform, without cgo
	@for platform in linux/arm64 darwin/arm64 windows/amd64; do \
		echo "build $$platform"; \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) build -gcflags='all=-N -l' $(ALL) || exit 1; \
	done

.PHONY: clean
clean: ## remove what the targets made
	rm -rf bin build cover.out
