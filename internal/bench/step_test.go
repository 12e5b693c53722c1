package bench

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

func TestPlaceOfALayer(t *testing.T) {
	l := layer{llama, backend.Int4, 64, 16}
	require.Equal(t, 2*(64*llama.width()/2+4*64*llama.kv*llama.dim/32), l.bytes())
	require.Zero(t, l.place()%page)
	require.GreaterOrEqual(t, l.place(), l.bytes())
	require.Equal(t, "paged16", l.layout())
	require.Equal(t, "contiguous", layer{llama, backend.F16, 64, 64}.layout())
}

// A query sees the keys up to its own, and 4 operations are for each of their elements.
func TestWorkOfAStep(t *testing.T) {
	prompt := step{what: "prefill", act: backend.F16, stored: backend.F16, heads: llama, batch: 2, context: 5, queries: 3}
	require.EqualValues(t, 4*2*(3+4+5)*llama.query*llama.dim, prompt.cpuWork().amount())
	require.Equal(t, multiplying, prompt.cpuWork().bound)
	decode := step{what: "decode", act: backend.F32, stored: backend.F32, heads: llama, batch: 2, context: 5, queries: 1}
	require.EqualValues(t, 2*2*5*llama.width()*4, decode.cpuWork().amount())
	require.Equal(t, reading, decode.cpuWork().bound)
	require.EqualValues(t, 2, decode.cpuWork().flops/decode.cpuWork().bytes)
}

func TestSlotsAreOfShuffledBlocks(t *testing.T) {
	slots := layer{llama, backend.F16, 5 * blockSize, blockSize}.order()
	for i, slot := range slots {
		require.Equal(t, slots[i/blockSize*blockSize]+int64(i%blockSize), slot)
	}
	require.False(t, slices.IsSorted(slots))
	slices.Sort(slots)
	require.Len(t, slices.Compact(slots), 5*blockSize)
	require.Zero(t, slots[0])
	require.EqualValues(t, 5*blockSize-1, slots[len(slots)-1])
}

// Sequences have their first blocks in common, and no others.
func TestTable(t *testing.T) {
	table := step{block: 16, batch: 3, context: 64, shared: 32}.table()
	require.Len(t, table, 3*4)
	for i := 4; i < len(table); i += 4 {
		require.Equal(t, table[:2], table[i:i+2])
	}
	slices.Sort(table)
	require.Equal(t, []uint32{0, 1, 2, 3, 4, 5, 6, 7}, slices.Compact(table))
	require.Len(t, slices.Compact(step{batch: 3, context: 64}.table()), 3, "one block a sequence")
}

// A context may end within a block: what is after it is nobody's.
func TestPlacesEndWithTheContext(t *testing.T) {
	s := step{stored: backend.F16, heads: llama, block: 16, batch: 2, context: 20}
	require.Equal(t, 4*16, s.layer().slots)
	table, places := s.table(), s.places()
	require.Len(t, table, 4)
	require.Len(t, places, 2*20)
	for i, place := range places {
		sequence, token := i/20, i%20
		require.EqualValues(t, int(table[2*sequence+token/16])*16+token%16, place)
	}
}
