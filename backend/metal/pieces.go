//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/backend/internal/device"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
	"github.com/ferrumkv/ferrumkv/backend/metal/mtl"
)

// opened is the device. It notes the plan of attention with the stream: how long a launch takes is
// in its items, and those are in the plan's work, not in the call.
type opened struct {
	device.Device[*Buffer, *stream, *event, mtl.Error]
}

// Attend is Backend.Attend.
func (d *opened) Attend(s backend.Stream, p *backend.AttendParams[*Buffer]) error {
	if own := d.mine(s); own != nil {
		own.work = p.Plan.Work
		defer own.forget()
	}
	return d.Device.Attend(s, p)
}

// AttendScores is Backend.AttendScores.
func (d *opened) AttendScores(s backend.Stream, p *backend.AttendScoresParams[*Buffer]) error {
	if own := d.mine(s); own != nil {
		own.work = p.Plan.Work
		defer own.forget()
	}
	return d.Device.AttendScores(s, p)
}

// mine is s as a stream of this device; nil if it is none, of which the operation tells the caller.
func (d *opened) mine(s backend.Stream) *stream {
	if own, ok := s.(*stream); ok && own != nil && &own.be.dev == d {
		return own
	}
	return nil
}

func (s *stream) forget() { s.work = nil }

// attends reports whether a kernel works on a plan's items. None needs another's results, so one
// launch and several write the same; scores are sums in no order either way.
func attends(op launch.Op) bool {
	switch op {
	case launch.OpAttendVector, launch.OpAttendDecode, launch.OpAttendPrefill, launch.OpAttendMerge, launch.OpAttendMass:
		return true
	}
	return false
}

// pieces cuts the items of a launch into runs, each of which a command buffer may hold.
//
// A piece has enough items to fill the device, even if that takes longer: with fewer, cores
// would stand idle, and the piece would take about as long.
type pieces struct {
	costs
	words []uint32 // of the items that are left
	first uint32   // number of the first of these
	least int      // items of a piece
	most  float64  // seconds
}

// pieces of a call, whose items are in work.
func (p *pace) pieces(k launch.Kernel, a *abi.AttendArgs, work []uint32) pieces {
	items := work[abi.WorkHeader+int(a.First)*abi.ItemWords:]
	return pieces{p.costs(k, a), items[:int(a.Items)*abi.ItemWords], a.First, max(p.groups/int(a.KVHeads), 1), p.most}
}

// take returns the next piece and its time; one of no items is none.
func (p *pieces) take() (piece plan.List, seconds float64) {
	piece.First = p.first
	for len(p.words) > 0 {
		next := p.of(p.words)
		if int(piece.Count) >= p.least && seconds+next > p.most {
			break
		}
		seconds += next
		piece.Count++
		p.words = p.words[abi.ItemWords:]
	}
	p.first += piece.Count
	return piece, seconds
}
