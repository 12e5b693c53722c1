package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const printedPeers = `machine: Some Processor, 2 processors
ggml: 1.2.3 (abc)
BenchmarkPeers/8x8x128/keys=4096/queries=1/ggml/f16/contiguous/threads=1/kernels=avx512-2        1  1500000 ns/op  0 dirty  9 rounds
BenchmarkPeers/8x8x128/keys=4096/queries=1/onnx/f16/contiguous/threads=1/kernels=avx512-2        1  4000000 ns/op  0 dirty  9 rounds
BenchmarkPeers/8x2x128/keys=4096/queries=1/ferrumkv/f16/contiguous/threads=1/kernels=avx512-2    1  500000 ns/op  2.500 speed-of-ggml  1.250 speed-of-ggml-plain  0 dirty  9 rounds
BenchmarkPeers/8x8x128/keys=4096/queries=1/ferrumkv/f16/contiguous/threads=1/kernels=avx512-2    1  2000000 ns/op  0.7500 speed-of-ggml  2.000 speed-of-onnx  0 dirty  9 rounds
BenchmarkPeers/8x2x128/keys=512/queries=512/ferrumkv/f16/contiguous/threads=2/kernels=avx512-2   1  9000000 ns/op  1.100 speed-of-onnx  0 dirty  9 rounds
`

// Rows are sorted by the worst ratio, and sums have the range of it.
func TestPeers(t *testing.T) {
	r, err := parse(printedPeers)
	require.NoError(t, err)
	p := r.page()
	require.Equal(t, `| query heads × KV heads × dim | keys | queries | storage, layout | threads | time | ggml, flash attention | ggml, products and softmax | ONNX Runtime |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| 8 × 8 × 128 | 4096 | 1 | f16 contiguous | 1 | 2 ms | 0.75 | – | 2.00 |
| 8 × 2 × 128 | 512 | 512 | f16 contiguous | 2 | 9 ms | – | – | 1.10 |
| 8 × 2 × 128 | 4096 | 1 | f16 contiguous | 1 | 500 µs | 2.50 | 1.25 | – |
`, p.tables()["ratios"]())
	require.Equal(t, `| storage, layout | decode, a KV head for each query head | decode, groups | prompts |
| --- | --- | --- | --- |
| f16 contiguous | 0.75 to 0.75 | 1.25 to 1.25 | 1.10 to 1.10 |
`, p.tables()["sums"]())
	require.Contains(t, p.tables()["machine"](), "| ggml | 1.2.3 (abc) |")
}

// The document is what peers.txt says.
func TestDocumentOfPeers(t *testing.T) {
	folder := filepath.Join("..", "..", "..", "docs", "benchmarks")
	files, err := made(filepath.Join(folder, "peers.txt"))
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(folder, "peers.md"))
	require.NoError(t, err)
	require.Equal(t, files["peers.md"], string(got), "it is stale: go run ./cmd/internal/benchpage docs/benchmarks/peers.txt")
}
