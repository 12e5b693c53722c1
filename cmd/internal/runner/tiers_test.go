package runner

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/stretchr/testify/require"
)

// ofBlocks is a prompt of little that fills that many blocks of 4 tokens, and one token more.
func ofBlocks(blocks int) Prompt {
	var p Prompt
	for i := range 4*blocks + 1 {
		p.Tokens = append(p.Tokens, uint32(1+i*i%7+i%3))
	}
	return p
}

// tieredCache is blocks of 4 tokens above tiers.
func tieredCache(tiers config.Tiers) kvcache.Config {
	return kvcache.Config{Memory: kvcache.Memory{BlockSize: 4, MaxSeqs: 2}, Tiers: tiers}
}

// tieredRunner is a runner above tiers of the program's own.
func tieredRunner(t *testing.T, be backend.Backend[backend.AnyBuffer], m *Model, tiers ...tier.Tier) *Runner[backend.AnyBuffer] {
	r := newRunner(t, be, m, Options{Cache: tieredCache(config.Tiers{More: tiers})})
	t.Cleanup(func() { require.NoError(t, r.Pool().Flush(context.Background())) }) // what is copied is held
	return r
}

// What one runner left on the disk the next one does not compute, and its texts are the same, whatever is chosen by them.
func TestNextRunnerLoads(t *testing.T) {
	for _, s := range []Sampling{{}, {Temperature: 1, TopP: 0.9, Seed: 7}} {
		tiers := config.Tiers{Disk: config.Disk{Dir: t.TempDir(), Bytes: 8 << 20, Floor: 1}}
		m, be := endless(3), openDevice(t)
		m.Digest = func() []byte { return []byte("of its weights") }
		generate := func(cfg kvcache.Config, prompts ...Prompt) ([][]uint32, Report) {
			r, err := New(be, m, Options{Cache: cfg})
			require.NoError(t, err)
			out := make([][]uint32, len(prompts))
			report, err := r.Generate(t.Context(), prompts, 6, s, func(seq int, token uint32) error {
				out[seq] = append(out[seq], token)
				return nil
			})
			require.NoError(t, err)
			require.NoError(t, r.Close())
			return out, report
		}
		first, report := generate(tieredCache(tiers), ofBlocks(5))
		require.Equal(t, []int{21, 0}, []int{report.PrefillTokens, report.Matches[0].Cached})
		require.Zero(t, report.Load)

		again, report := generate(tieredCache(tiers), ofBlocks(5))
		require.Equal(t, first, again)
		require.Equal(t, []int{20}, report.Matches[0].Tiers)
		require.Equal(t, []int{1, 20, 1}, []int{report.PrefillTokens, report.Matches[0].Cached, report.Matches[0].Uncached})
		require.Positive(t, report.Load)

		// The second prompt finds what the first one brought, and what it did not have is computed once.
		both := []Prompt{ofBlocks(5), ofBlocks(7), ofBlocks(7)}
		plain, _ := generate(kvcache.Config{}, both...)
		got, report := generate(tieredCache(tiers), both...)
		require.Equal(t, plain, got)
		require.Equal(t, 1+9, report.PrefillTokens)
		require.Nil(t, report.Matches[1].Tiers)
		require.Equal(t, []int{20, 20, 29}, []int{report.Matches[0].Cached, report.Matches[1].Cached, report.Matches[2].Cached})

		// From now on the pool knows how fast the runner is: it may compute again what a tier has, but prints the same.
		more := append(ofBlocks(7).Tokens, 4, 5, 6)
		plain, _ = generate(kvcache.Config{}, ofBlocks(3), Prompt{Tokens: more})
		got, _ = generate(tieredCache(tiers), ofBlocks(3), Prompt{Tokens: more})
		require.Equal(t, plain, got)
	}
}

// failing is a tier that says that it has everything, and fails where it is asked for it or given more.
type failing struct {
	tier.Tier
	calls int
}

var errTier = errors.New("the tier has failed")

func (f *failing) Info() tier.Info   { return tier.Info{Name: "failing", Medium: tier.Disk} }
func (f *failing) Stats() tier.Stats { return tier.Stats{} }

func (f *failing) Has(_ context.Context, keys []tier.Key) (int, error) { return len(keys), nil }

func (f *failing) Get(context.Context, []tier.Block) (int, error) {
	f.calls++
	return 0, errTier
}

func (f *failing) Put(context.Context, []tier.Block) error { return errTier }

// A tier that fails, and a disk whose directory vanishes in the middle, change no text.
func TestTierThatFails(t *testing.T) {
	m := endless(3)
	m.Digest = func() []byte { return []byte("of its weights") }
	be := openDevice(t)
	r := newRunner(t, be, m, Options{})
	want, _, err := tokens(r, []Prompt{ofBlocks(5)}, 20, 0)
	require.NoError(t, err)

	bad := &failing{}
	r = tieredRunner(t, be, m, bad)
	for range 2 {
		got, _, err := tokens(r, []Prompt{ofBlocks(5)}, 20, 0)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.Positive(t, bad.calls)
	s, err := r.Pool().Stats()
	require.NoError(t, err)
	require.Positive(t, s.Tiers[0].Moves.Errors)
	require.Zero(t, s.Tiers[0].Tokens)

	dir := t.TempDir()
	r, err = New(be, m, Options{Cache: tieredCache(config.Tiers{Disk: config.Disk{Dir: dir, Bytes: 8 << 20, Floor: 1}})})
	require.NoError(t, err)
	var got []uint32
	_, err = r.Generate(t.Context(), []Prompt{ofBlocks(5)}, 20, Sampling{}, func(_ int, token uint32) error {
		if got = append(got, token); len(got) == 3 {
			_ = os.RemoveAll(dir) // Windows keeps what is open
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, want[0], got)
	_ = r.Close() // which says that the directory has gone, if it noticed
}

// A caller that stops waiting receives the error of the context, and nothing is left.
func TestStopWhileLoading(t *testing.T) {
	m := endless(3)
	be := openDevice(t)
	ctx, cancel := context.WithCancel(t.Context())
	hang := &hanging{cancel: cancel}
	r := tieredRunner(t, be, m, hang)
	_, err := r.Generate(ctx, []Prompt{ofBlocks(5)}, 20, Sampling{}, func(int, uint32) error { return nil })
	require.ErrorIs(t, err, context.Canceled)
}

// hanging is a tier that reads until its context ends.
type hanging struct {
	failing
	cancel func()
}

func (h *hanging) Get(ctx context.Context, _ []tier.Block) (int, error) {
	h.cancel()
	<-ctx.Done()
	return 0, ctx.Err()
}
