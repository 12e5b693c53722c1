//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// Prepare compiles the kernels that p may need. From the sources these are only those that every decode
// step needs, as on CUDA: each takes the system long, and who never attends to a prompt does not need to wait for
// it. Of the masks of p it takes a note, so that PlanAttend compiles for them, too.
func (be *Backend) Prepare(p backend.Preparation) error {
	return be.dev.Load("prepare", func() error {
		_, compiled := library()
		be.masks.add(&p)
		if _, err := be.modules.get(copies[1]); err != nil { // what a step uploads while others run
			return err
		}
		for _, k := range launch.Prepared(p, compiled, nil) {
			if err := be.prepare(&p, k); err != nil {
				return err
			}
		}
		return nil
	})
}

// prepare compiles a kernel with the constants that calls with it have.
func (be *Backend) prepare(p *backend.Preparation, k launch.Kernel) error {
	var has []uint32
	switch k.Op {
	case launch.OpAttendVector, launch.OpAttendDecode, launch.OpAttendPrefill:
		return be.prepareAttention(p, k)
	case launch.OpAttendMerge, launch.OpAttendMass:
		return nil // with those
	case launch.OpAppend, launch.OpAppendQuant, launch.OpAppendQuantLong:
		constants := uint32(1 << abi.Wide)
		if p.RoPE {
			constants |= 1 << abi.WithRoPE
		}
		if p.RoPE || p.Hadamard && k.Op == launch.OpAppendQuant {
			constants |= 1 << abi.WithQueries
		}
		has = append(has, constants)
	case launch.OpMerge:
		constants := uint32(1 << abi.Wide)
		if p.Scores { // which are relative to the log-sum-exp, but in steps that score nothing
			has = append(has, constants|1<<abi.WithLSE)
		}
		has = append(has, constants)
	default:
		has = append(has, 0)
	}
	for _, constants := range has {
		if _, err := be.modules.get(variant{k, constants}); err != nil {
			return err
		}
	}
	return nil
}

// prepareAttention compiles a kind of attention as plans of p ask for it.
func (be *Backend) prepareAttention(p *backend.Preparation, k launch.Kernel) error {
	s := backend.AttendShape{TableStride: 2, Scores: p.Scores, KDim: p.KDim, VDim: p.VDim}
	if p.Contiguous {
		s.TableStride = 1
	}
	for _, r := range readings(p) {
		if s.Format, s.Part = r.format, r.part; launch.Attends(k, s.Format) {
			if _, err := be.warm(&s, k, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// reading is a format that attention reads, and the part of a sequence's keys that is in it.
type reading struct {
	format backend.Format
	part   backend.Part
}

// readings are those of p.
func readings(p *backend.Preparation) (all []reading) {
	for _, f := range p.Formats {
		if !p.Residual {
			all = append(all, reading{f, backend.AllKeys})
			continue
		}
		all = append(all, reading{backend.Format{Act: f.Act, K: f.Act, V: f.Act}, backend.ResidualKeys}, reading{f, backend.OlderKeys})
	}
	return all
}

// plain is the constants of a mask without ALiBi, sink logits and soft-cap.
var plain = []uint32{0}

// masksOf is the constants of the masks that plans of a shape are used with, as far as somebody has
// prepared for them. The sink logits of a sequence in two caches count in one of them.
func (be *Backend) masksOf(s *backend.AttendShape) []uint32 {
	for _, known := range be.masks.list() {
		if known.reading == (reading{s.Format, s.Part}) && known.kDim == s.KDim && known.vDim == s.VDim {
			return known.masks
		}
	}
	return plain
}

// masks is what was prepared for. It is safe for concurrent use.
type masks struct {
	mu    sync.Mutex
	known atomic.Pointer[[]maskedReading] // replaced, never changed: read without a lock
}

type maskedReading struct {
	reading
	kDim, vDim int
	masks      []uint32
}

func (m *masks) list() []maskedReading {
	if known := m.known.Load(); known != nil {
		return *known
	}
	return nil
}

// add notes the masks of p.
func (m *masks) add(p *backend.Preparation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := slices.Clone(m.list())
	for _, r := range readings(p) {
		next := maskedReading{r, p.KDim, p.VDim, nil}
		i := slices.IndexFunc(known, func(k maskedReading) bool { return k.reading == r && k.kDim == p.KDim && k.vDim == p.VDim })
		if i < 0 {
			i, known = len(known), append(known, next)
		}
		all := slices.Clone(known[i].masks)
		for _, mask := range maskConstants(p, r.part) {
			if !slices.Contains(all, mask) {
				all = append(all, mask)
			}
		}
		known[i].masks = all
	}
	m.known.Store(&known)
}

// maskConstants are those of the masks of p.
func maskConstants(p *backend.Preparation, part backend.Part) (all []uint32) {
	for _, use := range p.Masks {
		mask := uint32(0)
		for constant, has := range map[int]bool{abi.WithALiBi: use.ALiBi, abi.WithSinks: use.SinkLogits && part != backend.OlderKeys, abi.WithSoftcap: use.SoftCap} {
			if has {
				mask |= 1 << constant
			}
		}
		all = append(all, mask)
	}
	if all == nil {
		return plain
	}
	return all
}
