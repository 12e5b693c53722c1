package kvcache

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
	"github.com/stretchr/testify/require"
)

// testT is what testing.T, testing.B and rapid.T have in common.
type testT interface {
	require.TestingT
	Helper()
}

// rig is a pool with everything a test needs to write tokens and read them back.
type rig[B backend.Buffer] struct {
	t    testT
	be   backend.Backend[B]
	s    backend.Stream
	pool *Pool[B]
	step *Batch[B]
}

// small is a configuration in which a few tokens fill blocks, of a head size that
// the test device computes.
func small(layout Layout) Config {
	dims := testDims()
	c := Config{
		Model:   Model{Layers: 2, QHeads: 4, KVHeads: 2, HeadDim: dims[0], VHeadDim: dims[1], RoPE: &backend.RoPE{}},
		Storage: Storage{K: backend.F32},
		Memory:  Memory{Layout: layout, Capacity: 40, MaxSeqs: 4},
	}
	if layout == Paged {
		c.Memory.BlockSize = 4
	}
	return c
}

func newRig[B backend.Buffer](t testT, be backend.Backend[B], cfg Config) *rig[B] {
	t.Helper()
	s, err := be.NewStream()
	require.NoError(t, err)
	pool, err := NewPool(be, cfg)
	require.NoError(t, err)
	return &rig[B]{t: t, be: be, s: s, pool: pool, step: pool.NewBatch()}
}

// deviceRig is a rig on the test device, closed by the caller.
func deviceRig(t testT, cfg Config) *rig[buffer] {
	t.Helper()
	return newRig(t, openDevice(t), cfg)
}

// close checks that nothing is held and that the device has nothing left.
func (r *rig[B]) close() {
	r.t.Helper()
	require.NoError(r.t, r.s.Sync()) // until then blocks of released sequences are held
	require.NoError(r.t, r.pool.Flush(context.Background()))
	require.NoError(r.t, r.pool.Check())
	st, err := r.pool.Stats()
	for ; st.Moves.Loading > 0; st, err = r.pool.Stats() { // what was dropped has blocks until its copy to the device ends
		time.Sleep(time.Millisecond)
	}
	require.NoError(r.t, err)
	require.Zero(r.t, st.Held, "blocks leaked")
	require.Zero(r.t, st.Logical)
	require.Equal(r.t, st.Blocks, st.Free+st.Cached)
	if r.pool.parts.All[0].Residual() {
		require.Zero(r.t, r.pool.parts.All[0].Written.Stats().Held+r.pool.parts.All[0].Written.Logical, "recent blocks leaked")
	}
	require.NoError(r.t, r.pool.Close())
	require.Zero(r.t, r.be.Info().Buffers, "device memory leaked")
	require.NoError(r.t, r.s.Close())
	require.NoError(r.t, r.be.Close())
}

// poison makes what a query reads NaN where no step has written it: keys and values that are floats, and scales of
// their own. Codes with a factor of their head stay as they are.
func (r *rig[B]) poison() {
	r.t.Helper()
	for _, st := range r.pool.parts.All {
		for _, s := range []*store.Store[B]{st.Kept, st.Written} { // the same one, but with Residual
			for _, l := range s.Layers {
				for _, p := range []backend.Plane[B]{l.View.K, l.View.V} {
					switch dt := p.Data.DType(); {
					case dt.Float():
						require.NoError(r.t, r.be.Fill(r.s, p.Data, 0, p.Data.Len(), math.NaN()))
					case !dt.Quantized() || dt.HeadFactors():
					case p.Scales.Buf.DType() == backend.F32:
						require.NoError(r.t, r.be.Fill(r.s, p.Scales.Buf, 0, p.Scales.Buf.Len(), math.NaN()))
					default:
						require.NoError(r.t, r.be.Fill(r.s, p.Scales.Buf, 0, p.Scales.Buf.Len(), math.MaxUint32))
					}
				}
			}
		}
	}
	require.NoError(r.t, r.s.Sync())
}

func (r *rig[B]) open() *Sequence[B] {
	r.t.Helper()
	seq, _, err := r.pool.Open(nil, OpenOptions{})
	require.NoError(r.t, err)
	return seq
}

