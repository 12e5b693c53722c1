package kvcache

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// The step whose host part is measured: sequences of 1024 to 8192 tokens.
const hostSeqs, hostContext = 64, 8192

// hostPools are the pools that it is measured in: layers that are alike, a layer with a window beside one without, and
// last tokens that are not quantized yet.
func hostPools() (names []string, of map[string]Config) {
	plain := Config{
		Model:  Model{Layers: 2, QHeads: 32, KVHeads: 8, HeadDim: 128},
		Memory: Memory{Layout: Paged, Capacity: hostContext + 16, MaxSeqs: hostSeqs},
	}
	window, residual := plain, plain
	window.Model.Groups = []config.Group{{Kind: group.Window, Layers: []int{0}, Window: 1024}, {Layers: []int{1}}}
	window.Memory.Rollback = 16 // the benchmark goes back by as many
	residual.Storage = Storage{K: backend.Int8, V: backend.Int8, Residual: 128}
	return []string{"plain", "window", "residual"}, map[string]Config{"plain": plain, "window": window, "residual": residual}
}

// newHostRig is a rig of the layers of a model with its sequences, on a driver that does
// nothing. It skips the benchmark on other devices, whose own time would be in its figures.
func newHostRig(b *testing.B, cfg Config) (*rig[buffer], []*Sequence[buffer]) {
	if !strings.Contains(testDevice().Device, "null") {
		b.Skipf("%s does not name the null driver (make bench-cuda-host)", envTestDevice)
	}
	r := deviceRig(b, cfg)
	seqs := make([]*Sequence[buffer], hostSeqs)
	for i := range seqs {
		seqs[i] = r.open()
		prompt := make([]uint32, 1024+(hostContext-1024)*(i*37%hostSeqs)/(hostSeqs-1))
		for j := range prompt {
			prompt[j] = uint32(i + j)
		}
		for piece := range slices.Chunk(prompt, config.DefaultStepTokens) { // none is long where last tokens are not quantized
			require.NoError(b, r.plan(r.s, feed[buffer]{seqs[i], piece}))
			require.NoError(b, r.commit())
		}
	}
	return r, seqs
}

// begin begins a step that gives each sequence a token.
func begin(r *rig[buffer], seqs []*Sequence[buffer], token []uint32) error {
	err := r.step.Reset()
	for _, s := range seqs {
		err = cmp.Or(err, r.step.Add(s, token))
	}
	return err
}

// BenchmarkHostStep is what the host pays for a decode step of 64 sequences. "step" is all but
// the operations of the layers: least-ns/op in the fastest 16 steps, in which every sequence fills
// a block, and least-plan-ns/op what Batch.Plan took of it. "fill", "divide" and "upload" are
// parts of Plan, "append" and "attend" a layer's, least-ns/op those of the fastest 20 calls. With a window and a full layer
// those are of the first, and its part.
func BenchmarkHostStep(b *testing.B) {
	names, pools := hostPools()
	for _, name := range names {
		b.Run(name, func(b *testing.B) { hostStep(b, pools[name]) })
	}
}

func hostStep(b *testing.B, cfg Config) {
	r, seqs := newHostRig(b, cfg)
	token := []uint32{7}
	lens := make([]int, len(seqs))
	for i, s := range seqs {
		lens[i] = s.Len()
	}
	b.Run("step", func(b *testing.B) {
		b.ReportAllocs()
		var plan, all, leastPlan, least time.Duration // of the steps in which each sequence fills a block
		for i := 0; b.Loop(); i++ {
			if i%16 == 0 { // back to the beginning
				b.StopTimer()
				if i == 16 || i > 0 && all < least {
					leastPlan, least = plan, all
				}
				plan, all = 0, 0
				for i, s := range seqs {
					require.NoError(b, s.Truncate(lens[i]))
				}
				b.StartTimer()
			}
			start := time.Now()
			err := begin(r, seqs, token)
			begun := time.Now()
			err = cmp.Or(err, r.step.Plan(r.s))
			plan += time.Since(begun)
			if err = cmp.Or(err, r.commit()); err != nil {
				b.Fatal(err)
			}
			all += time.Since(start)
		}
		b.ReportMetric(float64(least.Nanoseconds())/16, "least-ns/op")
		b.ReportMetric(float64(leastPlan.Nanoseconds())/16, "least-plan-ns/op")
	})
	for i, s := range seqs {
		require.NoError(b, s.Truncate(lens[i]))
	}
	rows := func(heads int) buffer {
		buf, err := r.be.Alloc(backend.F16, hostSeqs*heads*128)
		require.NoError(b, err)
		return buf
	}
	k, q, out := rows(8), rows(32), rows(32)
	written, read := kv(k, k), attending(q, out) // filled in once, as runners do
	require.NoError(b, begin(r, seqs, token))
	require.NoError(b, r.step.Plan(r.s))
	t, _ := r.step.step.Of(0)
	for _, part := range []struct {
		name string
		do   func() error
	}{
		{"fill", func() error { t.Lay(); return nil }},
		{"divide", func() error { return t.Divide() }},
		{"upload", func() error { return t.Index.Upload(r.be, r.s) }},
		{"append", func() error { return r.step.Append(0, written) }},
		{"attend", func() error { return r.step.Attend(0, read) }},
	} {
		b.Run(part.name, func(b *testing.B) {
			b.ReportAllocs()
			const calls = 20
			least, start := time.Duration(math.MaxInt64), time.Now()
			for i := 1; b.Loop(); i++ {
				if err := part.do(); err != nil {
					b.Fatal(err)
				}
				if i%calls == 0 {
					now := time.Now()
					least, start = min(least, now.Sub(start)), now
				}
			}
			b.ReportMetric(float64(least.Nanoseconds())/calls, "least-ns/op")
		})
	}
	require.NoError(b, r.step.Reset())
	for _, s := range seqs {
		require.NoError(b, s.Release())
	}
	for _, buf := range []buffer{k, q, out} {
		require.NoError(b, r.be.Free(buf))
	}
	require.NoError(b, r.step.Close())
	r.close()
}
