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
			s.kDim, s.vDim = r.dims(64, 64)
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

	rowSpoils(add, "Q", func(p *params) *backend.Rows[B] { return &p.Q })
	rowSpoils(add, "output", func(p *params) *backend.Rows[B] { return &p.Out.Rows })
	plain("no query heads", func(p *params) { p.QHeads = 0 })
	plain("negative query heads", func(p *params) { p.QHeads = -4 })
	plain("query heads that are no multiple", func(p *params) { p.QHeads = 3 })
	plain("query heads that overflow", func(p *params) { p.QHeads = math.MaxInt/2 + 1 })
	for name, v := range map[string]float64{"no": 0, "a negative": -1, "an infinite": math.Inf(1), "an undefined": math.NaN()} {
		plain(name+" scale", func(p *params) { p.Scale = float32(v) })
	}
	plain("a negative window", func(p *params) { p.Mask.Window = -1 })
	plain("negative sinks", func(p *params) { p.Mask.SinkTokens = -1 })
	plain("a window and no causal mask", func(p *params) { p.Mask.NonCausal, p.Mask.Window = true, 4 })
	plain("recent tokens of all keys", func(p *params) { p.Mask.Recent = 8 })
	plain("no recent tokens", func(p *params) { p.Mask.Part = backend.OlderKeys })
	plain("negative recent tokens", func(p *params) { p.Mask.Part, p.Mask.Recent = backend.RecentKeys, -1 })
	plain("a part that there is not", func(p *params) { p.Mask.Part, p.Mask.Recent = backend.RecentKeys+1, 8 })
	plain("a part and no causal mask", func(p *params) {
		p.Mask = backend.Mask[B]{NonCausal: true, Part: backend.OlderKeys, Recent: 8}
	})
	for name, v := range map[string]float64{"a negative": -1, "an infinite": math.Inf(1), "an undefined": math.NaN()} {
		plain(name+" soft-cap", func(p *params) { p.Mask.SoftCap = float32(v) })
	}
	optSpoils(add, "slopes", func(p *params) *backend.Opt[B] { return &p.Mask.ALiBi })
	optSpoils(add, "sink logits", func(p *params) *backend.Opt[B] { return &p.Mask.SinkLogits })
	optSpoils(add, "log-sum-exp", func(p *params) *backend.Opt[B] { return &p.Out.LSE })
	optSpoils(add, "attention mass", func(p *params) *backend.Opt[B] { return &p.Out.Mass })
	plain("a negative log-sum-exp offset", func(p *params) { p.Out.LSEOffset = -1 })
	plain("a log-sum-exp offset that overflows", func(p *params) { p.Out.LSEOffset = math.MaxInt })
	plain("a plan that was not made for mass", func(p *params) { p.Plan.Mass = false })
	plain("no plan", func(p *params) { p.Plan = backend.AttendPlan{} })
	add("no work", func(r *rig[B], p *params) {
		needsWork(r, p)
		p.Work = backend.Opt[B]{}
	})
	add("work that is too short", func(r *rig[B], p *params) {
		needsWork(r, p)
		p.Work.Buf = r.exact("short work", backend.U32, len(p.Plan.Work)-1).buf
	})
	add("work of another type", func(r *rig[B], p *params) {
		needsWork(r, p)
		p.Work.Buf = r.region("work of f32", backend.F32, 0, len(p.Plan.Work)).buf
	})
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

func needsWork[B backend.Buffer](r *rig[B], p *backend.AttendParams[B]) {
	if len(p.Plan.Work) == 0 {
		r.skip("the device's plan has no work list")
	}
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
func batchSpoils[B backend.Buffer]() []spoil[B, backend.AttendParams[B]] {
	type params = backend.AttendParams[B]
	var none B
	var out []spoil[B, params]
	add := func(name string, do func(r *rig[B], b *backend.Ragged[B])) {
		out = append(out, spoil[B, params]{name, func(r *rig[B], p *params) { do(r, &p.Batch) }})
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
	plain("more tokens than sequences and no offsets", func(b *backend.Ragged[B]) { b.QueryOffsets = backend.Opt[B]{} })
	return out
}
