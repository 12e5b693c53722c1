package gputest

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// all enqueues every operation of the step, and a fill and a copy beside them.
func (c *step[B]) all() error {
	half := c.merge.Out.Buf.Len() / 2
	err := c.be.Fill(c.s, c.gather.K.Buf, 0, 10, 3)
	for _, o := range c.operations() {
		if err == nil {
			err = o.do()
		}
	}
	if err != nil {
		return err
	}
	return c.be.Copy(c.s, c.merge.Out.Buf, 0, c.merge.Out.Buf, half, half)
}

// next uploads what is new in the n-th step of a model: activations, and where the tokens
// and the contexts lie. The plan has as many items in every step.
func (c *step[B]) next(t testing.TB, n uint64) {
	rng := rand.New(rand.NewPCG(n, 7))
	for _, b := range []B{c.append.K.Buf, c.append.V.Buf, c.append.Q.Buf, c.convert.From.K.Data, c.convert.From.V.Data} {
		row := make([]uint16, b.Len())
		for i := range row {
			row[i] = quant.F16(float32(rng.NormFloat64()))
		}
		require.NoError(t, backend.Upload(c.be, c.s, b, 0, row))
	}
	rope := make([]float32, c.append.Rotary.Table.Buf.Len())
	for i := range rope {
		rope[i] = rng.Float32()
	}
	require.NoError(t, backend.Upload(c.be, c.s, c.append.Rotary.Table.Buf, 0, rope))
	shape := c.shape
	shape.ContextLens = slices.Clone(shape.ContextLens)
	var slots []int64
	var positions, table []uint32
	for i, slot := range rng.Perm(stepBlocks * stepBlock)[:stepSeqs] {
		slots = append(slots, int64(slot))
		positions = append(positions, rng.Uint32N(100))
		shape.ContextLens[i] = 1 + rng.Uint32N(64)
		for range c.attend.Batch.TableStride {
			table = append(table, rng.Uint32N(stepBlocks))
		}
	}
	plan, err := c.be.PlanAttend(shape)
	require.NoError(t, err)
	require.Equal(t, []int{c.attend.Plan.Items, c.attend.Plan.Parts, len(c.attend.Plan.Work)}, []int{plan.Items, plan.Parts, len(plan.Work)})
	require.NoError(t, backend.Upload(c.be, c.s, c.append.Slots, 0, slots))
	require.NoError(t, backend.Upload(c.be, c.s, c.append.Positions.Buf, 0, positions))
	require.NoError(t, backend.Upload(c.be, c.s, c.attend.Batch.ContextLens, 0, shape.ContextLens))
	require.NoError(t, backend.Upload(c.be, c.s, c.attend.Batch.Table.Buf, 0, table))
	require.NoError(t, backend.Upload(c.be, c.s, c.attend.Work.Buf, 0, plan.Work))
	require.NoError(t, backend.Upload(c.be, c.s, c.rotate.Deltas, 0, []int32{rng.Int32N(99)}))
}

// written is all that the operations write.
func (c *step[B]) written() []B {
	out := []B{c.append.Q.Buf, c.attend.Out.Rows.Buf, c.attend.Out.LSE.Buf, c.merge.Out.Buf, c.gather.K.Buf, c.gather.V.Buf}
	for _, p := range []backend.Plane[B]{c.append.Cache.K, c.append.Cache.V, c.convert.To.K, c.convert.To.V} {
		if out = append(out, p.Data); p.Scales.Set {
			out = append(out, p.Scales.Buf)
		}
	}
	return out
}

// A step that was captured once leaves the same bits as the operations do, in
// every step of a model, also in its erased form.
func testReplay[B launch.Buffer](t *testing.T, d *Device[B]) {
	be := d.open(t)
	for _, f := range []backend.Format{launch.Formats[0], {Act: backend.F16, K: backend.Int8, V: backend.Int4}} {
		t.Run(f.K.String(), func(t *testing.T) { replay(t, be, f) })
		t.Run(f.K.String()+" erased", func(t *testing.T) { replay(t, backend.Erase(be), f) })
	}
}

func replay[B backend.Buffer](t *testing.T, be backend.Backend[B], f backend.Format) {
	eager, repeated := newStep(t, be, f), newStep(t, be, f)
	g, err := backend.Capture(be, repeated.s, repeated.all)
	require.NoError(t, err)
	for n := range uint64(4) {
		eager.next(t, n)
		repeated.next(t, n)
		require.NoError(t, eager.all())
		require.NoError(t, g.Launch())
		want, got := eager.written(), repeated.written()
		for i := range want {
			require.Equal(t, content(t, be, eager.s, want[i]), content(t, be, repeated.s, got[i]), "buffer %d after step %d", i, n)
		}
		if n == 1 { // two at once
			require.NoError(t, eager.all())
			require.NoError(t, g.Launch())
		}
	}
	require.NoError(t, eager.s.Sync())
	require.NoError(t, repeated.s.Sync())
	require.NoError(t, g.Close())
}
