package kvcache

import (
	"bytes"
	"io"
	"os"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/golden"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/stretchr/testify/require"
)

const savedFile = "testdata/version1.snap"

// A file of version 1 is read by every later version, in both layouts.
func TestFileOfVersion1(t *testing.T) {
	if testDevice().HeadDims != nil {
		t.Skip("the device does not compute the file's heads")
	}
	cfg := signed(small(Paged))
	cfg.Model.HeadDim, cfg.Model.VHeadDim, cfg.Storage.K = 8, 4, backend.Int8
	cfg.Model.Act = backend.F32
	r := deviceRig(t, cfg)
	x, y := r.open(), (*Sequence[buffer])(nil)
	require.NoError(t, r.feed(feed[buffer]{x, sequence(1, 11)}))
	y, err := x.Fork()
	require.NoError(t, err)
	require.NoError(t, r.feed(feed[buffer]{y, sequence(100, 3)}))
	if os.Getenv(golden.Env) == "write" {
		require.NoError(t, os.WriteFile(savedFile, r.save(x, y), 0o644))
	}
	stream, err := os.ReadFile(savedFile)
	require.NoError(t, err)
	for _, layout := range []Layout{Paged, Contiguous} {
		if cfg.Memory.Layout = layout; layout == Contiguous {
			cfg.Memory.BlockSize = 0
		}
		o := deviceRig(t, cfg)
		got := o.load(stream)
		requireSame(r, o, x, got[0])
		requireSame(r, o, y, got[1])
		o.release(got...)
		o.close()
	}
	r.release(x, y)
	r.close()
}

// modelSized is a pool whose rows are as long as those of models.
func modelSized(t testT, layout Layout) (*rig[buffer], *Sequence[buffer]) {
	cfg := signed(Config{Model: Model{Layers: 4, QHeads: 8, KVHeads: 8, HeadDim: 128}, Storage: Storage{K: backend.F16},
		Memory: Memory{Layout: layout, Capacity: 2048, MaxSeqs: 2}})
	r := deviceRig(t, cfg)
	x := r.open()
	const n = 1000
	require.NoError(t, r.plan(r.s, feed[buffer]{x, sequence(1, n)}))
	rows := make([]float32, n*8*128)
	for i := range rows {
		rows[i] = float32(i % 1021)
	}
	k, v := r.vector(r.s, rows), r.vector(r.s, rows)
	for l := range cfg.Model.Layers {
		require.NoError(t, r.step.Append(l, kv(k, v)))
	}
	require.NoError(t, r.step.Commit())
	r.free(k, v)
	return r, x
}

// What a stream has besides keys and values is less than a hundredth of it, in chunks that come by their tokens.
func TestSavedSize(t *testing.T) {
	for _, layout := range []Layout{Paged, Contiguous} {
		r, x := modelSized(t, layout)
		token, err := r.pool.cfg.BytesPerToken()
		require.NoError(t, err)
		rows := int(token) * x.Len()
		stream := r.save(x)
		require.GreaterOrEqual(t, len(stream), rows)
		require.Less(t, float64(len(stream)-rows), 0.01*float64(rows))
		head, chunks := opened(t, stream)
		require.Greater(t, len(chunks), 10)
		requireByToken(t, head)
		require.NoError(t, x.Suspend())
		require.True(t, bytes.Equal(stream, r.save(x)), "of many chunks, too")
		r.release(x)
		r.close()
	}
}

// What a stream costs beside one copy of as many bytes in the same run: to nowhere, and from memory.
func BenchmarkSnapshot(b *testing.B) {
	for _, layout := range []Layout{Paged, Contiguous} {
		r, x := modelSized(b, layout)
		stream := r.save(x)
		b.Run("save/"+layout.String(), func(b *testing.B) {
			besideCopies(b, stream, func() {
				require.NoError(b, r.pool.Save(io.Discard, Saved[buffer]{Sequences: []*Sequence[buffer]{x}}, snapshot.Options{}))
			})
		})
		r.release(x)
		require.NoError(b, r.pool.Clear(true))
		b.Run("load/"+layout.String(), func(b *testing.B) {
			besideCopies(b, stream, func() {
				s, err := r.pool.ReadSequence(bytes.NewReader(stream))
				require.NoError(b, err)
				require.NoError(b, s.Release())
			})
		})
		r.close()
	}
}

// besideCopies measures do by turns with copies of the same bytes.
func besideCopies(b *testing.B, stream []byte, do func()) {
	to := make([]byte, len(stream))
	var copied time.Duration
	for b.Loop() {
		b.StopTimer()
		begin := time.Now()
		copy(to, stream)
		copied += time.Since(begin)
		b.StartTimer()
		do()
	}
	b.SetBytes(int64(len(stream)))
	b.ReportMetric(copied.Seconds()/b.Elapsed().Seconds(), "of-copy")
}
