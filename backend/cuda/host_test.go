//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// openNull opens a driver that does nothing, or skips the benchmark: over any other, its
// figures would be of the driver and the device, too.
func openNull(b *testing.B) *Backend {
	be := open(b)
	if !strings.Contains(be.Info().Device, "null") {
		b.Skip("FERRUM_CUDA_DRIVER does not name the null driver (make bench-cuda-host)")
	}
	return be
}

// The heads of the model whose layer is measured.
const hostQHeads, hostKVHeads, hostDim, hostBlock = 32, 8, 128, 16

// decodeShape is a decode step of sequences of 1024 to 8192 tokens.
func decodeShape(seqs int) backend.AttendShape {
	s := backend.AttendShape{QHeads: hostQHeads, KVHeads: hostKVHeads, KDim: hostDim, VDim: hostDim, BlockSize: hostBlock, Format: launch.Formats[0]}
	for i := range seqs {
		s.ContextLens = append(s.ContextLens, uint32(1024+7168*(i*37%seqs)/seqs))
		s.QueryLens = append(s.QueryLens, 1)
	}
	return s
}

// mixedShape is a decode step with parts of two prompts and eight drafts in it.
func mixedShape(seqs int) backend.AttendShape {
	s := decodeShape(seqs)
	for i := range 8 {
		s.QueryLens[i] = 5
	}
	s.QueryLens[8], s.QueryLens[9] = 512, 512
	return s
}

// layer is the operands of one layer of a step over buffers of B.
type layer[B backend.Buffer] struct {
	be     backend.Backend[B]
	s      backend.Stream
	append backend.AppendParams[B]
	attend backend.AttendParams[B]
}

// newLayer is makeLayer for a benchmark.
func newLayer[B backend.Buffer](b *testing.B, be backend.Backend[B], shape backend.AttendShape) *layer[B] {
	l, err := makeLayer(be, shape)
	require.NoError(b, err)
	return l
}

// makeLayer is the operands of a decode step. The sequences share their blocks.
func makeLayer[B backend.Buffer](be backend.Backend[B], shape backend.AttendShape) (*layer[B], error) {
	s, failed := be.NewStream()
	alloc := func(dt backend.DType, n int) B {
		buf, err := be.Alloc(dt, n)
		failed = errors.Join(failed, err)
		return buf
	}
	plan, err := be.PlanAttend(shape)
	failed = errors.Join(failed, err)
	const blocks = 8192 / hostBlock
	seqs, act := len(shape.ContextLens), shape.Format.Act
	plane := func() backend.Plane[B] {
		return backend.Plane[B]{Data: alloc(shape.Format.K, blocks*hostBlock*hostKVHeads*hostDim), Dim: hostDim}
	}
	cache := backend.CacheView[B]{K: plane(), V: plane(), Blocks: blocks, KVHeads: hostKVHeads, BlockSize: hostBlock}
	rows := func(heads int) backend.Rows[B] { return backend.Dense(alloc(act, seqs*heads*hostDim)) }
	return &layer[B]{be: be, s: s,
		append: backend.AppendParams[B]{Cache: cache, Tokens: seqs, K: rows(hostKVHeads), V: rows(hostKVHeads), Slots: alloc(backend.I64, seqs)},
		attend: backend.AttendParams[B]{Cache: cache, Q: rows(hostQHeads), QHeads: hostQHeads, Scale: 0.1, Out: backend.Outputs[B]{Rows: rows(hostQHeads)},
			Batch: backend.Ragged[B]{Seqs: seqs, Tokens: seqs, Table: backend.Some(alloc(backend.U32, seqs*blocks)), TableStride: blocks,
				ContextLens: alloc(backend.U32, seqs), QueryOffsets: backend.Some(alloc(backend.U32, seqs+1))},
			Plan: plan, Work: backend.Some(alloc(backend.U32, len(plan.Work))), Workspace: backend.Some(alloc(backend.F32, max(plan.Workspace, 1)))}}, failed
}

// operations is what is measured.
func (l *layer[B]) operations() []operation {
	from, to := l.append.K.Buf, l.append.V.Buf
	return []operation{
		{"append", 1, func() error { return l.be.Append(l.s, l.append) }},
		{"attend", 2, func() error { return l.be.Attend(l.s, l.attend) }},
		{"copy", 0, func() error { return l.be.Copy(l.s, to, 0, from, 0, hostDim) }},
	}
}

type operation struct {
	name     string
	launches int // 0: one call of the driver that is no launch
	do       func() error
}

// bare is the call of the driver alone that an operation ends in.
func bare(b *testing.B, be *Backend) func() error {
	k, err := be.modules.find(launch.Attention(0, launch.Formats[0], hostDim, hostDim))
	require.NoError(b, err)
	s, err := be.ctx.NewStream()
	require.NoError(b, err)
	l := &driver.Launch{Func: k.fn, Stream: s, Grid: [3]uint32{64, hostKVHeads, 1}, Block: k.threads, Shared: k.shared, Count: 17, Size: 128}
	return func() error { return be.ctx.Launch(l) }
}

// BenchmarkHost is what the host pays for an operation on a layer of a step of 64
// sequences. beyond-ns/launch is what of it is ours for each launch: the least time of a call,
// less that of a launch by the driver package alone.
func BenchmarkHost(b *testing.B) {
	be := openNull(b)
	launchBare := bare(b, be)
	b.Run("bare launch", func(b *testing.B) { repeat(b, launchBare) })
	run := func(form string, s backend.Stream, operations []operation) {
		for _, o := range operations {
			b.Run(o.name+"/"+form, func(b *testing.B) {
				repeat(b, o.do)
				if o.launches > 0 {
					require.Len(b, s.(*stream).calls.List(), o.launches)
				}
				beyond := least(b, o.do)/float64(max(o.launches, 1)) - least(b, launchBare)
				b.ReportMetric(beyond, "beyond-ns/launch")
			})
		}
	}
	typed, erased := newLayer[*Buffer](b, be, decodeShape(64)), newLayer(b, backend.Erase[*Buffer](be), decodeShape(64))
	run("typed", typed.s, typed.operations())
	run("erased", erased.s, erased.operations())
}

func repeat(b *testing.B, do func() error) {
	b.ReportAllocs()
	for b.Loop() {
		if err := do(); err != nil {
			b.Fatal(err)
		}
	}
}

// least is the time of a call in ns, in the fastest of many rounds: on a machine with
// other work, that is the one that was not disturbed.
func least(b *testing.B, do func() error) float64 {
	const rounds, calls = 200, 500
	fastest := math.Inf(1)
	for range rounds {
		start := time.Now()
		for range calls {
			if err := do(); err != nil {
				b.Fatal(err)
			}
		}
		fastest = min(fastest, float64(time.Since(start).Nanoseconds())/calls)
	}
	return fastest
}

// BenchmarkHostPlan is the division of a step's attention, once for all layers.
func BenchmarkHostPlan(b *testing.B) {
	be := openNull(b)
	for _, c := range []struct {
		name  string
		shape backend.AttendShape
	}{{"decode", decodeShape(1)}, {"decode", decodeShape(64)}, {"decode", decodeShape(256)}, {"mixed", mixedShape(64)}} {
		b.Run(fmt.Sprintf("%s/seqs=%d", c.name, len(c.shape.ContextLens)), func(b *testing.B) {
			p, err := be.PlanAttend(c.shape)
			require.NoError(b, err)
			c.shape.Work = p.Work
			repeat(b, func() error {
				_, err := be.PlanAttend(c.shape)
				return err
			})
			b.ReportMetric(float64(p.Items), "items")
		})
	}
}
