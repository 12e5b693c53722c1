package schedule

import (
	"context"
	"fmt"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/stretchr/testify/require"
)

// idle is a model that computes nothing.
type idle struct{}

func (idle) Forward(s *Step[buffer]) error {
	_, err := s.Batch.Metadata(0)
	return err
}

func (idle) Next(*Step[buffer], int) (uint32, bool, error) { return 7, false, nil }

// decoding is n requests that have their first token; each turn gives each of them one more.
func decoding(t testing.TB, n int) (turn func()) {
	t.Helper()
	cfg := kvcache.Config{
		Model:   kvcache.Model{Layers: 1, KVHeads: 1, HeadDim: 1, Act: backend.F32},
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: kvcache.Paged, BlockSize: 16, Capacity: 1 << 15, MaxSeqs: n},
	}
	r := newRig(t, openCPU(t), cfg, Options{})
	s, err := New[buffer](idle{}, r.pool, r.batch, r.stream, Options{})
	require.NoError(t, err)
	t.Cleanup(func() {
		s.Drain()
		for _, q := range s.queue {
			q.answer.Cancel()
		}
		require.NoError(t, s.Run(context.Background()))
		r.close()
	})
	turn = func() {
		s.collect()
		s.admit()
		s.advance()
		for range n - len(s.queue) {
			_, err := s.Submit(context.Background(), Request{Prompt: []uint32{uint32(n)}, MaxTokens: 1 << 14})
			require.NoError(t, err)
		}
	}
	turn()
	turn()
	return turn
}

// BenchmarkStep is what the scheduler and the pool add to a step of so many answers.
func BenchmarkStep(b *testing.B) {
	for _, n := range []int{1, 8, 32} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			turn := decoding(b, n)
			b.ReportAllocs()
			for b.Loop() {
				turn()
			}
		})
	}
}

// A step of answers allocates nothing, but for lists that grow now and then.
func TestStepAllocates(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	turn := decoding(t, 8)
	require.Less(t, testing.AllocsPerRun(200, turn), 1.0)
}