// element is the value that a token id has in a place of a vector: a fixed
// pseudo-random multiple of 1/128 in [−1, 1), which every float type holds exactly.
func element(id uint32, layer, head, d int, value bool) float32 {
	x := uint64(id)<<32 ^ uint64(layer)<<20 ^ uint64(head)<<12 ^ uint64(d)<<1
	if value {
		x ^= 1
	}
	x *= 0x9e3779b97f4a7c15
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 32
	return float32(x>>56)/(1<<7) - 1
}

// rows are the vectors of tokens [tokens, heads, dim].
func rows(ids []uint32, layer, heads, dim int, value bool) []float32 {
	var out []float32
	for _, id := range ids {
		for h := range heads {
			for d := range dim {
				out = append(out, element(id, layer, h, d, value))
			}
		}
	}
	return out
}

// newRows are the new keys and values of tokens in a layer, as Append takes them: of latents what keys have behind their
// values, and those.
func newRows(m *Model, ids []uint32, layer int) (k, v []float32) {
	if !m.Latent {
		return rows(ids, layer, m.KVHeads, m.HeadDim, false), rows(ids, layer, m.KVHeads, m.VHeadDim, true)
	}
	for all := rows(ids, layer, m.KVHeads, m.HeadDim, false); len(all) > 0; all = all[m.HeadDim:] {
		k, v = append(k, all[m.VHeadDim:m.HeadDim]...), append(v, all[:m.VHeadDim]...)
	}
	return k, v
}

// feed is one sequence of a step and the ids of its new tokens.
type feed[B backend.Buffer] struct {
	seq *Sequence[B]
	ids []uint32
}

// plan starts a step; an error leaves it reset.
func (r *rig[B]) plan(s backend.Stream, feeds ...feed[B]) error {
	if err := r.step.Reset(); err != nil {
		return err
	}
	for _, f := range feeds {
		if err := r.step.Add(f.seq, f.ids); err != nil {
			return fmt.Errorf("%w %v", err, r.step.Reset())
		}
	}
	if err := r.step.Plan(s); err != nil {
		return fmt.Errorf("%w", cmp.Or(err, r.step.Reset()))
	}
	return nil
}

// write appends the rows of the planned step in every layer.
func (r *rig[B]) write(s backend.Stream, feeds ...feed[B]) { r.writeWith(s, nil, feeds...) }

// writeWith is write with the queries of some layers.
func (r *rig[B]) writeWith(s backend.Stream, queries map[int]B, feeds ...feed[B]) {
	r.t.Helper()
	var ids []uint32
	for _, f := range feeds {
		ids = append(ids, f.ids...)
	}
	c := r.pool.Config()
	for l := range c.Model.Layers {
		hk, hv := newRows(&c.Model, ids, l)
		k, v := r.vector(s, hk), r.vector(s, hv)
		if q, there := queries[l]; there {
			require.NoError(r.t, r.step.Append(l, qkv(q, k, v)))
		} else if c.HadamardOf(l) {
			q := r.vector(s, make([]float32, len(ids)*c.Model.QHeads*c.Model.HeadDim))
			require.NoError(r.t, r.step.Append(l, qkv(q, k, v)))
			r.free(q)
		} else {
			require.NoError(r.t, r.step.Append(l, kv(k, v)))
		}
		r.free(k, v)
	}
}

// layer appends the rows of tokens to a layer of the planned step.
func (r *rig[B]) layer(s backend.Stream, l int, ids []uint32) {
	r.t.Helper()
	c := r.pool.Config()
	q := r.vector(s, make([]float32, len(ids)*c.Model.QHeads*c.Model.HeadDim))
	hk, hv := newRows(&c.Model, ids, l)
	k, v := r.vector(s, hk), r.vector(s, hv)
	require.NoError(r.t, r.step.Append(l, qkv(q, k, v)))
	r.free(q, k, v)
}

// feed does a whole step on the rig's stream.
func (r *rig[B]) feed(feeds ...feed[B]) error {
	r.t.Helper()
	if err := r.plan(r.s, feeds...); err != nil {
		return err
	}
	r.write(r.s, feeds...)
	return r.step.Commit()
}

