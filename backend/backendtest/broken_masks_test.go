package backendtest

import (
	"errors"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/stretchr/testify/require"
)

// masking is a defect of what queries see, in plans as in calls.
func masking(name string, plan func(s *backend.AttendShape), call func(b *backend.Ragged[*cpu.Buffer], m *backend.Mask[*cpu.Buffer])) defect {
	return defect{name, "attend", func(b *broken, be device) {
		b.plan = func(shape backend.AttendShape) (backend.AttendPlan, error) {
			plan(&shape)
			return be.PlanAttend(shape)
		}
		b.attend = attending(be, func(_ backend.Stream, p *attendP) { call(&p.Batch, &p.Mask) })
		b.mass = weighingWith(be, func(_ backend.Stream, p *massP) { call(&p.Batch, &p.Mask) })
	}}
}

var maskDefects = []defect{
	masking("sees other chunks", func(s *backend.AttendShape) { s.Chunk = 0 },
		func(_ *backend.Ragged[*cpu.Buffer], m *backend.Mask[*cpu.Buffer]) { m.Chunk = 0 }),
	masking("takes a chunk for a window", func(s *backend.AttendShape) { s.Chunk = 0 },
		func(_ *backend.Ragged[*cpu.Buffer], m *backend.Mask[*cpu.Buffer]) {
			if m.Chunk > 0 {
				m.Window, m.Chunk = m.Chunk, 0
			}
		}),
	masking("sees nothing after itself in a window", func(s *backend.AttendShape) { s.NonCausal = s.NonCausal && s.Window == 0 },
		func(_ *backend.Ragged[*cpu.Buffer], m *backend.Mask[*cpu.Buffer]) {
			m.NonCausal = m.NonCausal && m.Window == 0
		}),
	masking("has queries where tokens are", func(s *backend.AttendShape) { s.Views = nil },
		func(b *backend.Ragged[*cpu.Buffer], _ *backend.Mask[*cpu.Buffer]) {
			b.Views = backend.Opt[*cpu.Buffer]{}
		}),
	masking("shows a draft what lies before it", func(s *backend.AttendShape) { s.TreeWords = 0 },
		func(b *backend.Ragged[*cpu.Buffer], _ *backend.Mask[*cpu.Buffer]) {
			b.Tree = backend.Opt[*cpu.Buffer]{}
		}),
	{"believes every view", "bad ids", func(b *broken, be device) {
		b.attend = func(s backend.Stream, p attendP) error {
			if err := be.Attend(s, p); !p.Batch.Views.Set || !errors.Is(err, backend.ErrArgument{}) {
				return err
			}
			return nil
		}
	}},
}

// causalOnly is a device that lists no mask that not every device has.
type causalOnly struct{ device }

func (d causalOnly) Caps() backend.Caps {
	caps := d.device.Caps()
	caps.AnyBlockSize, caps.Chunk, caps.Views, caps.TreeWords = false, false, false, 0
	return caps
}

// A case of what a device does not list is skipped, and says what that is.
func TestMasksThatAreNotListedAreSkipped(t *testing.T) {
	be, err := cpu.Open(cpu.Options{Threads: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, be.Close()) }()
	b := bench[*cpu.Buffer]{be: causalOnly{be}}
	chunks := small("chunks", sequence{1, 20})
	chunks.mask.chunk = 8
	wide := small("both ways", sequence{1, 20})
	wide.mask.nonCausal, wide.mask.window = true, 8
	tree := small("tree", sequence{2, 20})
	tree.grow(0, -1, 0)
	blocks := small("blocks of 24", sequence{1, 20})
	blocks.layout.block = 24
	for why, s := range map[string]attendSpec{"lists no chunks": chunks, "lists no views": wide, "lists trees of 0 words": tree,
		"does not list block size 24": blocks, "the device lists no views": mixed("mixed")} {
		var skip skipped
		require.ErrorAs(t, b.attempt(func(r *rig[*cpu.Buffer]) { checkAttend(r, s) }), &skip)
		require.Contains(t, skip.why, why)
	}
	require.NoError(t, b.attempt(func(r *rig[*cpu.Buffer]) { checkAttend(r, small("plain", sequence{1, 20})) }))
	grid := listedAxes(b.be.Caps())
	require.Equal(t, [2]int{len(maskAxis), len(layoutAxis)}, [2]int{len(grid.masks), len(grid.layouts)}, "the grid has what the device lists")
	all := listedAxes(be.Caps())
	require.Equal(t, [3]int{len(maskAxis) + 2, len(layoutAxis) + 2, len(dimAxis) + 2}, [3]int{len(all.masks), len(all.layouts), len(all.dims)})
}
