package device

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// quantize is an append of one token to a cache of int8.
func (g *gpu) quantize(t testing.TB) func(s backend.Stream) error {
	rows := backend.Dense(g.allocOf(t, backend.F16, 64, 256, false))
	plane := func() backend.Plane[*buf] {
		return backend.Plane[*buf]{Data: g.allocOf(t, backend.Int8, 64, 512, false), Dim: 64, Scales: backend.Some(g.allocOf(t, backend.F32, 1, 1024, false))}
	}
	p := backend.AppendParams[*buf]{Tokens: 1, K: rows, V: rows, Slots: g.allocOf(t, backend.I64, 1, 2048, false),
		Cache: backend.CacheView[*buf]{K: plane(), V: plane(), Blocks: 1, KVHeads: 1, BlockSize: 1}}
	return func(s backend.Stream) error { return g.Append(s, &p) }
}

// What kernels found is reported by the next Sync of their stream, once.
func TestNonFiniteValuesAreReportedOnce(t *testing.T) {
	g := open()
	write, a, b := g.quantize(t), g.stream(t, "a"), g.stream(t, "b")
	require.NoError(t, a.Sync())
	require.Equal(t, []string{"drain a"}, g.log, "a stream that never quantizes has no status")
	a.status, b.status = ^uint32(0), ^uint32(0) // of memory as it comes
	require.NoError(t, write(a))
	require.NoError(t, write(a))
	require.NoError(t, write(b))
	require.Equal(t, []string{"drain a", "status a", "fkv_append_quant_f16", "fkv_append_quant_f16", "status b", "fkv_append_quant_f16"}, g.log)
	for bits, what := range map[uint32]string{abi.Keys: "a key", abi.Values: "a value", abi.Keys | abi.Values: "a key (and a value)"} {
		a.status = bits
		err := a.Sync()
		require.ErrorIs(t, err, backend.ErrNonFinite{})
		require.ErrorContains(t, err, "backend: sync: "+what+" of an earlier append or conversion is not finite")
		require.NoError(t, a.Sync())
		require.NoError(t, b.Sync(), "nothing of its own")
	}

	a.status = abi.Keys
	g.fail["drain a"] = refusal{errors.New("busy")}
	require.EqualError(t, a.Sync(), "test:0: sync: refused: busy", "not all is done")
	delete(g.fail, "drain a")
	require.ErrorIs(t, a.Sync(), backend.ErrNonFinite{})

	a.status = abi.Keys
	require.NoError(t, a.Close(), "which nobody asked Sync about")
	require.NoError(t, g.close())
}

// Without a status nothing is enqueued, and the next attempt makes one.
func TestStatusThatCannotBeHad(t *testing.T) {
	g := open()
	write, s := g.quantize(t), g.stream(t, "a")
	g.fail["status a"] = refusal{backend.ErrOutOfMemory{}}
	err := write(s)
	require.ErrorIs(t, err, backend.ErrOutOfMemory{})
	require.ErrorContains(t, err, "test:0: append: refused: ")
	require.NoError(t, s.Sync())
	require.Equal(t, []string{"status a", "drain a"}, g.log)
	delete(g.fail, "status a")
	require.NoError(t, write(s))
	require.Equal(t, []string{"status a", "drain a", "status a", "fkv_append_quant_f16"}, g.log)
	require.NoError(t, g.close())
}
