package main

import (
	"slices"
	"time"
)

// What several checks depend on. Of kernels/simt that is what both halves share, simt.h, core, the
// Makefile and the tests of single kernels, and what is one's own.
var (
	simtCUDA = []string{"kernels/abi.h", "kernels/storage.h", "kernels/cuda", ":(exclude)*.zst", "kernels/simt", ":(exclude)kernels/simt/go.mod", ":(exclude)kernels/simt/null",
		":(exclude)kernels/simt/metal", ":(exclude)kernels/simt/msl", ":(exclude)kernels/simt/test/metal", ":(exclude)kernels/simt/leak.supp"}
	simtMetal = []string{"kernels/abi.h", "kernels/storage.h", "kernels/metal", "scripts/set-metal-env", "scripts/test-metal", "kernels/simt", ":(exclude)kernels/simt/go.mod", ":(exclude)kernels/simt/null",
		":(exclude)kernels/simt/cuda", ":(exclude)kernels/simt/driver", ":(exclude)kernels/simt/test/cuda", ":(exclude)kernels/simt/exports"}
	cudaTools  = []string{"go", "g++"}
	metalTools = []string{"go", "clang++-19"}

	// Whose tests take as long as those of all other packages: a change that these do not import leaves their records.
	pool     = []string{"./kvcache"}
	backends = []string{"./backend/backendtest", "./backend/cpu"}
)

// What several checks write.
const (
	apt        = "what is installed"
	program    = "bin/ferrumkv"
	cudaPlain  = "the stand-in for CUDA without a sanitizer, in build/simt"
	metalPlain = "that for Metal"
)

