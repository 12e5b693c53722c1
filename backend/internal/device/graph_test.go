package device

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// tape captures a queue; what it has made writes down its launches.
type tape struct{ s *queue }

func (r tape) Begin() error { return r.s.gpu.did("begin " + r.s.name) }

func (r tape) End(keep bool) (Exec, error) {
	if !keep {
		return nil, r.s.gpu.did("drop " + r.s.name)
	}
	return played(r), r.s.gpu.did("end " + r.s.name)
}

type played struct{ s *queue }

func (p played) Launch() error  { return p.s.gpu.did("launch " + p.s.name) }
func (p played) Destroy() error { return p.s.gpu.did("destroy graph of " + p.s.name) }

func (g *gpu) capture(s backend.Stream, record func() error) (backend.Graph, error) {
	return g.Capture(s, record, func(s *queue) Recorder { return tape{s} })
}

// captured is a graph of one fill.
func (g *gpu) captured(t testing.TB, s *queue, b *buf) backend.Graph {
	graph, err := g.capture(s, func() error { return g.fill(s, b) })
	require.NoError(t, err)
	return graph
}

// The status is there before the capture begins, and a graph ends after its stream's work
// and before its stream.
func TestGraphEndsInOrder(t *testing.T) {
	g := open()
	s, b := g.stream(t, "a"), g.alloc(t, 256, false)
	graph, other := g.captured(t, s, b), g.captured(t, s, b)
	require.Equal(t, []string{"status a", "begin a", "end a", "begin a", "end a"}, g.log)
	g.log = nil
	require.NoError(t, graph.Launch())
	require.NoError(t, graph.Close())
	require.Equal(t, []string{"launch a", "drain a", "destroy graph of a"}, g.log)
	g.log = nil
	require.NoError(t, s.Close())
	require.Equal(t, []string{"drain a", "destroy graph of a", "destroy a"}, g.log)
	for _, graph := range []backend.Graph{graph, other} {
		require.ErrorIs(t, graph.Launch(), backend.ErrClosed)
		require.ErrorIs(t, graph.Close(), backend.ErrClosed)
	}

	s = g.stream(t, "b")
	graph = g.captured(t, s, b)
	g.log = nil
	_, err := g.capture(s, g.close)
	require.ErrorIs(t, err, backend.ErrClosed)
	require.Equal(t, []string{"begin b", "drop b", "drain b", "destroy graph of b", "destroy b", "release 256", "kernels", "context"}, g.log)
	require.EqualError(t, graph.Launch(), "test:0: launch graph: device "+backend.ErrClosed.Error())
}

// A graph that does not come about leaves a stream that is not captured.
func TestFailedCaptures(t *testing.T) {
	g := open()
	s, b := g.stream(t, "a"), g.alloc(t, 256, false)
	busy := refusal{errors.New("busy")}
	for _, call := range []string{"status a", "begin a", "end a"} {
		g.fail[call] = busy
		graph, err := g.capture(s, func() error { return g.fill(s, b) })
		require.EqualError(t, err, "test:0: capture: refused: busy", call)
		require.Nil(t, graph)
		delete(g.fail, call)
		require.NoError(t, s.Sync(), call)
		require.Empty(t, g.graphs)
		require.Empty(t, g.captures)
	}
	g.fail["drop a"] = busy
	enough := errors.New("enough")
	require.Equal(t, enough, second(g.capture(s, func() error { return enough })), "the first error")
	delete(g.fail, "drop a")
	require.ErrorIs(t, second(g.capture(s, func() error { return errors.Join(g.fill(s, b), g.free(b)) })), backend.ErrFreed)
	require.Panics(t, func() { _, _ = g.capture(s, func() error { panic("away") }) })
	require.NoError(t, s.Sync())
	require.Empty(t, g.graphs)

	graph := g.captured(t, s, g.alloc(t, 512, false))
	g.fail["drain a"] = busy
	require.EqualError(t, graph.Close(), "test:0: close graph: refused: busy")
	delete(g.fail, "drain a")
	require.NoError(t, graph.Launch(), "it is still there")
	g.fail["launch a"] = refusal{backend.ErrLost}
	require.ErrorIs(t, graph.Launch(), backend.ErrLost)
	require.ErrorIs(t, graph.Close(), backend.ErrLost)
	g.log = nil
	require.NoError(t, g.close())
	require.Contains(t, g.log, "destroy graph of a")
}

// Every operand that passes the checks is one of the graph's, under its name there.
func TestGraphKnowsItsBuffers(t *testing.T) {
	g := open()
	s, other := g.stream(t, "a"), g.stream(t, "b")
	in, lse, out, beside := g.alloc(t, 256, false), g.alloc(t, 512, false), g.alloc(t, 1024, true), g.alloc(t, 2048, false)
	merge := backend.MergeParams[*buf]{Parts: 1, Tokens: 1, Heads: 1, Dim: 8, In: in, LSE: lse, Out: backend.Dense(out)}
	var graphs []backend.Graph
	for range 3 {
		graph, err := g.capture(s, func() error { return errors.Join(g.Merge(s, &merge), g.fill(other, beside)) })
		require.NoError(t, err)
		graphs = append(graphs, graph)
	}
	require.NoError(t, g.free(beside), "of another stream")
	require.NoError(t, graphs[0].Close())
	require.NoError(t, graphs[1].Launch())
	require.NoError(t, g.free(out))
	for _, graph := range graphs[1:] {
		require.EqualError(t, graph.Launch(), "test:0: launch graph: out of its merge: "+backend.ErrFreed.Error())
	}
	require.ErrorIs(t, graphs[0].Launch(), backend.ErrClosed)
	require.NoError(t, g.close())
}

// A call that the device knows is noted in a graph as any other, and one that a graph has noted
// is refused when its buffer is freed.
func TestKnownCallsAreNotedInGraphs(t *testing.T) {
	g := open()
	s := g.stream(t, "a")
	f16 := func(n int) *buf { return g.allocOf(t, backend.F16, n, 256, true) }
	plane := func() backend.Plane[*buf] { return backend.Plane[*buf]{Data: f16(64), Dim: 64} }
	p := backend.AppendParams[*buf]{Cache: backend.CacheView[*buf]{Blocks: 1, KVHeads: 1, BlockSize: 1, K: plane(), V: plane()},
		Tokens: 1, K: backend.Dense(f16(64)), V: backend.Dense(f16(64)), Slots: g.allocOf(t, backend.I64, 1, 256, true)}
	for range 2 {
		require.NoError(t, g.Append(s, &p))
	}
	require.True(t, g.known.HasAppend(&p))
	graph, err := g.capture(s, func() error { return g.Append(s, &p) })
	require.NoError(t, err)
	require.NoError(t, g.free(p.V.Buf))
	require.EqualError(t, graph.Launch(), "test:0: launch graph: v of its append: "+backend.ErrFreed.Error())
	require.EqualError(t, g.Append(s, &p), "test:0: append: v: "+backend.ErrFreed.Error())
	require.NoError(t, g.close())
}
