package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const printedCPU = `machine: Some Processor, 2 processors
date: 1 May 2026
goos: linux
cpu: Some Processor
BenchmarkCPU/limit/read/threads=1/kernels=avx512-2    1  100 ns/op  10.00 GB/s  0 dirty  9 rounds
BenchmarkCPU/limit/fma/threads=1/kernels=avx512-2     1  100 ns/op  160.0 GFLOP/s  0 dirty  9 rounds
BenchmarkCPU/limit/read/threads=2/kernels=avx512-2    1  100 ns/op  18.00 GB/s  0 dirty  9 rounds
BenchmarkCPU/limit/read/threads=1/kernels=avx2-2      1  100 ns/op  9.000 GB/s  0 dirty  9 rounds
BenchmarkCPU/decode/f16/contiguous/batch=1/context=8192/queries=1/threads=1/kernels=avx512-2   1  100 ns/op  9.100 GB/s  4.000 flop/B  0.9100 of-limit  0 dirty  9 rounds
BenchmarkCPU/decode/f16/contiguous/batch=1/context=8192/queries=1/threads=2/kernels=avx512-2   1  100 ns/op  15.00 GB/s  4.000 flop/B  0.8300 of-limit  4 dirty  9 rounds
BenchmarkCPU/decode/f16/contiguous/batch=1/context=8192/queries=1/threads=1/kernels=avx2-2     1  100 ns/op  8.000 GB/s  4.000 flop/B  0.8000 of-limit  0.8791 speed-of-avx512  0 dirty  9 rounds
BenchmarkCPU/decode/int8/contiguous/batch=1/context=8192/queries=1/threads=1/kernels=avx512-2  1  100 ns/op  7.000 GB/s  8.000 flop/B  0.7000 of-limit  1.540 speed-of-f16  0 dirty  9 rounds
BenchmarkCPU/decode/f16+mass/contiguous/batch=1/context=8192/queries=1/threads=1/kernels=avx512-2  1  100 ns/op  8.000 GB/s  4.000 flop/B  0.8000 of-limit  0.8000 speed-of-plain  0 dirty  9 rounds
BenchmarkCPU/shapes/8x1x128/f16/contiguous/batch=1/context=8192/queries=1/threads=1/kernels=avx512-2  1  100 ns/op  12.00 GB/s  8.000 flop/B  0.4000 of-limit  0 dirty  9 rounds
BenchmarkCPU/latents/heads=16/f16/paged16/batch=1/context=8192/queries=1/threads=2/kernels=avx512-2  1  100 ns/op  90.00 GFLOP/s  8.000 flop/B  0.4500 of-limit  0 dirty  9 rounds
BenchmarkCPU/lone/32x8x128/f16/paged16/batch=1/context=256/queries=1/threads=1/kernels=avx512-2  1  64000 ns/op  12.00 GB/s  8.000 flop/B  0.4000 of-limit  0 dirty  9 rounds
BenchmarkCPU/lone/32x8x128/f16/paged16/batch=1/context=256/queries=1/threads=2/kernels=avx512-2  1  40000 ns/op  12.00 GB/s  8.000 flop/B  0.4000 of-limit  0 dirty  9 rounds  1.600 speed-of-one
BenchmarkCPU/prefill/f16/contiguous/batch=1/context=2048/queries=2048/threads=1/kernels=avx512-2  1  100 ns/op  80.00 GFLOP/s  4098 flop/B  0.5000 of-limit  0 dirty  9 rounds
BenchmarkCPU/append/f16-f16/paged16/tokens=8192/threads=1/kernels=avx512-2  1  100 ns/op  12.00 GB/s  0.8500 of-limit  0 dirty  9 rounds
BenchmarkCPU/dispatch/smallest/threads=1/kernels=avx512-2  1  750.0 ns/op  0 dirty  9 rounds
PASS
`

// filled is a document of one table.
func filled(t *testing.T, table string) string {
	r, err := parse(printedCPU)
	require.NoError(t, err)
	text, err := fill("before\n<!-- "+table+" -->\nold\n<!-- end -->\nbehind", r.page().tables())
	require.NoError(t, err)
	body, ok := strings.CutPrefix(text, "before\n<!-- "+table+" -->\n")
	require.True(t, ok, text)
	body, ok = strings.CutSuffix(body, "<!-- end -->\nbehind")
	require.True(t, ok, text)
	return body
}

