package snapshot

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkCodings writes and reads chunks of 256 KiB, of bf16 rows that are drawn from a normal distribution: what a model's rows save may
// be more or less.
func BenchmarkCodings(b *testing.B) {
	rows := make([]byte, 256<<10)
	for i := 0; i < len(rows); i += 2 {
		le.PutUint16(rows[i:], uint16(math.Float32bits(float32(rand.NormFloat64()))>>16))
	}
	const n = 64
	h := oneChunk(len(rows))
	h.Sequences[0].Strips = [][]Run{nil}
	all := make([]Chunk, n)
	for i := range all {
		q := h.Sequences[0]
		q.Strips = [][]Run{{{0, []Ref{{i, 1}}}}}
		h.Sequences = append(h.Sequences, q)
		all[i] = Chunk{Number: i, Tokens: 1, Rows: rows}
	}
	h.Sequences = h.Sequences[1:]
	for name, o := range map[string]Options{"clear": codings[0], "zstd": codings[1], "sealed": codings[2], "zstd-sealed": codings[3]} {
		stream := rewritten(b, h, all, o)
		b.Run(name+"/write", func(b *testing.B) {
			b.SetBytes(n * int64(len(rows)))
			b.ReportAllocs()
			for b.Loop() {
				w := NewWriter(io.Discard, o)
				require.NoError(b, w.Head(h))
				for _, c := range all {
					require.NoError(b, w.Chunk(c.Strip, c.Tokens, c.Rows))
				}
				require.NoError(b, w.Close())
			}
			b.ReportMetric(float64(len(stream))/float64(n*len(rows)), "stored/byte")
		})
		b.Run(name+"/read", func(b *testing.B) {
			b.SetBytes(n * int64(len(rows)))
			b.ReportAllocs()
			for b.Loop() {
				r := NewReader(bytes.NewReader(stream), o)
				_, err := r.Head()
				for err == nil {
					_, err = r.Chunk()
				}
				require.ErrorIs(b, err, io.EOF)
			}
		})
	}
}
