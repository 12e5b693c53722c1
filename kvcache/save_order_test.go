package kvcache

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/stretchr/testify/require"
)

// opened is what a stream says.
func opened(t testT, stream []byte) (h *snapshot.Head, chunks []snapshot.Chunk) {
	t.Helper()
	r := snapshot.NewReader(bytes.NewReader(stream), snapshot.Options{})
	h, err := r.Head()
	require.NoError(t, err)
	for {
		c, err := r.Chunk()
		if errors.Is(err, io.EOF) {
			return h, chunks
		}
		require.NoError(t, err)
		c.Rows = bytes.Clone(c.Rows)
		chunks = append(chunks, c)
	}
}

// requireByToken says that chunks which a sequence names first have numbers by their first token, and then by strip; states come behind the
// tokens that they are after.
func requireByToken(t testT, h *snapshot.Head) {
	t.Helper()
	known := 0
	for _, q := range h.Sequences {
		var added [][3]int // token, strip, number
		for strip, runs := range q.Strips {
			for _, run := range runs {
				at := run.First
				for _, ref := range run.Refs {
					if h.Strips[strip].Kind == snapshot.State {
						at = ref.Tokens
					}
					if ref.Chunk >= known {
						added = append(added, [3]int{at, strip, ref.Chunk})
					}
					at += ref.Tokens
				}
			}
		}
		slices.SortFunc(added, func(a, b [3]int) int { return slices.Compare(a[:], b[:]) })
		for i, a := range added {
			require.Equal(t, known+i, a[2], "the chunk of token %d and strip %d", a[0], a[1])
		}
		known += len(added)
	}
}

// Chunks come by their tokens, so that what a sequence had is the beginning of what it has when it has grown.
func TestSavedByToken(t *testing.T) {
	for _, layout := range []Layout{Paged, Contiguous} {
		cfg := signed(small(layout))
		r := deviceRig(t, cfg)
		x := r.open()
		require.NoError(t, r.feed(feed[buffer]{x, sequence(1, 11)}))
		was, had := opened(t, r.save(x))
		require.NoError(t, r.feed(feed[buffer]{x, sequence(100, 12)}))
		fork, err := x.Fork()
		require.NoError(t, err)
		require.NoError(t, r.feed(feed[buffer]{fork, sequence(200, 9)}))
		is, have := opened(t, r.save(x, fork))
		requireByToken(t, was)
		requireByToken(t, is)
		full := 0
		for full < len(had) && had[full].Tokens == was.Strips[had[full].Strip].Tokens {
			full++
		}
		require.Equal(t, 11/was.Strips[0].Tokens, full)
		require.Equal(t, had[:full], have[:full], "what is full")
		r.release(x, fork)
		r.close()
	}
	for name, cfg := range chosenKinds() {
		w := newGrouped(t, signed(cfg), 1)
		s, _ := w.open(nil)
		require.NoError(t, w.run(ask{s, sequence(1, 30)}))
		fork, err := s.seq.Fork()
		require.NoError(t, err)
		twin := &told{seq: fork, ids: slices.Clone(s.ids)}
		w.seqs = append(w.seqs, twin)
		require.NoError(t, w.run(ask{twin, sequence(300, 21)}))
		h, _ := opened(t, w.save(s.seq, fork))
		require.NotEmpty(t, h.Sequences[0].Strips, name)
		requireByToken(t, h)
		w.drop(twin)
		w.drop(s)
		w.close()
	}
}
