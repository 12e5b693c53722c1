package launch

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// Prepared is the kernels that steps of p use, each once: in any case those of steps with one new token of
// each sequence; with all of them also those that only some steps need, such as long prompts. wide are the kernels of Wide
// that the device has.
func Prepared(p backend.Preparation, all bool, wide map[Kernel]bool) []Kernel {
	s := prepared{group: p.QHeads / max(p.KVHeads, 1), all: all, wide: wide, Preparation: p}
	for _, f := range p.Formats {
		hadamard := p.Hadamard && f.K.Quantized()
		if !p.Residual {
			s.append(f, hadamard)
			s.attend(f)
			continue
		}
		recent := backend.Format{Act: f.Act, K: f.Act, V: f.Act}
		s.append(recent, hadamard)
		s.attend(recent)
		s.attend(f)
		s.add(Kernel{Op: OpMerge, In: f.Act, Out: f.Act})
		if f.K.Quantized() {
			s.add(Kernel{Op: OpPackBlocks.long(p.Latent), In: f.Act})
			s.later(Kernel{Op: OpUnpackBlocks.long(p.Latent), In: f.Act}) // a rejected draft, or a prefix that was found
		}
	}
	if p.Scores {
		s.add(Kernel{Op: OpClearMass})
	}
	s.add(Kernel{Op: OpCopyBlocks}) // shared blocks that a step writes into, and all that scores and residual keys move
	s.add(Kernel{Op: OpCopyBlocksNarrow})
	return s.kernels
}

// prepared collects kernels.
type prepared struct {
	backend.Preparation
	group   int // query heads of a KV head
	all     bool
	wide    map[Kernel]bool
	kernels []Kernel
}

func (s *prepared) add(k Kernel) {
	if !slices.Contains(s.kernels, k) {
		s.kernels = append(s.kernels, k)
	}
}

// later is add of what a step may do without.
func (s *prepared) later(k Kernel) {
	if s.all {
		s.add(k)
	}
}

// append is the kernel that writes to a cache; there is none for keys whose blocks are quantized whole.
func (s *prepared) append(f backend.Format, hadamard bool) {
	switch {
	case f.K.Coding().Scope == backend.ByChannel:
	case f.K.Quantized() || hadamard:
		s.add(Kernel{Op: OpAppendQuant.long(s.Latent), In: f.Act})
	default:
		s.add(Kernel{Op: OpAppend, In: f.Act, Out: f.K})
	}
}

// attend are the kernels that read a cache.
func (s *prepared) attend(f backend.Format) {
	of := plan.Cache{Format: f, Latent: s.Latent, Wide: s.wide[Attention(plan.Wide, f, s.KDim, s.VDim)]}
	decode := of.KindOf(s.group)
	for kind := range plan.Kinds {
		if k := Attention(kind, f, s.KDim, s.VDim); kind == decode {
			s.add(k)
		} else if of.Has(kind) {
			s.later(k)
		}
	}
	s.add(Kernel{Op: OpAttendMerge, In: f.Act})
	if s.Scores {
		s.add(attentionMass(f, s.KDim, s.VDim))
	}
}
