package gputest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// What kernels cannot do is an error before anything is launched.
func testOperands[B launch.Buffer](t *testing.T, d *Device[B]) {
	be := d.open(t)
	c := newStep(t, be, launch.Formats[0])
	shape := func(err error, words string) {
		require.ErrorIs(t, err, backend.ErrArgument{})
		require.ErrorContains(t, err, words)
	}
	// imported wraps a buffer from a byte within it on.
	imported := func(b B, offset, n int) B {
		h, err := be.Handle(b)
		require.NoError(t, err)
		out, err := be.Import(d.Within(h, offset), b.DType(), n)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, be.Free(out)) })
		return out
	}

	p := c.attend
	p.Q.Buf = imported(p.Q.Buf, 2, p.Q.Buf.Len()-1)
	p.Batch.Seqs, p.Batch.Tokens = stepSeqs-1, stepSeqs-1
	s := c.shape
	s.ContextLens, s.QueryLens, s.Work = s.ContextLens[1:], s.QueryLens[1:], nil
	var err error
	p.Plan, err = be.PlanAttend(s)
	require.NoError(t, err)
	shape(be.Attend(c.s, p), "q: address")

	p = c.attend
	p.Out.Rows.Stride = c.shape.QHeads*stepDim + 4
	big, err := be.Alloc(backend.F16, stepSeqs*p.Out.Rows.Stride)
	require.NoError(t, err)
	defer func() { require.NoError(t, be.Free(big)) }()
	p.Out.Rows.Buf = big
	shape(be.Attend(c.s, p), "out: address")

	p = c.attend
	p.Cache.Blocks--
	p.Cache.K.Data = imported(p.Cache.K.Data, 8, p.Cache.K.Data.Len()-4)
	shape(be.Attend(c.s, p), "keys: address")
	copied := c.copy
	copied.From = p.Cache
	shape(be.CopyBlocks(c.s, copied), "keys: address")
	copied = c.copy
	copied.To = p.Cache
	shape(be.CopyBlocks(c.s, copied), "keys: address")

	p = c.attend
	p.Plan.Work = p.Plan.Work[:len(p.Plan.Work)-1]
	shape(be.Attend(c.s, p), "plan: its work has")
	p.Plan.Work = nil
	shape(be.Attend(c.s, p), "call PlanAttend")

	s = c.shape
	s.QHeads, s.KVHeads = launch.MaxGridY+1, launch.MaxGridY+1
	_, err = be.PlanAttend(s)
	require.ErrorIs(t, err, backend.ErrUnsupported{})
	require.NoError(t, c.s.Sync())
}
