package backendtest

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/stretchr/testify/require"
)

type (
	device   = backend.Backend[*cpu.Buffer]
	appendP  = backend.AppendParams[*cpu.Buffer]
	attendP  = backend.AttendParams[*cpu.Buffer]
	massP    = backend.AttendScoresParams[*cpu.Buffer]
	mergeP   = backend.MergeParams[*cpu.Buffer]
	gatherP  = backend.GatherParams[*cpu.Buffer]
	clearP   = backend.ClearScoresParams[*cpu.Buffer]
	copyP    = backend.CopyBlocksParams[*cpu.Buffer]
	moveP    = backend.MoveSlotsParams[*cpu.Buffer]
	convertP = backend.ConvertBlocksParams[*cpu.Buffer]
	rotateP  = backend.RotateParams[*cpu.Buffer]
)

// broken is a CPU with a defect: methods that are set replace the CPU's.
type broken struct {
	device
	alloc   func(dt backend.DType, n int) (*cpu.Buffer, error)
	free    func(b *cpu.Buffer) error
	upload  func(s backend.Stream, b *cpu.Buffer, off int, src []byte) error
	fill    func(s backend.Stream, b *cpu.Buffer, off, n int, v float64) error
	append  func(s backend.Stream, p appendP) error
	plan    func(s backend.AttendShape) (backend.AttendPlan, error)
	attend  func(s backend.Stream, p attendP) error
	mass    func(s backend.Stream, p massP) error
	merge   func(s backend.Stream, p mergeP) error
	gather  func(s backend.Stream, p gatherP) error
	copy    func(s backend.Stream, p copyP) error
	move    func(s backend.Stream, p moveP) error
	convert func(s backend.Stream, p convertP) error
	rotate  func(s backend.Stream, p rotateP) error
	clear   func(s backend.Stream, p clearP) error
}

func (b *broken) Alloc(dt backend.DType, n int) (*cpu.Buffer, error) { return b.alloc(dt, n) }
func (b *broken) Free(buf *cpu.Buffer) error                         { return b.free(buf) }
func (b *broken) Upload(s backend.Stream, buf *cpu.Buffer, off int, src []byte) error {
	return b.upload(s, buf, off, src)
}
func (b *broken) Fill(s backend.Stream, buf *cpu.Buffer, off, n int, v float64) error {
	return b.fill(s, buf, off, n, v)
}
func (b *broken) Append(s backend.Stream, p appendP) error { return b.append(s, p) }
func (b *broken) PlanAttend(s backend.AttendShape) (backend.AttendPlan, error) {
	return b.plan(s)
}
func (b *broken) Attend(s backend.Stream, p attendP) error         { return b.attend(s, p) }
func (b *broken) AttendScores(s backend.Stream, p massP) error     { return b.mass(s, p) }
func (b *broken) Merge(s backend.Stream, p mergeP) error           { return b.merge(s, p) }
func (b *broken) Gather(s backend.Stream, p gatherP) error         { return b.gather(s, p) }
func (b *broken) CopyBlocks(s backend.Stream, p copyP) error       { return b.copy(s, p) }
func (b *broken) MoveSlots(s backend.Stream, p moveP) error        { return b.move(s, p) }
func (b *broken) ConvertBlocks(s backend.Stream, p convertP) error { return b.convert(s, p) }
func (b *broken) Rotate(s backend.Stream, p rotateP) error         { return b.rotate(s, p) }
func (b *broken) ClearScores(s backend.Stream, p clearP) error     { return b.clear(s, p) }

func newBroken(be device) *broken {
	return &broken{be, be.Alloc, be.Free, be.Upload, be.Fill, be.Append, be.PlanAttend, be.Attend, be.AttendScores, be.Merge, be.Gather,
		be.CopyBlocks, be.MoveSlots, be.ConvertBlocks, be.Rotate, be.ClearScores}
}

// changed is buffer content of a device, edited by a defect.
func changed[T backend.Number](be device, s backend.Stream, b *cpu.Buffer, n int, edit func(v []T)) error {
	data := make([]T, n)
	if err := backend.Download(be, s, data, b, 0); err != nil {
		return err
	}
	edit(data)
	return backend.Upload(be, s, b, 0, data)
}

// defect is a mistake that real kernels make, and the room that must see it.
type defect struct {
	name, room string
	breakIt    func(b *broken, be device)
}

