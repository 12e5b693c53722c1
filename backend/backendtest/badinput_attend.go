package backendtest

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// attendOperation attends with every mask and output; its long context makes a
// device that splits contexts ask for a workspace.
func attendOperation[B backend.Buffer](in kind[B]) operation[B, backend.AttendParams[B]] {
	return operation[B, backend.AttendParams[B]]{
		name: "attend" + in.name,
		good: func(r *rig[B]) backend.AttendParams[B] {
			s := small("bad input", sequence{3, 20}, sequence{1, 600})
			s.format, s.layout.block = in.format(r), r.blockSize(16)
			s.kDim, s.vDim = r.dimsOf(in.latent, 64, in.values(64))
			s.latent = in.latent
			s.mask, s.output = maskAxis[len(maskAxis)-1], outputSpec{lse: true, mass: true}
			return newAttend(r, s).params
		},
		call: func(r *rig[B], p backend.AttendParams[B]) error { return r.be.Attend(r.s, p) },
	}
}

func attendSpoils[B backend.Buffer]() []spoil[B, backend.AttendParams[B]] {
	type params = backend.AttendParams[B]
	var out []spoil[B, params]
	add := func(name string, do func(r *rig[B], p *params)) { out = append(out, spoil[B, params]{name, do}) }
	plain := func(name string, do func(p *params)) { add(name, func(_ *rig[B], p *params) { do(p) }) }

	rowSpoils(add, "output", func(p *params) *backend.Rows[B] { return &p.Out.Rows })
	optSpoils(add, "log-sum-exp", func(p *params) *backend.Opt[B] { return &p.Out.LSE })
	optSpoils(add, "attention scores", func(p *params) *backend.Opt[B] { return &p.Out.Scores })
	plain("a negative log-sum-exp offset", func(p *params) { p.Out.LSEOffset = -1 })
	plain("a log-sum-exp offset that overflows", func(p *params) { p.Out.LSEOffset = math.MaxInt })
	plain("a plan that was not made for mass", func(p *params) { p.Plan.Scores = false })
	add("no workspace", func(r *rig[B], p *params) {
		needsSpace(r, p)
		p.Workspace = backend.Opt[B]{}
	})
	add("a workspace that is too short", func(r *rig[B], p *params) {
		needsSpace(r, p)
		p.Workspace.Buf = r.exact("short workspace", backend.F32, p.Plan.Workspace-1).buf
	})
	add("a workspace of another type", func(r *rig[B], p *params) {
		needsSpace(r, p)
		p.Workspace.Buf = r.region("workspace of u32", backend.U32, 0, p.Plan.Workspace).buf
	})
	return out
}

// asked is what calls of attention and for its mass have in common.
type asked[B backend.Buffer] struct {
	batch  *backend.Ragged[B]
	q      *backend.Rows[B]
	qHeads *int
	scale  *float32
	mask   *backend.Mask[B]
	plan   *backend.AttendPlan
	work   *backend.Opt[B]
}

func attendAsked[B backend.Buffer](p *backend.AttendParams[B]) asked[B] {
	return asked[B]{&p.Batch, &p.Q, &p.QHeads, &p.Scale, &p.Mask, &p.Plan, &p.Work}
}

// askedSpoils break it.
func askedSpoils[B backend.Buffer, P any](of func(p *P) asked[B]) []spoil[B, P] {
	var out []spoil[B, P]
	add := func(name string, do func(r *rig[B], p *P)) { out = append(out, spoil[B, P]{name, do}) }
	plain := func(name string, do func(a asked[B])) { add(name, func(_ *rig[B], p *P) { do(of(p)) }) }
	work := func(name string, do func(r *rig[B], a asked[B])) {
		add(name, func(r *rig[B], p *P) {
			if len(of(p).plan.Work) == 0 {
				r.skip("the device's plan has no work list")
			}
			do(r, of(p))
		})
	}
	rowSpoils(add, "Q", func(p *P) *backend.Rows[B] { return of(p).q })
	plain("no query heads", func(a asked[B]) { *a.qHeads = 0 })
	plain("negative query heads", func(a asked[B]) { *a.qHeads = -4 })
	plain("query heads that are no multiple", func(a asked[B]) { *a.qHeads = 3 })
	plain("query heads that overflow", func(a asked[B]) { *a.qHeads = math.MaxInt/2 + 1 })
	for name, v := range map[string]float64{"no": 0, "a negative": -1, "an infinite": math.Inf(1), "an undefined": math.NaN()} {
		plain(name+" scale", func(a asked[B]) { *a.scale = float32(v) })
	}
	plain("a negative window", func(a asked[B]) { a.mask.Window = -1 })
	plain("negative sinks", func(a asked[B]) { a.mask.SinkTokens = -1 })
	plain("recent tokens of all keys", func(a asked[B]) { a.mask.Residual = 8 })
	plain("no recent tokens", func(a asked[B]) { a.mask.Part = backend.OlderKeys })
	plain("negative recent tokens", func(a asked[B]) { a.mask.Part, a.mask.Residual = backend.ResidualKeys, -1 })
	plain("a part that there is not", func(a asked[B]) { a.mask.Part, a.mask.Residual = backend.ResidualKeys+1, 8 })
	plain("a negative chunk", func(a asked[B]) { a.mask.Window, a.mask.SinkTokens, a.mask.Chunk = 0, 0, -1 })
	plain("a chunk and a window", func(a asked[B]) { a.mask.SinkTokens, a.mask.Chunk = 0, 8 })
	plain("a chunk and sinks", func(a asked[B]) { a.mask.Window, a.mask.Chunk = 0, 8 })
	plain("sinks without a window and a causal mask", func(a asked[B]) { a.mask.NonCausal, a.mask.Window = true, 0 })
	plain("a part and no causal mask", func(a asked[B]) {
		*a.mask = backend.Mask[B]{NonCausal: true, Part: backend.OlderKeys, Residual: 8}
	})
	for name, v := range map[string]float64{"a negative": -1, "an infinite": math.Inf(1), "an undefined": math.NaN()} {
		plain(name+" soft-cap", func(a asked[B]) { a.mask.SoftCap = float32(v) })
	}
	optSpoils(add, "slopes", func(p *P) *backend.Opt[B] { return &of(p).mask.ALiBi })
	optSpoils(add, "sink logits", func(p *P) *backend.Opt[B] { return &of(p).mask.SinkLogits })
	plain("no plan", func(a asked[B]) { *a.plan = backend.AttendPlan{} })
	work("no work", func(_ *rig[B], a asked[B]) { *a.work = backend.Opt[B]{} })
	work("work that is too short", func(r *rig[B], a asked[B]) {
		a.work.Buf = r.exact("short work", backend.U32, len(a.plan.Work)-1).buf
	})
	work("work of another type", func(r *rig[B], a asked[B]) {
		a.work.Buf = r.region("work of f32", backend.F32, 0, len(a.plan.Work)).buf
	})
	return append(out, batchSpoils(func(p *P) *backend.Ragged[B] { return of(p).batch })...)
}

