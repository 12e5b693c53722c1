package backend_test

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
)

// nowhere is a device whose operations do nothing.
type nowhere struct{ backend.Backend[*named] }

func (nowhere) Append(backend.Stream, backend.AppendParams[*named]) error               { return nil }
func (nowhere) Attend(backend.Stream, backend.AttendParams[*named]) error               { return nil }
func (nowhere) Merge(backend.Stream, backend.MergeParams[*named]) error                 { return nil }
func (nowhere) ConvertBlocks(backend.Stream, backend.ConvertBlocksParams[*named]) error { return nil }

// BenchmarkErased is what an operation costs more in the erased form, with the operands of a decode step.
func BenchmarkErased(b *testing.B) {
	typed := nowhere{}
	be := backend.Erase[*named](typed)
	buf := backend.Wrap(&named{})
	cache := cacheOf(buf)
	quantized := cache
	quantized.K.Scales, quantized.V.Scales = backend.Some(buf), backend.Some(buf)
	append := appendOf(buf)
	append.Rotary.Table, append.Positions, append.QHeads, append.Q = backend.Some(buf), backend.Some(buf), 1, backend.Dense(buf)
	attend := attendOf(buf)
	attend.Batch.Table, attend.Batch.QueryOffsets, attend.Work, attend.Workspace = backend.Some(buf), backend.Some(buf), backend.Some(buf), backend.Some(buf)
	merge := backend.MergeParams[backend.AnyBuffer]{In: buf, LSE: buf, Out: backend.Dense(buf), OutLSE: backend.Some(buf)}
	convert := backend.ConvertBlocksParams[backend.AnyBuffer]{From: cache, To: quantized, Pairs: buf}
	for _, o := range []struct {
		name string
		do   func() error
	}{
		{"append", func() error { return be.Append(nil, append) }},
		{"attend", func() error { return be.Attend(nil, attend) }},
		{"merge", func() error { return be.Merge(nil, merge) }},
		{"convert blocks", func() error { return be.ConvertBlocks(nil, convert) }},
	} {
		b.Run(o.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := o.do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