var defects = []defect{
	{"loses the last byte of an upload", "memory", func(b *broken, be device) {
		b.upload = func(s backend.Stream, buf *cpu.Buffer, off int, src []byte) error {
			if len(src) == bytesOf(backend.F32, 42) {
				src = src[:len(src)-4]
			}
			return be.Upload(s, buf, off, src)
		}
	}},
	{"fills one element too many", "memory", func(b *broken, be device) {
		b.fill = func(s backend.Stream, buf *cpu.Buffer, off, n int, v float64) error {
			return be.Fill(s, buf, off, min(n+1, buf.Len()-off), v)
		}
	}},
	{"leaks", "memory", func(b *broken, be device) {
		b.alloc = func(dt backend.DType, n int) (*cpu.Buffer, error) {
			_, _ = be.Alloc(dt, 1)
			return be.Alloc(dt, n)
		}
	}},
	{"accepts a double free", "lifetime", func(b *broken, be device) {
		b.free = func(buf *cpu.Buffer) error {
			_ = be.Free(buf)
			return nil
		}
	}},
	{"skips the last row", "append", func(b *broken, be device) {
		b.append = func(s backend.Stream, p appendP) error {
			p.Tokens--
			return be.Append(s, p)
		}
	}},
	{"pairs elements the other way", "append", func(b *broken, be device) {
		b.append = func(s backend.Stream, p appendP) error {
			p.Rotary.Pairing = 1 - p.Rotary.Pairing
			return be.Append(s, p)
		}
	}},
	{"leaves the queries unrotated", "append", func(b *broken, be device) {
		b.append = func(s backend.Stream, p appendP) error {
			p.QHeads = 0
			return be.Append(s, p)
		}
	}},
	{"forgets the magnitude", "append", func(b *broken, be device) {
		b.append = func(s backend.Stream, p appendP) error {
			p.Rotary.Magnitude = 1
			return be.Append(s, p)
		}
	}},
	{"turns all of the head", "rotate", func(b *broken, be device) {
		b.rotate = func(s backend.Stream, p rotateP) error {
			p.Rotary.Dims, p.Rotary.Positions = 2*p.Rotary.Dims, p.Rotary.Positions/2
			return be.Rotate(s, p)
		}
	}},
	{"clears all slots but one", "mass", func(b *broken, be device) {
		b.clear = func(s backend.Stream, p clearP) error {
			p.N = max(p.N-2, 0)
			return be.ClearScores(s, p)
		}
	}},
	{"gathers attention scores from the start", "mass", func(b *broken, be device) {
		b.gather = func(s backend.Stream, p gatherP) error {
			if p.Scores.Set {
				p.ScoresOffset = 0
			}
			return be.Gather(s, p)
		}
	}},
	{"gathers from the start", "gather", func(b *broken, be device) {
		b.gather = func(s backend.Stream, p gatherP) error {
			p.Begin = 0
			return be.Gather(s, p)
		}
	}},
	{"copies a wrong block", "move", func(b *broken, be device) {
		b.copy = func(s backend.Stream, p copyP) error {
			if p.N == 0 {
				return be.CopyBlocks(s, p)
			}
			err := changed(be, s, p.Pairs, 2*p.N, func(v []uint32) { v[0]++ })
			err = errors.Join(err, be.CopyBlocks(s, p))
			return errors.Join(err, changed(be, s, p.Pairs, 2*p.N, func(v []uint32) { v[0]-- }))
		}
	}},
	{"moves slots in another order", "move", func(b *broken, be device) {
		b.move = func(s backend.Stream, p moveP) error {
			err := changed(be, s, p.Pairs, 2*max(p.N, 0), reversePairs)
			err = errors.Join(err, be.MoveSlots(s, p))
			return errors.Join(err, changed(be, s, p.Pairs, 2*max(p.N, 0), reversePairs))
		}
	}},
	{"plans by the scratch", "plan", func(b *broken, be device) {
		b.plan = func(shape backend.AttendShape) (backend.AttendPlan, error) {
			p, err := be.PlanAttend(shape)
			p.Workspace += cap(shape.Work)
			return p, err
		}
	}},
	{"takes the window by one too wide", "attend", func(b *broken, be device) {
		b.plan = func(shape backend.AttendShape) (backend.AttendPlan, error) {
			if shape.Window > 0 {
				shape.Window++
			}
			return be.PlanAttend(shape)
		}
		b.attend = attending(be, func(_ backend.Stream, p *attendP) {
			if p.Mask.Window > 0 {
				p.Mask.Window++
			}
		})
	}},
	{"shows all keys for a part of them", "attend", func(b *broken, be device) {
		b.plan = func(shape backend.AttendShape) (backend.AttendPlan, error) {
			shape.Part, shape.Residual = backend.AllKeys, 0
			return be.PlanAttend(shape)
		}
		b.attend = attending(be, func(_ backend.Stream, p *attendP) { p.Mask.Part, p.Mask.Residual = backend.AllKeys, 0 })
	}},
	{"takes one more token for recent", "attend", func(b *broken, be device) {
		b.plan = func(shape backend.AttendShape) (backend.AttendPlan, error) {
			if shape.Residual > 0 && shape.Residual < math.MaxInt {
				shape.Residual++
			}
			return be.PlanAttend(shape)
		}
		b.attend = attending(be, func(_ backend.Stream, p *attendP) {
			if p.Mask.Residual > 0 && p.Mask.Residual < math.MaxInt {
				p.Mask.Residual++
			}
		})
	}},
	{"has NaN for an empty context", "attend", func(b *broken, be device) {
		b.attend = func(s backend.Stream, p attendP) error {
			if err := be.Attend(s, p); err != nil || p.Batch.QueryOffsets.Set {
				return err
			}
			lens := make([]uint32, p.Batch.Seqs)
			err := backend.Download(be, s, lens, p.Batch.ContextLens, 0)
			for i, n := range lens {
				if n == 0 && err == nil && p.Out.Rows.Stride == 0 {
					width := p.QHeads * p.Cache.V.Dim
					err = be.Fill(s, p.Out.Rows.Buf, p.Out.Rows.Offset+i*width, width, math.NaN())
				}
			}
			return err
		}
	}},
	{"reads beyond the context", "attend", func(b *broken, be device) {
		onwards := func(lens []uint32, block int) []uint32 {
			more := slices.Clone(lens)
			for i, n := range lens {
				if n%uint32(block) != 0 {
					more[i]++
				}
			}
			return more
		}
		b.plan = func(shape backend.AttendShape) (backend.AttendPlan, error) {
			shape.ContextLens = onwards(shape.ContextLens, shape.BlockSize)
			return be.PlanAttend(shape)
		}
		b.attend = func(s backend.Stream, p attendP) error {
			lens := make([]uint32, p.Batch.Seqs)
			err := backend.Download(be, s, lens, p.Batch.ContextLens, 0)
			err = errors.Join(err, backend.Upload(be, s, p.Batch.ContextLens, 0, onwards(lens, p.Cache.BlockSize)))
			err = errors.Join(err, be.Attend(s, p))
			return errors.Join(err, backend.Upload(be, s, p.Batch.ContextLens, 0, lens))
		}
	}},
	{"ignores the soft-cap", "attend", func(b *broken, be device) {
		b.attend = attending(be, func(_ backend.Stream, p *attendP) { p.Mask.SoftCap = 0 })
	}},
	{"ignores the slopes", "attend", func(b *broken, be device) {
		b.attend = attending(be, func(_ backend.Stream, p *attendP) { p.Mask.ALiBi.Set = false })
	}},
	{"ignores the sink logits", "attend", func(b *broken, be device) {
		b.attend = attending(be, func(_ backend.Stream, p *attendP) { p.Mask.SinkLogits.Set = false })
	}},
	{"ignores the sink tokens", "attend", func(b *broken, be device) {
		b.attend = attending(be, func(_ backend.Stream, p *attendP) { p.Mask.SinkTokens = 0 })
		b.plan = func(shape backend.AttendShape) (backend.AttendPlan, error) {
			shape.SinkTokens = 0
			return be.PlanAttend(shape)
		}
	}},
	{"ignores the log-sum-exp's offset", "attend", func(b *broken, be device) {
		b.attend = attending(be, func(_ backend.Stream, p *attendP) { p.Out.LSEOffset = 0 })
	}},
	{"sets the attention scores instead of adding", "attend", func(b *broken, be device) {
		b.attend = attending(be, func(s backend.Stream, p *attendP) {
			if p.Out.Scores.Set {
				_ = be.Fill(s, p.Out.Scores.Buf, 0, p.Cache.Blocks*p.Cache.KVHeads*p.Cache.BlockSize, 0)
			}
		})
	}},
	{"changes the queries", "attend", func(b *broken, be device) {
		b.attend = func(s backend.Stream, p attendP) error {
			err := be.Attend(s, p)
			return errors.Join(err, be.Fill(s, p.Q.Buf, p.Q.Offset, 1, 0))
		}
	}},
	{"ignores the stride", "attend", func(b *broken, be device) {
		b.attend = attending(be, func(_ backend.Stream, p *attendP) { p.Out.Rows.Stride = 0 })
	}},
	{"ignores the offset of given log-sum-exps", "attend", func(b *broken, be device) {
		b.mass = weighingWith(be, func(_ backend.Stream, p *massP) { p.LSEOffset = 0 })
	}},
	{"has log-sum-exps of its own instead of given ones", "attend", func(b *broken, be device) {
		last := map[*cpu.Buffer]attendP{}
		b.attend = attending(be, func(_ backend.Stream, p *attendP) { last[p.Q.Buf] = *p })
		b.mass = func(s backend.Stream, p massP) error {
			own := last[p.Q.Buf]
			own.Out.Scores = backend.Some(p.Scores)
			return be.Attend(s, own)
		}
	}},
	{"leaves out the mass of recent keys", "attend", func(b *broken, be device) {
		b.mass = func(s backend.Stream, p massP) error {
			if p.Mask.Part == backend.ResidualKeys {
				return nil
			}
			return be.AttendScores(s, p)
		}
	}},
	{"gives mass for log-sum-exps of -Inf", "attend", func(b *broken, be device) {
		b.mass = func(s backend.Stream, p massP) error {
			n := p.Batch.Tokens * p.QHeads
			lse := make([]float32, n)
			err := backend.Download(be, s, lse, p.LSE, p.LSEOffset)
			bounded := slices.Clone(lse)
			for i, v := range lse {
				bounded[i] = max(v, -50)
			}
			err = errors.Join(err, backend.Upload(be, s, p.LSE, p.LSEOffset, bounded))
			err = errors.Join(err, be.AttendScores(s, p))
			return errors.Join(err, backend.Upload(be, s, p.LSE, p.LSEOffset, lse))
		}
	}},
	{"sets the mass under given log-sum-exps instead of adding", "attend", func(b *broken, be device) {
		b.mass = weighingWith(be, func(s backend.Stream, p *massP) {
			_ = be.Fill(s, p.Scores, 0, p.Cache.Blocks*p.Cache.KVHeads*p.Cache.BlockSize, 0)
		})
	}},
	{"takes a plan that was not made for mass", "bad input", func(b *broken, be device) {
		b.mass = func(s backend.Stream, p massP) error {
			p.Plan.Scores = true
			return be.AttendScores(s, p)
		}
	}},
	{"forgets the last part", "merge", func(b *broken, be device) {
		b.merge = func(s backend.Stream, p mergeP) error {
			if p.Parts > 1 {
				p.Parts--
			}
			return be.Merge(s, p)
		}
	}},
	{"hides errors", "bad input", func(b *broken, be device) {
		b.append = func(s backend.Stream, p appendP) error {
			_ = be.Append(s, p)
			return nil
		}
	}},
	{"panics on bad input", "bad input", func(b *broken, be device) {
		b.merge = func(s backend.Stream, p mergeP) error {
			if err := be.Merge(s, p); err != nil {
				panic(err)
			}
			return nil
		}
	}},
	{"hides bad ids", "bad ids", func(b *broken, be device) {
		b.copy = func(s backend.Stream, p copyP) error {
			_ = be.CopyBlocks(s, p)
			return nil
		}
	}},
	{"allocates in every step", "allocations", func(b *broken, be device) {
		b.merge = func(s backend.Stream, p mergeP) error {
			garbage = make([]byte, p.Parts)
			return be.Merge(s, p)
		}
	}},
}