func needsSpace[B backend.Buffer](r *rig[B], p *backend.AttendParams[B]) {
	if p.Plan.Workspace == 0 {
		r.skip("the device's plan needs no workspace")
	}
}

// optSpoils break an f32 operand that may be absent but is not.
func optSpoils[B backend.Buffer, P any](add func(string, func(r *rig[B], p *P)), name string, opt func(p *P) *backend.Opt[B]) {
	var none B
	add("no buffer for "+name, func(_ *rig[B], p *P) { opt(p).Buf = none })
	add(name+" too short", func(r *rig[B], p *P) {
		opt(p).Buf = r.exact("short "+name, backend.F32, opt(p).Buf.Len()-guard-1).buf
	})
	add(name+" of another type", func(r *rig[B], p *P) {
		opt(p).Buf = r.region(name+" of f16", backend.F16, 0, opt(p).Buf.Len()).buf
	})
}

// batchSpoils break the sequences of a call.
func batchSpoils[B backend.Buffer, P any](batch func(p *P) *backend.Ragged[B]) []spoil[B, P] {
	var none B
	var out []spoil[B, P]
	add := func(name string, do func(r *rig[B], b *backend.Ragged[B])) {
		out = append(out, spoil[B, P]{name, func(r *rig[B], p *P) { do(r, batch(p)) }})
	}
	plain := func(name string, do func(b *backend.Ragged[B])) {
		add(name, func(_ *rig[B], b *backend.Ragged[B]) { do(b) })
	}
	index := func(name string, seqs func(b *backend.Ragged[B], buf B)) {
		add(name+" too short", func(r *rig[B], b *backend.Ragged[B]) { seqs(b, r.exact("short "+name, backend.U32, 1).buf) })
		add(name+" of another type", func(r *rig[B], b *backend.Ragged[B]) {
			seqs(b, r.region(name+" of i64", backend.I64, 0, 1000).buf)
		})
		add("no buffer for "+name, func(_ *rig[B], b *backend.Ragged[B]) { seqs(b, none) })
	}
	index("context lengths", func(b *backend.Ragged[B], buf B) { b.ContextLens = buf })
	index("query offsets", func(b *backend.Ragged[B], buf B) { b.QueryOffsets = backend.Some(buf) })
	index("block table", func(b *backend.Ragged[B], buf B) { b.Table = backend.Some(buf) })
	plain("negative sequences", func(b *backend.Ragged[B]) { b.Seqs = -1 })
	plain("more sequences than operands", func(b *backend.Ragged[B]) { b.Seqs = 1000 })
	plain("sequences that overflow", func(b *backend.Ragged[B]) { b.Seqs = math.MaxInt })
	plain("negative tokens", func(b *backend.Ragged[B]) { b.Tokens = -1 })
	plain("more tokens than rows", func(b *backend.Ragged[B]) { b.Tokens = 1000 })
	plain("tokens that overflow", func(b *backend.Ragged[B]) { b.Tokens = math.MaxInt })
	plain("no table stride", func(b *backend.Ragged[B]) { b.TableStride = 0 })
	plain("a negative table stride", func(b *backend.Ragged[B]) { b.TableStride = -2 })
	plain("a table stride that overflows", func(b *backend.Ragged[B]) { b.TableStride = math.MaxInt })
	index("views", func(b *backend.Ragged[B], buf B) { b.Views = backend.Some(buf) })
	index("tree", func(b *backend.Ragged[B], buf B) { b.Tree, b.TreeWords = backend.Some(buf), 1 })
	for name, n := range map[string]int{"no": 0, "negative": -1, "too many": 4000, "overflowing": math.MaxInt} {
		add(name+" tree words", func(r *rig[B], b *backend.Ragged[B]) {
			b.Tree, b.TreeWords = backend.Some(constant(r, name+" tree words", backend.U32, make([]uint32, 4000*b.Tokens)).buf), n
		})
	}
	plain("more tokens than sequences and no offsets", func(b *backend.Ragged[B]) { b.QueryOffsets = backend.Opt[B]{} })
	return out
}