// commit ends a step whose rows do not matter.
func (r *rig[B]) commit() error {
	if _, err := r.step.Metadata(0); err != nil {
		return err
	}
	return r.step.Commit()
}

// vector is host on the device, in the pool's activation type.
func (r *rig[B]) vector(s backend.Stream, host []float32) B {
	r.t.Helper()
	b, err := allocRows(r.be, s, r.pool.Config().Model.Act, host)
	require.NoError(r.t, err)
	return b
}

func allocRows[B backend.Buffer](be backend.Backend[B], s backend.Stream, dt backend.DType, host []float32) (B, error) {
	if dt == backend.F32 {
		return backend.AllocFrom(be, s, dt, host)
	}
	encode := quant.F16
	if dt == backend.BF16 {
		encode = quant.BF16
	}
	half := make([]uint16, len(host))
	for i, x := range host {
		half[i] = encode(x)
	}
	return backend.AllocFrom(be, s, dt, half)
}

// operands are n tokens' queries, keys and values of one layer, all zeros, and room
// for what attention makes of them.
func (r *rig[B]) operands(n int) (q, k, v, out B) {
	r.t.Helper()
	c := r.pool.Config()
	zeros := func(width int) B { return r.vector(r.s, make([]float32, n*width)) }
	return zeros(c.Model.QHeads * c.Model.HeadDim), zeros(c.Model.KVHeads * c.Model.RotatedDims()), zeros(c.Model.KVHeads * c.Model.VHeadDim), zeros(c.Model.QHeads * c.Model.VHeadDim)
}

func (r *rig[B]) free(buffers ...B) {
	r.t.Helper()
	for _, b := range buffers {
		require.NoError(r.t, r.be.Free(b))
	}
}

// token is what a model remembers of one: its id and by how many positions its
// key was turned since it was written.
type token struct {
	id   uint32
	turn int
}

func tokens(ids ...uint32) []token {
	var out []token
	for _, id := range ids {
		out = append(out, token{id: id})
	}
	return out
}

// key is one head of a token's key as the model expects it (half-split RoPE, theta 10000).
func (tk token) key(layer, head, dim int) []float64 { return tk.keyBehind(layer, head, dim, 0) }

// keyBehind is key where the first elements, a latent, do not turn.
func (tk token) keyBehind(layer, head, dim, latent int) []float64 {
	out := make([]float64, dim)
	for i := range latent {
		out[i] = float64(element(tk.id, layer, head, i, false))
	}
	n := dim - latent
	for i := range n / 2 {
		sin, cos := math.Sincos(float64(tk.turn) * math.Pow(10000, -2*float64(i)/float64(n)))
		x, y := latent+i, latent+i+n/2
		a, b := float64(element(tk.id, layer, head, x, false)), float64(element(tk.id, layer, head, y, false))
		out[x], out[y] = a*cos-b*sin, a*sin+b*cos
	}
	return out
}

// turnError bounds how far a key of a few elements below 1 is off after several
// turns, each of which rounds it to its storage type.
func turnError(dt backend.DType) float64 {
	switch dt {
	case backend.F16:
		return 0.01
	case backend.BF16:
		return 0.08
	}
	return 1e-4
}

// rounding bounds how far elements below 1 in magnitude are off in a quantized type:
// half of its step, or what is beyond its largest code.
func rounding(dt backend.DType) float64 {
	switch dt {
	case backend.Int8:
		return 0.5 / 127
	case backend.Int8Asym:
		return 0.5 * 2 / 255 * 1.02
	case backend.FP8E4M3:
		return 1.0 / 32
	case backend.FP8E5M2:
		return 1.0 / 16
	case backend.Int4, backend.Int4G64, backend.Int4Channel:
		return 0.5 * 2 / 15 * 1.02
	case backend.MXFP4: // of 1 the largest code is 0.75
		return 1.0 / 4
	case backend.NVFP4: // of 1 codes are a sixth apart between 4 and 6 of them, and steps are rounded by a sixteenth
		return 1.0 / 6 * 17 / 16
	}
	return 0
}