// table is all checks of the project. What a check takes was measured on two cores with
// another one beside it; kernels-check and test-arm64 with their tools installed.
var table = []check{
	{name: "lint", what: "gofmt, go vet, staticcheck", when: always, takes: 75 * time.Second,
		command: []string{"make", "lint"}},
	{name: "tidy", what: "go.mod and go.sum of the library, the program, the workshop, examples/yzma, kvevents/interop/zeromq, kvcache/metrics/collector and cmd/interop/openai, and go.work.sum, are what go writes", when: always, takes: 10 * time.Second,
		command: []string{"scripts/tidy", "check"}},
	{name: "cross", what: "builds for every platform, without cgo", when: always, takes: 2 * time.Minute,
		command: []string{"make", "cross"}},
	{name: "tags", what: "what is left of the GPU backends without cgo, and with tags that take them away", when: always, takes: 20 * time.Second,
		command: []string{"scripts/test-tags"}},
	{name: "asm-check", what: "the assembly of the CPU kernels is what its generators write", when: always, takes: time.Minute,
		command: []string{"make", "asm-check"}},
	{name: "golden", what: "make run prints the model's text", when: always, alone: program, takes: 3 * time.Second,
		command: []string{"scripts/check-golden"}},
	{name: "outside", what: "a module elsewhere builds and runs what it is promised, the examples included", when: always, alone: program, takes: 210 * time.Second,
		command: []string{"scripts/test-outside"}},
	{name: "rehearse", what: "a release, and a user that has nothing else of this repository", when: always, takes: time.Minute,
		command: []string{"scripts/rehearse-release"}},
	{name: "kernels-sources", what: "the compiled CUDA kernels against sources and MANIFEST", when: always, takes: time.Second,
		command: []string{"go", "run", "./scripts/kernels", "check"}},
	{name: "keys", what: "the vectors of docs/keys.md, by a program in another language", when: always, takes: time.Second,
		command: []string{"scripts/check-keys"}},
	{name: "snapshot", what: "the files of docs/snapshot.md, by a program in another language", when: always, takes: 3 * time.Second,
		command: []string{"scripts/check-snapshot"}},
	{name: "weight", what: "how large the module, a program and the tree are", when: always, takes: 15 * time.Second,
		command: []string{"scripts/weigh"}},
	{name: "test-cpu", what: "all tests on the CPU but the long ones", when: always, takes: 3 * time.Minute,
		command: []string{"make", "test-cpu"}},
	{name: "test-cuda-simt", what: "the cache and the program on a CUDA device, on the stand-in: one order of execution, chosen work", when: always, alone: cudaPlain, takes: 5 * time.Minute,
		command: []string{"scripts/test-cuda-simt", "cache"}, env: []string{"RAPID_CHECKS=30"}},
	{name: "test-metal-simt", what: "the cache and the program on a Metal device, on the stand-in: one order of execution, chosen work", when: always, alone: metalPlain, takes: 5 * time.Minute,
		command: []string{"scripts/test-metal-simt", "cache"}, env: []string{"RAPID_CHECKS=30"}},
	{name: "bench-cuda-simt", what: "the benchmarks of a CUDA device, on the stand-in, to see that they run", when: always, alone: cudaPlain, takes: 45 * time.Second,
		command: []string{"scripts/test-cuda-simt", "bench"}},
	{name: "bench-metal-simt", what: "the benchmarks of a Metal device, on the stand-in, to see that they run", when: always, alone: metalPlain, takes: 45 * time.Second,
		command: []string{"scripts/test-metal-simt", "bench"}},

	{name: "test-long", what: "the library's packages that have long tests, in full", when: onChange, takes: 90 * time.Second,
		command: []string{"scripts/test-long", "library"}, packages: []string{"./..."}, except: pool, tools: []string{"go"}},
	{name: "test-long-pool", what: "the pool's long tests", when: onChange, takes: 90 * time.Second,
		command: []string{"scripts/test-long", "pool"}, packages: pool, tools: []string{"go"}},
	{name: "test-long-program", what: "the program's and the workshop's", when: onChange, takes: time.Minute,
		command: []string{"scripts/test-long", "program"}, packages: []string{"./cmd/...", "./scripts/..."}, tools: []string{"go"}},
	{name: "test-race", what: "the library's tests under the race detector", when: onChange, takes: time.Minute,
		command: []string{"scripts/test-race", "library"}, packages: []string{"./..."}, except: slices.Concat(pool, backends), tools: cudaTools},
	{name: "test-race-backend", what: "the conformance suite's and the CPU backend's tests under the race detector", when: onChange, takes: time.Minute,
		command: []string{"scripts/test-race", "backend"}, packages: backends, tools: cudaTools},
	{name: "test-race-pool", what: "the pool's tests under the race detector", when: onChange, takes: 2 * time.Minute,
		command: []string{"scripts/test-race", "pool"}, packages: pool, tools: cudaTools},
	{name: "test-race-program", what: "the program's and the workshop's", when: onChange, takes: 2 * time.Minute,
		command: []string{"scripts/test-race", "program"}, packages: []string{"./cmd/...", "./scripts/..."}, tools: cudaTools},
	{name: "test-nvml", what: "the program that reads the state of NVIDIA devices, which no pattern finds", when: onChange, takes: 15 * time.Second,
		command: []string{"scripts/test-nvml"}, packages: []string{"./cmd/ferrumkv-nvml", "./internal/nvml/library"}, tools: cudaTools},
	{name: "test-yzma", what: "the example that runs llama.cpp, by the library that npm has, a module of its own", when: onChange, takes: 30 * time.Second,
		command: []string{"scripts/test-yzma"}, packages: []string{"./kvcache/states"},
		paths: []string{"examples/yzma", "scripts/models/llamacpp.py", "scripts/models/demo.py", "scripts/models/gguf.py", "testdata/model"}, tools: []string{"go"}},
	{name: "test-events", what: "events of caches with go-zeromq at either end, a module of its own", when: onChange, takes: 10 * time.Second,
		command: []string{"scripts/test-events", "zeromq"}, packages: []string{"./kvevents/..."}, paths: []string{"kvevents/interop/zeromq"}, tools: []string{"go"}},
	{name: "test-metrics", what: "metrics as client_golang exposes them and as Debian's Prometheus scrapes them, a module of its own", when: onChange, takes: 30 * time.Second,
		command: []string{"scripts/test-metrics"}, packages: []string{"./kvcache/metrics"}, paths: []string{"kvcache/metrics/collector"}, tools: []string{"go"}},
	{name: "test-openai", what: "ferrumkv serve with OpenAI's own client, a module of its own", when: onChange, takes: time.Minute,
		command: []string{"scripts/test-openai"}, packages: []string{"./cmd/internal/openai"}, paths: []string{"cmd/interop/openai", "cmd/internal/server", "cmd/ferrumkv/serve*.go"}, tools: []string{"go"}},
	{name: "test-noasm", what: "the CPU backend and the cache on kernels in Go alone", when: onChange, takes: 40 * time.Second,
		command:  []string{"go", "test", "-count=1", "-timeout=20m", "-tags=noasm", "./backend/cpu", "./kvcache", "./kvcache/tier/memory", "./internal/crc32c", "./cmd/internal/product"},
		packages: []string{"./backend/cpu", "./kvcache", "./kvcache/tier/memory", "./internal/crc32c", "./cmd/internal/product"}, tags: "noasm", tools: []string{"go"}},
	{name: "test-arm64", what: "the CPU kernels for arm64, under an emulator where this machine is another", when: onChange, takes: 2 * time.Minute,
		command: []string{"scripts/test-arm64"}, packages: []string{"./backend/cpu", "./kvcache", "./kvcache/host", "./cmd/internal/product", "./cmd/internal/runner"}, tools: []string{"go", "qemu-aarch64-static"}, alone: apt},
	{name: "test-cuda-kernels", what: "the CUDA kernels and their stand-in, tested in C++", when: onChange, alone: cudaPlain, takes: 40 * time.Second,
		command: []string{"scripts/test-cuda-simt", "kernels"}, paths: simtCUDA, tools: cudaTools},
	{name: "test-cuda-seeds", what: "the CUDA backend under two orders of execution, from the bundle", when: onChange, alone: cudaPlain, takes: 4 * time.Minute,
		command: []string{"scripts/test-cuda-simt", "seeds"}, packages: []string{"./backend/cuda", "./backend/cuda/driver"},
		paths: append([]string{"scripts/run-cuda", "scripts/bundle-cuda"}, simtCUDA...), tools: cudaTools},
	{name: "test-cuda-asan", what: "the CUDA kernels and cgo code under AddressSanitizer", when: onChange, takes: 7 * time.Minute,
		command: []string{"scripts/test-cuda-simt", "asan"}, packages: []string{"./backend/cuda", "./backend/cuda/driver"}, paths: simtCUDA, tools: cudaTools},
	{name: "test-cuda-racecheck", what: "the CUDA kernels under ThreadSanitizer", when: onChange, takes: 10 * time.Minute,
		command: []string{"scripts/test-cuda-simt", "racecheck"}, packages: []string{"./backend/cuda"}, paths: simtCUDA, tools: cudaTools},
	{name: "test-metal-lint", what: "every Metal kernel, and the shim, as Apple's compiler would see them", when: onChange, alone: metalPlain, takes: 30 * time.Second,
		command: []string{"scripts/test-metal-simt", "lint"}, packages: []string{"./backend/internal/msl/flatten"},
		paths: append([]string{"scripts/lint-metal", "scripts/check-metal-syntax", "backend/metal/mtl"}, simtMetal...), tools: metalTools},
	{name: "test-metal-kernels", what: "the Metal kernels and their stand-in, tested in C++", when: onChange, alone: metalPlain, takes: 80 * time.Second,
		command: []string{"scripts/test-metal-simt", "kernels"}, paths: simtMetal, tools: metalTools},
	{name: "test-metal-seeds", what: "the Metal backend under two orders of execution", when: onChange, alone: metalPlain, takes: 4 * time.Minute,
		command: []string{"scripts/test-metal-simt", "seeds"}, packages: []string{"./backend/metal/..."}, tags: "metalsimt", paths: simtMetal, tools: metalTools},
	{name: "test-metal-asan", what: "the Metal kernels and the shim under AddressSanitizer", when: onChange, takes: 12 * time.Minute,
		command: []string{"scripts/test-metal-simt", "asan"}, packages: []string{"./backend/metal/..."}, tags: "metalsimt", paths: simtMetal, tools: metalTools},
	{name: "test-metal-racecheck", what: "the Metal kernels under ThreadSanitizer", when: onChange, takes: 12 * time.Minute,
		command: []string{"scripts/test-metal-simt", "racecheck"}, packages: []string{"./backend/metal"}, tags: "metalsimt", paths: simtMetal, tools: metalTools},
	{name: "kernels-check", what: "the compiled CUDA kernels' machine code, and our headers, against NVIDIA's toolkit", when: onChange, takes: 4 * time.Minute,
		command: []string{"scripts/check-kernels"}, packages: []string{"./scripts/kernels", "./backend/internal/abi/...", "./backend/cuda/driver"},
		paths: []string{"kernels/abi.h", "kernels/storage.h", "kernels/cuda", "kernels/simt/driver", "kernels/simt/core", "kernels/simt/simt.h", "kernels/simt/test/cuda/cuda_h.cpp", "kernels/simt/Makefile", "scripts/unpack-cuda-toolkit", "scripts/check-kernels"}, tools: []string{"go", "g++", "nvcc"}, alone: apt},

	{name: "test-cpu-full", what: "all tests on the CPU, with every combination of the conformance grid", when: atNight, takes: 4 * time.Minute,
		command: []string{"scripts/test-long"}, env: []string{"FERRUM_TEST_GRID=full"}},
	{name: "test-tiers", what: "tiers under the race detector: a million operations on three at once, every stored bit flipped", when: atNight, takes: 8 * time.Minute,
		command: []string{"scripts/test-race", "tiers"}},
	{name: "test-cuda-full", what: "what runs on a CUDA device, on the stand-in, with more of the grid and more histories", when: atNight, alone: cudaPlain, takes: 6 * time.Minute,
		command: []string{"scripts/test-cuda-simt", "test"}, env: []string{"FERRUM_TEST_GRID=full"}},
	{name: "test-metal-full", what: "what runs on a Metal device, on the stand-in, with more of the grid and more histories", when: atNight, alone: metalPlain, takes: 4 * time.Minute,
		command: []string{"scripts/test-metal-simt", "test"}, env: []string{"FERRUM_TEST_GRID=full"}},
	{name: "fuzz", what: "every fuzz target, a minute each", when: atNight, takes: 28 * time.Minute,
		command: []string{"scripts/fuzz"}, env: []string{"FUZZTIME=1m"}},
	{name: "bench", what: "every benchmark once, to see that it runs", when: atNight, takes: 10 * time.Minute,
		command: []string{"make", "bench", "bench-cpu", "BENCHTIME=1x"}},
	{name: "quality", what: "every figure of docs/quality.md, measured again", when: atNight, takes: 5 * time.Minute,
		command: []string{"make", "quality"}},
}
