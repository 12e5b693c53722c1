package backend

import "fmt"

// unwrapper turns erased operands into those of one device and remembers whether
// one did not fit. What is large it takes by a pointer, which it does not retain.
type unwrapper[B Buffer] struct{ empty, foreign bool }

func (u *unwrapper[B]) ok(op string) error {
	switch {
	case u.empty:
		return ErrShape{Op: op, What: "an operand holds no buffer"}
	case u.foreign:
		return fmt.Errorf("backend: %s: operand %w", op, ErrForeign)
	}
	return nil
}

func (u *unwrapper[B]) buf(a AnyBuffer) B {
	b, ok := a.buf.(B)
	u.empty = u.empty || a.buf == nil
	u.foreign = u.foreign || !ok
	return b
}

func (u *unwrapper[B]) opt(o Opt[AnyBuffer]) Opt[B] {
	if !o.Set {
		return Opt[B]{}
	}
	return Opt[B]{Buf: u.buf(o.Buf), Set: true}
}

func (u *unwrapper[B]) rows(r *Rows[AnyBuffer]) Rows[B] {
	return Rows[B]{Buf: u.buf(r.Buf), Offset: r.Offset, Stride: r.Stride}
}

func (u *unwrapper[B]) plane(to *Plane[B], p *Plane[AnyBuffer]) {
	to.Data, to.Dim, to.Hadamard = u.buf(p.Data), p.Dim, p.Hadamard
	if p.Scales.Set {
		to.Scales = u.opt(p.Scales)
	}
}

// cache fills to, which is zero: the largest part of most parameters is written where it stays.
func (u *unwrapper[B]) cache(to *CacheView[B], c *CacheView[AnyBuffer]) {
	u.plane(&to.K, &c.K)
	u.plane(&to.V, &c.V)
	to.Blocks, to.KVHeads, to.BlockSize = c.Blocks, c.KVHeads, c.BlockSize
}

func (u *unwrapper[B]) ragged(r *Ragged[AnyBuffer]) Ragged[B] {
	return Ragged[B]{Seqs: r.Seqs, Tokens: r.Tokens, Table: u.opt(r.Table), TableStride: r.TableStride,
		ContextLens: u.buf(r.ContextLens), QueryOffsets: u.opt(r.QueryOffsets)}
}

func (u *unwrapper[B]) rope(r *Rope[AnyBuffer]) Rope[B] {
	return Rope[B]{Table: u.opt(r.Table), Positions: r.Positions, Dims: r.Dims, Pairing: r.Pairing, Magnitude: r.Magnitude}
}

func (u *unwrapper[B]) mask(m *Mask[AnyBuffer]) Mask[B] {
	return Mask[B]{NonCausal: m.NonCausal, Window: m.Window, SinkTokens: m.SinkTokens, SoftCap: m.SoftCap,
		ALiBi: u.opt(m.ALiBi), SinkLogits: u.opt(m.SinkLogits)}
}

func (u *unwrapper[B]) outputs(o *Outputs[AnyBuffer]) Outputs[B] {
	return Outputs[B]{Rows: u.rows(&o.Rows), LSE: u.opt(o.LSE), LSEOffset: o.LSEOffset, Mass: u.opt(o.Mass)}
}
