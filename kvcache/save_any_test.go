package kvcache

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever a stream says whose sums are right, a pool takes it or refuses it, and is whole afterwards.
func TestLoadOfAnything(t *testing.T) {
	window := config.Group{Kind: group.Window, Layers: []int{0}, Window: 9, Sinks: 2}
	residual := windowFormats(testDevice().Caps.Formats[0].Act)
	configs := []Config{small(Paged), small(Contiguous), manyKinds(window, config.Group{Layers: []int{1}})}
	if len(residual) > 0 {
		configs = append(configs, windowConfig(residual[0]))
	}
	for _, cfg := range configs {
		r := deviceRig(t, signed(cfg))
		x := r.open()
		if len(cfg.Model.Groups) == 0 {
			require.NoError(t, r.feed(feed[buffer]{x, sequence(1, 30)}))
		} else {
			w := groupedOn(r, 1)
			require.NoError(t, w.run(ask{&told{seq: x}, sequence(1, 30)}))
		}
		y, err := x.Fork()
		require.NoError(t, err)
		streams := [][]byte{r.save(x, y)}
		require.NoError(t, x.Suspend())
		streams = append(streams, r.save(x, y))
		r.release(x, y)
		require.NoError(t, r.s.Sync())
		rapid.Check(t, func(t *rapid.T) {
			r.t = t
			got, err := r.pool.Load(bytes.NewReader(edited(t, streams[rapid.IntRange(0, 1).Draw(t, "suspended")])), snapshot.Options{})
			require.NoError(t, r.pool.Check())
			if err != nil {
				require.True(t, errors.Is(err, snapshot.ErrCorrupt{}) || errors.Is(err, snapshot.ErrMismatch{}) || errors.Is(err, ErrOutOfBlocks{}), "%v", err)
				return
			}
			for _, s := range got.Sequences {
				if n := s.Len(); n > 3 && s.Resumable(n-3) == n-3 && s.text.Draft == 0 {
					require.NoError(t, s.Truncate(n-3))
				}
				require.NoError(t, r.pool.Check())
			}
			for _, s := range got.Sequences {
				require.NoError(t, s.Release())
			}
			require.NoError(t, r.pool.Check())
		})
		r.t = t
		r.close()
	}
}

// A chunk that another sequence has behind another text, and elsewhere, is not the same block.
func TestLoadOfChunksInOtherPlaces(t *testing.T) {
	r := savedRig(t, 60)
	x, _ := r.serve(sequence(1, 23), OpenOptions{})
	y, err := x.seq.Fork()
	require.NoError(t, err)
	stream := r.save(x.seq, y)
	r.drop(x)
	r.release(y)
	for at := range 5 {
		for chunk := range 5 {
			for draft := range 8 {
				got := r.load(rewritten(t, stream, func(h *snapshot.Head) {
					h.Sequences[1].Strips[0][0].Refs[at].Chunk, h.Sequences[1].Draft = chunk, draft
				}))
				r.expect(r.s, got[0], x.want)
				r.release(got...)
				require.NoError(t, r.pool.Check())
			}
		}
	}
	r.close()
}

// edited is a stream of which some numbers are others.
func edited(t *rapid.T, stream []byte) []byte {
	return rewritten(t, stream, func(h *snapshot.Head) { edit(t, h) })
}

// rewritten is a stream with another head.
func rewritten(t testT, stream []byte, edit func(h *snapshot.Head)) []byte {
	in := snapshot.NewReader(bytes.NewReader(stream), snapshot.Options{}) // of the rows
	_, err := in.Head()
	require.NoError(t, err)
	h, err := snapshot.NewReader(bytes.NewReader(stream), snapshot.Options{}).Head()
	require.NoError(t, err)
	edit(h)
	var b bytes.Buffer
	w := snapshot.NewWriter(&b, snapshot.Options{})
	require.NoError(t, w.Head(h))
	for {
		c, err := in.Chunk()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.NoError(t, w.Chunk(c.Strip, c.Tokens, c.Rows))
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func edit(t *rapid.T, h *snapshot.Head) {
	number := func(p *int) { *p = rapid.IntRange(0, 45).Draw(t, "number") }
	for range rapid.IntRange(0, 3).Draw(t, "edits") {
		s := &h.Sequences[rapid.IntRange(0, len(h.Sequences)-1).Draw(t, "sequence")]
		strip := rapid.IntRange(0, len(h.Strips)-1).Draw(t, "strip")
		of := &h.Strips[strip]
		switch rapid.IntRange(0, 10).Draw(t, "edit") {
		case 0:
			number(&s.Len)
			s.Next, s.Tokens = s.Len, nil
		case 1:
			number(&s.Next)
		case 2:
			number(&s.Draft)
		case 3:
			s.Prompt = s.Len + 3
			s.Tokens = append(slices.Clone(s.Tokens), 1, 2, 3)
		case 4:
			number(&of.Tokens)
		case 5:
			number(&of.Layers[0].Number)
		case 6:
			number(&of.Layers[0].Planes[0].Bytes)
		case 7:
			of.Kind = snapshot.Kind(rapid.IntRange(0, 2).Draw(t, "kind"))
		case 8:
			if runs := s.Strips[strip]; len(runs) > 0 {
				run := &runs[rapid.IntRange(0, len(runs)-1).Draw(t, "run")]
				ref := &run.Refs[rapid.IntRange(0, len(run.Refs)-1).Draw(t, "ref")]
				number([]*int{&run.First, &ref.Chunk, &ref.Tokens}[rapid.IntRange(0, 2).Draw(t, "what")])
			}
		case 9:
			if runs := s.Strips[strip]; len(runs) > 0 { // fewer tokens, a chunk or its end
				run := &runs[len(runs)-1]
				n := rapid.IntRange(1, len(run.Refs)).Draw(t, "refs")
				run.Refs = run.Refs[:n]
			}
		case 10:
			if runs := s.Strips[strip]; len(runs) > 0 { // tokens in front are gone
				runs[0].First += rapid.IntRange(0, 8).Draw(t, "gone")
			}
		}
	}
}