// within bounds an element of a key. What turns keys keeps the length of pairs, with
// Hadamard of the whole row, in which one element may be all of the error; so does the
// step grow with the largest element.
func (p placed) within(dt backend.DType, dim int, hadamard bool) float64 {
	switch step := rounding(dt); {
	case step == 0 && p.turn == 0:
		return 0
	case step == 0:
		return turnError(dt)
	case hadamard:
		return 2.5 * math.Sqrt(float64(dim)) * step * float64(p.rounds+1)
	case p.rounds > 0:
		return 2.2 * step * float64(p.rounds+1)
	default:
		return step
	}
}

// expect gathers every layer of seq on stream s and compares it with the tokens:
// values and unturned keys exactly, turned keys within turnError.
func (r *rig[B]) expect(s backend.Stream, seq *Sequence[B], want []token) {
	r.t.Helper()
	h := newHistory(r.pool.cfg.Model.Layers)
	for l := range h.layers {
		for i, tk := range want {
			h.layers[l] = append(h.layers[l], placed{token: tk, pos: i})
		}
	}
	r.expectContent(s, seq, h)
}

// expectHistory is expect with positions, for quantized types, too: within their bounds.
func (r *rig[B]) expectHistory(s backend.Stream, seq *Sequence[B], h *history) {
	r.t.Helper()
	require.Equal(r.t, h.next, seq.NextPosition())
	for l, list := range h.layers {
		positions, err := seq.Positions(nil, l)
		require.NoError(r.t, err)
		require.Len(r.t, positions, len(list))
		for i, p := range list {
			require.Equal(r.t, p.pos, positions[i], "position of token %d in layer %d", i, l)
		}
	}
	r.expectContent(s, seq, h)
}

func (r *rig[B]) expectContent(s backend.Stream, seq *Sequence[B], want *history) {
	r.t.Helper()
	require.Equal(r.t, want.len(), seq.Len())
	layers, err := seq.Layers(s)
	require.NoError(r.t, err)
	c := r.pool.Config()
	n := want.len()
	k, err := r.be.Alloc(backend.F32, c.Model.KVHeads*n*c.Model.HeadDim)
	require.NoError(r.t, err)
	v, err := r.be.Alloc(backend.F32, c.Model.KVHeads*n*c.Model.VHeadDim)
	require.NoError(r.t, err)
	hk, hv := make([]float32, k.Len()), make([]float32, v.Len())
	for l := range layers {
		require.Equal(r.t, n, layers[l].Len)
		require.NoError(r.t, seq.Gather(s, l, k, v))
		require.NoError(r.t, backend.Download(r.be, s, hk, k, 0))
		require.NoError(r.t, backend.Download(r.be, s, hv, v, 0))
		f, latent := c.FormatOf(l), c.Model.HeadDim-c.Model.RotatedDims()
		for h := range c.Model.KVHeads {
			for i, p := range want.layers[l] {
				within := p.within(f.K, c.Model.HeadDim, c.HadamardOf(l))
				got := hk[(h*n+i)*c.Model.HeadDim:][:c.Model.HeadDim]
				for d, w := range p.keyBehind(l, h, c.Model.HeadDim, latent) {
					if !(math.Abs(float64(got[d])-w) <= within) {
						require.Failf(r.t, "key differs", "layer %d head %d token %d: got %v, want %v of %+v within %v", l, h, i, got, p.keyBehind(l, h, c.Model.HeadDim, latent), p, within)
					}
				}
				limit := rounding(f.V)
				if c.Model.Latent && f.V.Quantized() { // stored anew with their keys
					limit = within
				}
				for d := range c.Model.VHeadDim {
					if got, w := hv[(h*n+i)*c.Model.VHeadDim+d], element(p.id, l, h, d, !c.Model.Latent); !(math.Abs(float64(got-w)) <= limit) {
						require.Failf(r.t, "value differs", "layer %d head %d token %d dim %d: got %v, want %v", l, h, i, d, got, w)
					}
				}
			}
		}
	}
	r.free(k, v)
}
