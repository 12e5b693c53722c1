package host

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/testutil/beside"
)

// benchTokens rows of 8 heads of 128 are 4 MiB of float32.
const benchTokens, benchDim = 1024, 8 * 128

// benchCache is a cache with those rows, and the rows.
func benchCache(b *testing.B) (*PagedKvCache[float32], []float32) {
	c, err := NewPagedKvCache[float32](benchTokens, benchDim)
	require.NoError(b, err)
	rows := make([]float32, benchTokens*benchDim)
	for i := range rows {
		rows[i] = float32(i)
	}
	require.NoError(b, c.AppendTensor(Tensor[float32]{Data: rows, Rows: benchTokens, Cols: benchDim}))
	return c, rows
}

// BenchmarkPagedAppend appends tokens one by one, beside a copy of their rows one by one.
func BenchmarkPagedAppend(b *testing.B) {
	c, rows := benchCache(b)
	flat := make([]float32, len(rows))
	beside.Limit(b, "of-copy", func() {
		c.Clear()
		for rest := rows; len(rest) > 0; rest = rest[benchDim:] {
			if err := c.Append(rest[:benchDim]); err != nil {
				b.Fatal(err)
			}
		}
	}, func() {
		for at := 0; at < len(rows); at += benchDim {
			copy(flat[at:at+benchDim], rows[at:])
		}
	})
}

// BenchmarkPagedAppendTensor appends them at once.
func BenchmarkPagedAppendTensor(b *testing.B) {
	c, rows := benchCache(b)
	flat := make([]float32, len(rows))
	beside.Limit(b, "of-copy", func() {
		c.Clear()
		if err := c.AppendTensor(Tensor[float32]{Data: rows, Rows: benchTokens, Cols: benchDim}); err != nil {
			b.Fatal(err)
		}
	}, func() { copy(flat, rows) })
}

// BenchmarkPagedAsTensor reads all tokens into new memory, beside a clone of their rows.
func BenchmarkPagedAsTensor(b *testing.B) {
	c, rows := benchCache(b)
	var read Tensor[float32]
	var flat []float32
	beside.Limit(b, "of-copy", func() { read = c.AsTensor() }, func() { flat = slices.Clone(rows) })
	require.Equal(b, flat, read.Data)
}

// BenchmarkPagedCloneAppend is a fork of 1023 tokens that writes one: the price of sharing is the copy of a block of which 15 tokens are
// in use.
func BenchmarkPagedCloneAppend(b *testing.B) {
	s, err := NewBlockStore[float32](2*benchTokens/16, 16, benchDim)
	require.NoError(b, err)
	c, err := s.NewCache(benchTokens)
	require.NoError(b, err)
	_, rows := benchCache(b)
	require.NoError(b, c.AppendTensor(Tensor[float32]{Data: rows[benchDim:], Rows: benchTokens - 1, Cols: benchDim}))
	flat := make([]float32, 16*benchDim)
	const forks = 100
	beside.Limit(b, "of-copy", func() {
		for range forks {
			f, err := c.Clone()
			if err != nil {
				b.Fatal(err)
			}
			if err := f.Append(rows[:benchDim]); err != nil {
				b.Fatal(err)
			}
			f.Release()
		}
	}, func() {
		for range forks {
			copy(flat, rows)
		}
	})
}
