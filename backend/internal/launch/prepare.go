package launch

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// Prepared is the kernels that steps of p use: in any case those that append, and that attend for one new
// token of each sequence; with all of them also those that only some steps need, as of prompts, scores and
// blocks that are quantized later.
func Prepared(p backend.Preparation, all bool) []Kernel {
	var kernels []Kernel
	add := func(k Kernel) { kernels = append(kernels, k) }
	group := p.QHeads / max(p.KVHeads, 1)
	for _, f := range p.Formats {
		if !f.K.Quantized() {
			add(Kernel{Op: OpAppend, In: f.Act, Out: f.K})
		} else if f.K.Coding().Scope != backend.ByChannel { // whole blocks only
			add(Kernel{Op: OpAppendQuant, In: f.Act})
		}
		decode := plan.KindOf(f, group)
		for kind := range plan.Kinds {
			if kind == decode || all && plan.Has(kind, f) {
				add(Attention(kind, f, p.KDim, p.VDim, Paged))
			}
		}
		add(Kernel{Op: OpAttendMerge, In: f.Act})
		if !all {
			continue
		}
		if f.K.Quantized() {
			add(Kernel{Op: OpPackBlocks, In: f.Act})
		}
		if p.Scores {
			add(attentionMass(f, p.KDim, p.VDim))
		}
		if len(p.Formats) > 1 {
			add(Kernel{Op: OpMerge, In: f.Act, Out: f.Act})
		}
	}
	return kernels
}