func TestTables(t *testing.T) {
	for table, want := range map[string]string{
		"machine": `|  |  |
| --- | --- |
| machine | Some Processor, 2 processors |
| date | 1 May 2026 |
`,
		"limits": `|  | 1 thread, avx512 | 1 thread, avx2 | 2 threads, avx512 | 2 threads, avx2 |
| --- | --- | --- | --- | --- |
| read | 10 GB/s | 9 GB/s | 18 GB/s |  |
| fma | 160 GFLOP/s |  |  |  |
`,
		"decode": `| storage, layout | 1 thread: 1 × 8192 | 2 threads: 1 × 8192 |
| --- | --- | --- |
| f16 contiguous | 0.91 | 0.83 (!) |
| int8 contiguous | 0.70 (1.54×) |  |
`,
		"mass": `| storage, layout | 1 thread: 1 × 8192 | 2 threads: 1 × 8192 |
| --- | --- | --- |
| f16+mass contiguous | +25 % |  |
`,
		"shapes": `| query heads × KV heads × dim, storage, layout | 1 thread | 2 threads |
| --- | --- | --- |
| 8x1x128 f16 contiguous | 12 GB/s, 0.40 |  |
`,
		"latents": `| query heads, storage, layout | 1 thread | 2 threads |
| --- | --- | --- |
| heads 16 f16 paged16 |  | 90 GFLOP/s, 0.45 |
`,
		"lone": `| layer, storage, layout | 256 keys |
| --- | --- |
| 32x8x128 f16 paged16 | 40 µs (1.60×) |
`,
		"prefill": `| storage, layout, prompt | 1 thread | 2 threads |
| --- | --- | --- |
| f16 contiguous batch 1 context 2048 queries 2048 | 80 GFLOP/s, 0.50 |  |
`,
		"moves": `| operation | 1 thread | 2 threads |
| --- | --- | --- |
| append f16-f16 paged16 tokens 8192 | 12 GB/s, 0.85 |  |
`,
		"kernels": `| storage, layout, step | avx512 | avx2 |
| --- | --- | --- |
| f16 contiguous batch 1 context 8192 queries 1 | 9.1 GB/s | 8 GB/s, 0.88× |
`,
		"dispatch": `|  | 1 thread | 2 threads |
| --- | --- | --- |
| smallest | 0.75 µs |  |
`,
	} {
		t.Run(table, func(t *testing.T) { require.Equal(t, want, filled(t, table)) })
	}
	aims := filled(t, "aims")
	require.Contains(t, aims, "| f16 and bf16, contiguous, one thread: of the read limit | ≥ 0.90 | 0.91 | 0.91 | 0.91 |\n")
	require.Contains(t, aims, "| smallest layer, append and attention | ≤ 1000 ns | 750 ns | 750 ns | 750 ns |\n")
	require.Contains(t, aims, "| int4, one thread | ≥ 1.25 | – | – | – |\n", "was not measured")
}

func TestRoofline(t *testing.T) {
	r, err := parse(printedCPU)
	require.NoError(t, err)
	plot := newCPU(r).roofline("1")
	require.Equal(t, 2+1, strings.Count(plot, "<title>"), "f16, int8 and a prompt")
	require.Contains(t, plot, "reading memory: 10 GB/s")
	require.Contains(t, plot, "multiplying: 160 GFLOP/s")
	require.Contains(t, plot, "36.4 GFLOP/s, 0.91 of its limit")
	require.Empty(t, newCPU(r).roofline("2"), "no limit of multiplying")
}

func TestWhatCannotBeRead(t *testing.T) {
	_, err := parse("PASS\n")
	require.ErrorContains(t, err, "no results")
	_, err = parse("BenchmarkCPU/limit/read/threads=1/kernels=go 1 fast ns/op\n")
	require.ErrorContains(t, err, "fast")
	_, err = parse("BenchmarkCPU/limit/read 1 2\n")
	require.ErrorContains(t, err, "units")
	_, err = parse("BenchmarkCPU/limit/read 1 2 GB/s\nBenchmarkKernels/limit/read 1 2 GB/s\n")
	require.ErrorContains(t, err, "both")
	r, err := parse(printedCPU)
	require.NoError(t, err)
	for _, text := range []string{"<!-- nonsense -->\n<!-- end -->", "<!-- decode -->\n"} {
		_, err = fill(text, r.page().tables())
		require.ErrorContains(t, err, "no table")
	}
}

// The document and its plots are what cpu.txt says.
func TestDocument(t *testing.T) {
	folder := filepath.Join("..", "..", "..", "docs", "benchmarks")
	results := filepath.Join(folder, "cpu.txt")
	if _, err := os.Stat(results); err != nil {
		t.Skipf("no results to compare with: %v", err)
	}
	printed, err := os.ReadFile(results)
	require.NoError(t, err)
	require.NotContains(t, string(printed), "\nshort: ", "figures of a short run mean nothing")
	files, err := made(results)
	require.NoError(t, err)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%s is stale: go run ./cmd/internal/benchpage docs/benchmarks/cpu.txt", name)
	}
}

// Every table of the document is one that there is, and the other way round.
func TestDocumentHasAllTables(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "benchmarks", "cpu.md"))
	require.NoError(t, err)
	for name := range (cpu{}).tables() {
		require.Contains(t, string(text), "<!-- "+name+" -->\n")
	}
}
