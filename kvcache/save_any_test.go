package kvcache

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever a stream says whose sums are right, a pool takes it or refuses it, and is whole afterwards.
func TestLoadOfAnything(t *testing.T) {
	window := config.Group{Kind: group.Window, Layers: []int{0}, Window: 9, Sinks: 2}
	residual := windowFormats(testDevice().Caps.Formats[0].Act)
	configs := []Config{small(Paged), small(Contiguous), manyKinds(window, config.Group{Layers: []int{1}}), hybrid(60)}
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
			w.pieces(&told{seq: x}, sequence(1, 30))
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
			got, err := r.pool.Load(bytes.NewReader(edited(t, streams[rapid.IntRange(0, len(streams)-1).Draw(t, "stream")])), snapshot.Options{})
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
			handled(t, r, got.Sequences)
			require.NoError(t, r.pool.Check())
		})
		r.t = t
		r.close()
	}
}

// handled does with sequences that were loaded what programs do, and releases them.
func handled(t *rapid.T, r *rig[buffer], all []*Sequence[buffer]) {
	for _, s := range all {
		child, err := s.Fork()
		require.NoError(t, err)
		for range rapid.IntRange(0, 2).Draw(t, "calls") {
			switch rapid.IntRange(0, 5).Draw(t, "call") {
			case 0, 1:
				ids := sequence(500, rapid.IntRange(1, 6).Draw(t, "tokens"))
				if have := s.Len(); s.text.Prompt() > have {
					ids = s.text.Tokens()[have:min(have+len(ids), s.text.Prompt())]
				}
				if r.step.Add(s, ids) == nil && r.step.Plan(r.s) == nil {
					require.NoError(t, r.commit())
				}
				require.NoError(t, r.step.Reset())
			case 2:
				_ = s.Shift(r.s, min(1, s.Len()), min(2, max(s.Len()-1, 0)))
			case 3:
				_ = s.Retain(r.s, [][]int{{0, 1, 3}}, RetainOptions{})
			case 4:
				if s.Suspend() == nil {
					if err := s.Resume(); err != nil {
						require.ErrorIs(t, err, ErrOutOfBlocks{})
					}
				}
			case 5:
				_ = r.pool.Clear(false)
			}
			require.NoError(t, r.pool.Check())
		}
		var b bytes.Buffer
		if r.pool.Save(&b, Saved[buffer]{Sequences: []*Sequence[buffer]{s, child}}, snapshot.Options{}) == nil {
			again, err := r.pool.Load(&b, snapshot.Options{})
			if err == nil {
				r.release(again.Sequences...)
			} else {
				require.ErrorIs(t, err, ErrOutOfBlocks{})
			}
		}
		require.NoError(t, errors.Join(s.Release(), child.Release()))
		require.NoError(t, r.pool.Check())
	}
	require.NoError(t, r.s.Sync())
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
	span := func() prefix.Span {
		begin := rapid.IntRange(0, 30).Draw(t, "begin")
		return prefix.Span{Begin: begin, End: begin + rapid.IntRange(0, 9).Draw(t, "length")}
	}
	for range rapid.IntRange(0, 4).Draw(t, "edits") {
		s := &h.Sequences[rapid.IntRange(0, len(h.Sequences)-1).Draw(t, "sequence")]
		strip := rapid.IntRange(0, len(h.Strips)-1).Draw(t, "strip")
		of := &h.Strips[strip]
		switch rapid.IntRange(0, 23).Draw(t, "edit") {
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
		case 11:
			h.Scopes = append(h.Scopes, prefix.Scope{Salt: []byte("b")}, prefix.Scope{Adapter: &prefix.Adapter{}})
			s.Scope = rapid.IntRange(0, len(h.Scopes)-1).Draw(t, "scope")
		case 12:
			i := span()
			s.Items = append(slices.Clone(s.Items), prefix.Item{Begin: i.Begin - 2, End: 2 * i.End, Hash: []byte("dog")[:rapid.IntRange(0, 3).Draw(t, "hash")]})
		case 13:
			s.Spans = append(slices.Clone(s.Spans), span())
		case 14, 15: // as many lists as layers have, or others
			n := rapid.SampledFrom([]int{0, 1, 1, 2, 2, 3, 5}).Draw(t, "lists")
			s.Positions = nil
			gap := rapid.IntRange(0, 9).Draw(t, "gap")
			for range n {
				at, list := 0, []int{}
				for i := range min(s.Len, 60) {
					list, at = append(list, at), at+1
					if i == gap {
						at++
					}
				}
				s.Positions, s.Next = append(s.Positions, list), max(s.Next, at)
			}
		case 16:
			s.Silent, s.Private = rapid.Bool().Draw(t, "silent"), rapid.Bool().Draw(t, "private")
			s.Fidelity = prefix.Fidelity(rapid.IntRange(0, 7).Draw(t, "fidelity"))
		case 17:
			h.Notes = append(h.Notes, snapshot.Note{}, snapshot.Note{Name: "a", Data: []byte{1}})
		case 18: // a layer twice, in a strip or in two
			again := *of
			h.Strips = append(h.Strips, again)
			for i := range h.Sequences {
				q := &h.Sequences[i]
				q.Strips = append(slices.Clone(q.Strips), nil)
				if rapid.Bool().Draw(t, "as well") {
					q.Strips[len(h.Strips)-1], q.Strips[strip] = q.Strips[strip], nil
				}
			}
		case 19:
			*[]*int{&of.Group, &of.Tokens, &s.Len, &s.Next, &s.Prompt, &of.Layers[0].Planes[0].Heads}[rapid.IntRange(0, 5).Draw(t, "which")] = math.MaxInt32
		case 20:
			s.Strips[strip] = nil
		case 21: // others' rows
			o := &h.Sequences[rapid.IntRange(0, len(h.Sequences)-1).Draw(t, "other")]
			s.Strips[strip] = o.Strips[strip]
		case 22:
			h.Sequences = append(h.Sequences, *s)
		case 23:
			if n := len(s.Tokens); n > 0 {
				s.Tokens = slices.Clone(s.Tokens)
				s.Tokens[rapid.IntRange(0, n-1).Draw(t, "token")] = 77
			}
		}
	}
}
