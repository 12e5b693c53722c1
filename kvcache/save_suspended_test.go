package kvcache

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/stretchr/testify/require"
)

// requireSavedAway suspends sequences, each of which is saved as it was before, bit for bit. It returns the stream of all of them, of which
// the even ones are suspended, and resumes these.
func requireSavedAway(r *rig[buffer], seqs ...*Sequence[buffer]) []byte {
	r.t.Helper()
	for i, s := range seqs {
		want := r.save(s)
		require.NoError(r.t, s.Suspend())
		require.True(r.t, bytes.Equal(want, r.save(s)), "sequence %d", i)
		require.ErrorIs(r.t, s.Err(), ErrSuspended)
		if i%2 == 1 {
			require.NoError(r.t, s.Resume())
			require.True(r.t, bytes.Equal(want, r.save(s)), "sequence %d, which was resumed", i)
		}
	}
	stream := r.save(seqs...)
	for i, s := range seqs {
		if i%2 == 0 {
			require.NoError(r.t, s.Resume())
		}
	}
	require.NoError(r.t, r.pool.Check())
	return stream
}

// What is saved of a sequence that is suspended is what would have been saved before, in every layout and format.
func TestSavedAway(t *testing.T) {
	for _, f := range savedFormats() {
		t.Run(fmt.Sprintf("%v/%v-%v", f.Act, f.K, f.V), func(t *testing.T) {
			for name, cfg := range savedLayouts(f) {
				r := deviceRig(t, cfg)
				x, y, z := r.family()
				all := []*Sequence[buffer]{x, y, z, r.open(), r.open()}
				stream := requireSavedAway(r, all...)
				o := deviceRig(t, cfg)
				there := o.load(stream)
				for i := range all {
					requireSame(r, o, all[i], there[i])
				}
				require.NoError(t, o.feed(feed[buffer]{there[0], sequence(11, 3)}), name)
				o.release(there...)
				o.close()
				r.release(all...)
				r.close()
			}
		})
	}
}

// With a window of exact tokens both stores are away.
func TestSavedAwayWindows(t *testing.T) {
	for _, act := range []backend.DType{backend.F32, backend.F16} {
		for _, f := range windowFormats(act) {
			r := deviceRig(t, signed(windowConfig(f)))
			var all []*Sequence[buffer]
			for _, n := range []int{3, 33, 47} {
				x := r.open()
				for i := 0; i < n; i += 5 {
					require.NoError(t, r.feed(feed[buffer]{x, sequence(1+i, min(5, n-i))}))
				}
				all = append(all, x)
			}
			stream := requireSavedAway(r, all...)
			o := deviceRig(t, r.pool.cfg)
			there := o.load(stream)
			for i, x := range all {
				for l := range r.pool.cfg.Model.Layers {
					require.Equal(t, r.quantized(r.s, x, l), o.quantized(o.s, there[i], l))
					require.Equal(t, r.recent(r.s, x, l), o.recent(o.s, there[i], l))
				}
			}
			o.release(there...)
			o.close()
			r.release(all...)
			r.close()
		}
	}
}

// Layers of every kind go on from what was saved of them when they were away.
func TestSavedAwayKinds(t *testing.T) {
	for name, cfg := range chosenKinds() {
		t.Run(name, func(t *testing.T) {
			w := newGrouped(t, signed(cfg), 1)
			s, _ := w.open(nil)
			for len(s.ids) < 61 {
				require.NoError(t, w.run(ask{s, sequence(1+len(s.ids), min(61-len(s.ids), 11))}))
			}
			fork, err := s.seq.Fork()
			require.NoError(t, err)
			twin := &told{seq: fork, ids: slices.Clone(s.ids)}
			w.seqs = append(w.seqs, twin)
			require.NoError(t, w.run(ask{twin, sequence(300, 3)}))
			stream := requireSavedAway(w.rig, s.seq, fork)
			require.NoError(t, w.run(ask{s, sequence(320, 2)}, ask{twin, sequence(330, 9)}))
			o := newGrouped(t, signed(cfg), 2)
			got := o.load(stream)
			a, b := &told{seq: got[0], ids: s.ids[:61]}, &told{seq: got[1], ids: twin.ids[:64]}
			o.seqs = append(o.seqs, a, b)
			require.NoError(t, o.run(ask{a, sequence(400, 5)}, ask{b, sequence(600, 7)}))
			o.drop(a)
			o.drop(b)
			o.close()
			w.drop(twin)
			w.drop(s)
			w.close()
		})
	}
}

// Whatever goes wrong, a sequence that is suspended stays so, with all that it has; and while it is written nothing else is done with it.
func TestSavedAwayStaysAway(t *testing.T) {
	for _, layout := range []Layout{Paged, Contiguous} {
		r := deviceRig(t, signed(small(layout)))
		x, _ := r.serve(sequence(1, 23), OpenOptions{})
		want := r.save(x.seq)
		require.NoError(t, x.seq.Suspend())
		took := x.seq.runs.Suspended.Bytes()
		for room := 0; room < len(want); room += 97 {
			_, err := x.seq.WriteTo(&full{room})
			require.ErrorIs(t, err, errFull)
			require.ErrorIs(t, x.seq.Err(), ErrSuspended)
		}
		other, _ := r.serve(sequence(100, 5), OpenOptions{})
		require.NoError(t, other.seq.Release())
		require.ErrorIs(t, r.pool.Save(io.Discard, Saved[buffer]{Sequences: []*Sequence[buffer]{x.seq, other.seq}}, snapshot.Options{}), ErrReleased)

		out, done := newGate(nil), make(chan error)
		go func() { _, err := x.seq.WriteTo(out); done <- err }()
		<-out.reached
		require.ErrorIs(t, x.seq.Resume(), ErrBusy)
		require.ErrorIs(t, x.seq.Release(), ErrBusy)
		require.ErrorIs(t, r.pool.Save(io.Discard, Saved[buffer]{}, snapshot.Options{}), ErrBusy)
		close(out.open)
		require.NoError(t, <-done)
		require.Equal(t, took, x.seq.runs.Suspended.Bytes())
		require.True(t, bytes.Equal(want, r.save(x.seq)))
		require.NoError(t, x.seq.Resume())
		r.check(r.s, x)
		r.drop(x)
		r.close()
	}
}

// A suspended sequence takes the memory of its tokens, also where a block has room for more of them.
func TestSuspendedTakesItsTokens(t *testing.T) {
	for _, layout := range []Layout{Paged, Contiguous} {
		for capacity, each := range map[int]int{256: 64, 150: 50, 40: 40} {
			cfg := small(layout)
			if cfg.Memory.Capacity = capacity; layout == Paged {
				each = cfg.Memory.BlockSize
			}
			r := deviceRig(t, cfg)
			token, err := r.pool.cfg.BytesPerToken()
			require.NoError(t, err)
			x := r.open()
			for n := range 4 {
				require.NoError(t, x.Suspend())
				bytes := x.runs.Suspended.Bytes()
				require.Equal(t, token*int64((x.Len()+each-1)/each*each), bytes, "%d tokens", x.Len())
				require.NoError(t, x.Resume())
				require.NoError(t, r.feed(feed[buffer]{x, sequence(1+x.Len(), 5+n)}))
			}
			r.release(x)
			r.close()
		}
	}
}