var garbage []byte // where a defect lets an allocation escape to

func reversePairs(v []int64) {
	slices.Reverse(v)
	for i := 0; i < len(v); i += 2 {
		v[i], v[i+1] = v[i+1], v[i]
	}
}

// attending is a CPU's Attend over changed parameters.
func attending(be device, change func(s backend.Stream, p *attendP)) func(backend.Stream, attendP) error {
	return func(s backend.Stream, p attendP) error {
		change(s, &p)
		return be.Attend(s, p)
	}
}

// weighingWith is a CPU's AttendScores over changed parameters.
func weighingWith(be device, change func(s backend.Stream, p *massP)) func(backend.Stream, massP) error {
	return func(s backend.Stream, p massP) error {
		change(s, &p)
		return be.AttendScores(s, p)
	}
}

func TestDefectsAreCaught(t *testing.T) {
	testsize.Long(t)
	for _, d := range slices.Concat(quantizedDefects, latentDefects, maskDefects, defects) {
		t.Run(d.name, func(t *testing.T) {
			if race.Enabled && d.room == "allocations" {
				t.Skip("the race detector allocates")
			}
			be, err := cpu.Open(cpu.Options{Threads: 2})
			require.NoError(t, err)
			defer func() { require.NoError(t, be.Close()) }()
			dev := newBroken(be)
			d.breakIt(dev, be)
			caught := firstFailure(t, dev, d.room)
			require.Error(t, caught, "no check of %q has noticed", d.room)
			t.Logf("caught: %.300v", caught)
		})
	}
}

// firstFailure runs the checks of a room until one fails.
func firstFailure(t *testing.T, dev device, name string) error {
	b := bench[*cpu.Buffer]{be: dev, open: func() device {
		other, err := cpu.Open(cpu.Options{Threads: 1})
		require.NoError(t, err)
		return other
	}}
	_, err := b.first(Options{Grid: NoGrid, MaxWork: 1 << 21}, func(room, _ string) bool { return room == name })
	return err
}
