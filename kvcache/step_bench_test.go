//go:build unix

package kvcache_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// BenchmarkStepSmall is what a step costs that has next to nothing to do: one sequence, its first
// token, 5 layers of 8 query heads and 4 KV heads of 8 elements, as the demo model has them.
// Cutting the sequence back to nothing is part of it. cpu-ns/step is the time of all
// processors, which tells whether others were woken for it.
func BenchmarkStepSmall(b *testing.B) {
	for _, layout := range []kvcache.Layout{kvcache.Contiguous, kvcache.Paged} {
		b.Run(layout.String()+"/typed", func(b *testing.B) {
			be, err := cpu.Open(cpu.Options{})
			require.NoError(b, err)
			smallSteps(b, be, layout)
		})
		b.Run(layout.String()+"/erased", func(b *testing.B) {
			be, err := backend.Open("cpu")
			require.NoError(b, err)
			smallSteps(b, be, layout)
		})
	}
}

func smallSteps[B backend.Buffer](b *testing.B, be backend.Backend[B], layout kvcache.Layout) {
	const layers, qHeads, kvHeads, dim = 5, 8, 4, 8
	defer be.Close()
	pool, err := kvcache.NewPool(be, kvcache.Config{
		Model:   kvcache.Model{Layers: layers, QHeads: qHeads, KVHeads: kvHeads, HeadDim: dim, RoPE: &backend.RoPE{}},
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: layout, Capacity: 512, MaxSeqs: 2},
	})
	require.NoError(b, err)
	defer pool.Close()
	s, err := be.NewStream()
	require.NoError(b, err)
	seq, _, err := pool.Open(nil, kvcache.OpenOptions{})
	require.NoError(b, err)
	rows := func(heads int) B {
		buf, err := backend.AllocFrom(be, s, backend.F32, make([]float32, heads*dim))
		require.NoError(b, err)
		return buf
	}
	io, token := kvcache.Dense(rows(qHeads), rows(kvHeads), rows(kvHeads), rows(qHeads)), []uint32{7}
	io.Rotate = true
	step := pool.NewBatch()
	do := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	one := func() {
		do(step.Reset())
		do(seq.Truncate(0))
		do(step.Add(seq, token))
		do(step.Plan(s))
		for l := range layers {
			do(step.Append(l, io))
			do(step.Attend(l, io))
		}
		do(step.Commit())
	}
	one()
	b.ReportAllocs()
	least, before := time.Hour, processorTime(b)
	for b.Loop() {
		start := time.Now()
		for range 10 {
			one()
		}
		least = min(least, time.Since(start)/10)
	}
	b.ReportMetric(float64(processorTime(b)-before)/float64(10*b.N), "cpu-ns/step")
	b.ReportMetric(float64(b.Elapsed())/float64(10*b.N), "ns/step")
	b.ReportMetric(float64(least), "least-ns/step")
	b.ReportMetric(0, "ns/op")
}

// processorTime is that of the process on all processors.
func processorTime(tb testing.TB) time.Duration {
	var u unix.Rusage
	require.NoError(tb, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
