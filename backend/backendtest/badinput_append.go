package backendtest

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// badTokens is the rows of the good append call.
const badTokens = 7

// appendOperation appends rotated keys and rotates queries.
func appendOperation[B backend.Buffer](in kind[B]) operation[B, backend.AppendParams[B]] {
	return operation[B, backend.AppendParams[B]]{
		name: "append" + in.name,
		good: func(r *rig[B]) backend.AppendParams[B] {
			kDim, vDim := r.dimsOf(in.latent, 64, in.values(64))
			s := appendSpec{latent: in.latent, qHeads: 4, kvHeads: 2, kDim: kDim, vDim: vDim, block: r.blockSize(16), blocks: 3,
				tokens: badTokens, format: in.format(r)}
			s.rotary = &rotary{10000, kDim - s.behind(), backend.HalfSplit, 1}
			return newAppend(r, s).params
		},
		call: func(r *rig[B], p backend.AppendParams[B]) error { return r.be.Append(r.s, p) },
	}
}

func appendSpoils[B backend.Buffer]() []spoil[B, backend.AppendParams[B]] {
	type params = backend.AppendParams[B]
	var none B
	var out []spoil[B, params]
	add := func(name string, do func(r *rig[B], p *params)) { out = append(out, spoil[B, params]{name, do}) }
	plain := func(name string, do func(p *params)) { add(name, func(_ *rig[B], p *params) { do(p) }) }

	plain("negative tokens", func(p *params) { p.Tokens = -1 })
	plain("more tokens than rows", func(p *params) { p.Tokens = 1000 })
	plain("tokens that overflow", func(p *params) { p.Tokens = math.MaxInt })
	plain("no slots", func(p *params) { p.Slots = none })
	add("slots that are too short", func(r *rig[B], p *params) { p.Slots = r.exact("short slots", backend.I64, badTokens-1).buf })
	add("slots of another type", func(r *rig[B], p *params) { p.Slots = r.region("slots of u32", backend.U32, 0, badTokens).buf })
	rowSpoils(add, "K", func(p *params) *backend.Rows[B] { return &p.K })
	rowSpoils(add, "V", func(p *params) *backend.Rows[B] { return &p.V })
	rowSpoils(add, "Q", func(p *params) *backend.Rows[B] { return &p.Q })
	plain("query heads that are no multiple", func(p *params) { p.QHeads = 3 })
	plain("negative query heads", func(p *params) { p.QHeads = -2 })
	plain("query heads that overflow", func(p *params) { p.QHeads = math.MaxInt/2 + 1 })
	plain("no positions", func(p *params) { p.Positions = backend.Opt[B]{} })
	plain("positions and no rope", func(p *params) { p.Rotary = backend.RotaryTable[B]{} })
	add("positions that are too short", func(r *rig[B], p *params) {
		p.Positions.Buf = r.exact("short positions", backend.U32, badTokens-1).buf
	})
	add("positions of another type", func(r *rig[B], p *params) {
		p.Positions.Buf = r.region("positions of i64", backend.I64, 0, badTokens).buf
	})
	for name, m := range map[string]float64{"no": 0, "a negative": -1, "an infinite": math.Inf(1), "an undefined": math.NaN()} {
		plain(name+" magnitude", func(p *params) { p.Rotary.Magnitude = float32(m) })
	}
	return out
}

// rowSpoils break one operand of rows.
func rowSpoils[B backend.Buffer, P any](add func(string, func(r *rig[B], p *P)), name string, rows func(p *P) *backend.Rows[B]) {
	var none B
	plain := func(what string, do func(v *backend.Rows[B])) {
		add(name+" rows "+what, func(_ *rig[B], p *P) { do(rows(p)) })
	}
	plain("missing", func(v *backend.Rows[B]) { v.Buf = none })
	plain("beyond the end", func(v *backend.Rows[B]) { v.Offset = v.Buf.Len() - 1 })
	plain("before the start", func(v *backend.Rows[B]) { v.Offset = -16 })
	plain("at an offset that overflows", func(v *backend.Rows[B]) { v.Offset = math.MaxInt })
	plain("that overlap", func(v *backend.Rows[B]) { v.Stride = 16 })
	plain("with a negative stride", func(v *backend.Rows[B]) { v.Stride = -4096 })
	plain("with a stride that overflows", func(v *backend.Rows[B]) { v.Stride = math.MaxInt })
	add(name+" rows of another type", func(r *rig[B], p *P) {
		v := rows(p)
		v.Buf = r.region("rows of an index type", backend.I32, 0, v.Buf.Len()).buf
	})
	add(name+" rows that are too short", func(r *rig[B], p *P) {
		v := rows(p)
		v.Buf = r.exact("short rows", v.Buf.DType(), v.Buf.Len()-guard-1).buf
	})
}
