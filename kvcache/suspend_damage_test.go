package kvcache

import (
	"bytes"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/stretchr/testify/require"
)

// A suspended sequence whose host memory changed is neither resumed nor saved, in every layout, and can be released; with the original
// bytes it goes on.
func TestSuspendedDamage(t *testing.T) {
	for _, layout := range []Layout{Contiguous, Paged} {
		cfg := small(layout)
		cfg.Model.Digest = []byte("weights")
		r := deviceRig(t, cfg)
		x, _ := r.read(sequence(1, 23), OpenOptions{})
		require.NoError(t, r.prefill(r.s, x))
		want := r.save(x.seq)
		require.NoError(t, x.seq.Suspend())
		there := x.seq.runs.Held(0, 0).Host
		for _, at := range []int{0, len(there) / 2, len(there) - 1} {
			there[at] ^= 1
			var out bytes.Buffer
			require.ErrorIs(t, x.seq.Resume(), ErrDamaged{Tokens: 23})
			require.ErrorIs(t, x.seq.Err(), ErrSuspended)
			err := r.pool.Save(&out, Saved[buffer]{Sequences: []*Sequence[buffer]{x.seq}}, snapshot.Options{})
			require.ErrorIs(t, err, ErrDamaged{Tokens: 23})
			require.Zero(t, out.Len())
			require.NoError(t, r.pool.Check())
			there[at] ^= 1
		}
		require.True(t, bytes.Equal(want, r.save(x.seq)))
		require.NoError(t, x.seq.Resume())
		r.check(r.s, x)
		require.NoError(t, x.seq.Suspend())
		x.seq.runs.Held(0, 0).Host[7]++
		require.ErrorIs(t, x.seq.Resume(), ErrDamaged{Tokens: 23})
		require.NoError(t, x.seq.Release())
		r.close()
	}
}
