package kvcache

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/stretchr/testify/require"
)

// hybrid is a model with attention and states in a pool of so many blocks.
func hybrid(blocks int) Config {
	cfg := signed(manyKinds(config.Group{Kind: group.State, Layers: []int{1, 2}, StateBytes: 40}, config.Group{Layers: []int{0}}))
	cfg.Memory.Blocks, cfg.Memory.RetainEvery = blocks, 2
	return cfg
}

// computed is a sequence of a prompt whose states stay where the pool keeps some.
func (w *grouped) computed(prompt []uint32) *told {
	w.t.Helper()
	s, _ := w.open(prompt)
	w.pieces(s, prompt)
	return s
}

// resumables are the lengths to which a sequence can be cut.
func resumables(s *Sequence[buffer]) (all []int) {
	for n := range s.Len() + 1 {
		if s.Resumable(n) == n {
			all = append(all, n)
		}
	}
	return all
}

// loadTold loads sequences with the ids of others.
func (w *grouped) loadTold(stream []byte, as ...*told) (all []*told) {
	w.t.Helper()
	for i, seq := range w.load(stream) {
		all = append(all, &told{seq: seq, ids: append([]uint32(nil), as[i].ids...)})
	}
	w.seqs = append(w.seqs, all...)
	return all
}

// States before the last token go over: a loaded sequence goes back to them, others that begin as it did find them, and the stream of what
// was loaded is the same.
func TestSavedMarks(t *testing.T) {
	w := newGrouped(t, hybrid(160), 1)
	a, b := w.computed(sequence(1, 41)), w.computed(append(sequence(1, 20), sequence(300, 9)...))
	require.Equal(t, []int{0, 8, 16, 20, 24, 32, 40, 41}, resumables(a.seq), "at every second block, and where the other one left it")
	stream := w.save(a.seq, b.seq)
	for what, edit := range map[string]func(m *Memory){
		"same":    func(m *Memory) {},
		"larger":  func(m *Memory) { m.BlockSize = 16 },
		"no tree": func(m *Memory) { m.Prefix = prefix.Off },
	} {
		cfg := hybrid(160)
		if edit(&cfg.Memory); testDevice().BlockSizes != nil && cfg.Memory.BlockSize == 16 {
			continue
		}
		o := newGrouped(t, cfg, 2)
		all := o.loadTold(stream, a, b)
		want := map[string][]int{"same": resumables(a.seq), "larger": {0, 16, 32, 41}, "no tree": {0, 41}}[what]
		require.Equal(t, want, resumables(all[0].seq), what)
		if what == "same" {
			require.Equal(t, resumables(b.seq), resumables(all[1].seq))
			require.True(t, bytes.Equal(stream, o.save(all[0].seq, all[1].seq)))
		}
		for _, n := range want[:len(want)-1] {
			back, err := all[0].seq.Fork()
			require.NoError(t, err)
			require.NoError(t, back.Truncate(n))
			f := &told{seq: back, ids: append([]uint32(nil), all[0].ids[:n]...)}
			o.seqs = append(o.seqs, f)
			require.NoError(t, o.run(ask{f, sequence(500, 9)}), "%s: behind %d", what, n)
			o.drop(f)
			require.NoError(t, o.pool.Check())
		}
		if what != "no tree" {
			s, m := o.open(append(sequence(1, 35), 700, 701))
			require.Equal(t, 32, m.Cached)
			require.NoError(t, o.run(ask{s, append(sequence(33, 3), 700, 701)}))
			o.drop(s)
		}
		o.drop(all[0])
		o.drop(all[1])
		o.close()
	}
	w.drop(a)
	w.drop(b)
	w.close()
}

// They come where there is plenty of room: nothing goes for them, others can have three blocks for each, and what sequences need comes without
// them.
func TestSavedMarksNeedRoom(t *testing.T) {
	w := newGrouped(t, hybrid(80), 1)
	a := w.computed(sequence(1, 41))
	stream := w.save(a.seq)
	held, marks := 11+2, 2*5 // the layers with states are two parts
	for _, blocks := range []int{held - 1, held, held + marks, held + 4*marks - 1, held + 4*marks} {
		for _, file := range []bool{true, false} {
			o := newGrouped(t, hybrid(blocks), 2)
			in := connection(stream)
			if file {
				in = bytes.NewReader(stream)
			}
			got, err := o.pool.Load(in, snapshot.Options{})
			require.NoError(t, o.pool.Check())
			if blocks < held {
				require.ErrorIs(t, err, ErrOutOfBlocks{})
				o.close()
				continue
			}
			require.NoError(t, err, "%d blocks", blocks)
			want := []int{0, 41}
			if blocks == held+4*marks {
				want = resumables(a.seq)
			}
			require.Equal(t, want, resumables(got.Sequences[0]), "%d blocks", blocks)
			o.release(got.Sequences...)
			o.close()
		}
	}
	// What others can find stays before them, and goes for what the sequences need.
	o := newGrouped(t, hybrid(held+4*marks+2), 2)
	for _, prompt := range [][]uint32{sequence(900, 3), sequence(800, 13)} {
		o.drop(o.computed(prompt))
	}
	o.idle()
	before := o.stats().Cached
	require.Greater(t, before, 2)
	s := o.loadTold(stream, a)[0]
	require.Equal(t, []int{0, 41}, resumables(s.seq))
	require.NoError(t, o.run(ask{s, sequence(42, 3)}))
	o.drop(s)
	o.close()
	w.drop(a)
	w.close()
}

// slowly writes to a buffer, and does something before the last bytes.
type slowly struct {
	bytes.Buffer
	at int
	do func()
}

func (s *slowly) Write(b []byte) (int, error) {
	if s.do != nil && s.Len()+len(b) > s.at {
		s.do()
		s.do = nil
	}
	return s.Buffer.Write(b)
}

// Who needs memory while states are saved takes other blocks. Those are most of what there is: a step has them.
func TestSavedMarksAreLent(t *testing.T) {
	w := newGrouped(t, hybrid(60), 1)
	a := w.computed(sequence(1, 41))
	what := Saved[buffer]{Sequences: []*Sequence[buffer]{a.seq}, Notes: []snapshot.Note{{Name: "long", Data: make([]byte, 1<<18)}}}
	var want bytes.Buffer
	require.NoError(t, w.pool.Save(&want, what, snapshot.Options{}))
	out := slowly{at: 1 << 17, do: func() { // of what stands before the states
		require.NoError(t, w.pool.Check())
		w.drop(w.computed(sequence(1000, 130))) // what is left
		require.NoError(t, w.pool.Check())
	}}
	require.NoError(t, w.pool.Save(&out, what, snapshot.Options{}))
	require.Equal(t, []int{0, 8, 16, 24, 32, 40, 41}, resumables(a.seq))
	w.drop(w.computed(sequence(2000, 170)))
	require.Equal(t, []int{0, 41}, resumables(a.seq), "others need the memory, and nobody has it lent")
	require.True(t, bytes.Equal(want.Bytes(), out.Bytes()))
	require.NoError(t, w.pool.Check())
	w.drop(a)
	w.close()
}

// unfinished is a step of a hybrid that the device does not do before somebody waits.
func (w *grouped) unfinished(a ask) {
	w.t.Helper()
	require.NoError(w.t, errors.Join(w.step.Reset(), w.step.Add(a.seq, a.ids), w.step.Plan(w.s)))
	w.layer(0, []ask{a})
	all := append(append([]uint32(nil), a.told.ids...), a.ids...)
	for _, layer := range []int{1, 2} {
		st, err := w.step.State(layer)
		require.NoError(w.t, err)
		require.NoError(w.t, backend.Upload(w.be, w.s, st.Buf, int(st.Offsets[0]/4), fold(layer, all, st.Bytes/4)))
	}
	require.NoError(w.t, w.step.Commit())
}

// What another sequence left on the way of one is saved with it once it is written, and left out where its step failed.
func TestSavedMarksOfOthers(t *testing.T) {
	for _, fails := range []bool{false, true} {
		r, dev, be := lateRig(t, hybrid(80))
		w := groupedOn(r, 1)
		a, _ := w.open(sequence(1, 41))
		b, _ := w.open(sequence(1, 41))
		require.NoError(t, w.run(ask{a, sequence(1, 41)}))
		require.Equal(t, []int{0, 41}, resumables(a.seq))
		other, err := r.be.NewStream()
		require.NoError(t, err)
		own := w.s
		require.NoError(t, w.s.Sync())
		w.s = other
		for len(b.ids) < 32 {
			require.NoError(t, w.run(ask{b, sequence(1, 41)[len(b.ids):][:b.seq.Piece(41-len(b.ids))]}))
		}
		w.unfinished(ask{b, sequence(33, 8)})
		w.s = own
		want := []int{0, 8, 16, 24, 32, 40, 41}
		if fails {
			dev.failEvents(other, errBoom)
			want = []int{0, 8, 16, 24, 32, 41}
		}
		stream := w.save(a.seq)
		o := newGrouped(t, hybrid(80), 2)
		back := o.loadTold(stream, a)[0]
		require.Equal(t, want, resumables(back.seq))
		back.ids = back.ids[:want[5]]
		require.NoError(t, back.seq.Truncate(want[5]))
		require.NoError(t, o.run(ask{back, sequence(want[5]+1, 5)}))
		o.drop(back)
		o.close()
		dev.SetFault(nil)
		require.NoError(t, other.Sync())
		for _, s := range w.seqs {
			if err := s.seq.Release(); err != nil {
				require.True(t, fails && errors.Is(err, errBoom), err)
			}
		}
		require.NoError(t, other.Close())
		closeLate(t, r, dev, be)
	}
}

// A suspended sequence has given up what is with the tree, and finds it again when it goes on. Of one of which nobody may find anything there
// is none.
func TestSavedWithoutMarks(t *testing.T) {
	w := newGrouped(t, hybrid(80), 1)
	a := w.computed(sequence(1, 41))
	require.NoError(t, a.seq.Suspend())
	stream := w.save(a.seq)
	require.NoError(t, a.seq.Resume())
	o := newGrouped(t, hybrid(80), 2)
	s := o.loadTold(stream, a)[0]
	require.Equal(t, []int{0, 41}, resumables(s.seq))
	o.drop(s)
	h, _ := opened(t, w.save(a.seq))
	require.Len(t, h.Sequences[0].Strips[0], 6)
	w.drop(a)
	w.close()
	seq, _, err := o.pool.Open(sequence(1, 41), OpenOptions{NoPublish: true})
	require.NoError(t, err)
	silent := &told{seq: seq}
	o.seqs = append(o.seqs, silent)
	require.NoError(t, o.run(ask{silent, sequence(1, 41)}))
	h, _ = opened(t, o.save(seq))
	require.Len(t, h.Sequences[0].Strips[0], 1)
	o.drop(silent)
	o.close()
}

// Who computes what others have finds no entries for its states where others had the text first: those of a sequence that does have them.
func TestSavedMarksOfAnyOwner(t *testing.T) {
	w := newGrouped(t, hybrid(200), 1)
	seq, _, err := w.pool.Open(sequence(1, 45), OpenOptions{NoReuse: true})
	require.NoError(t, err)
	private := &told{seq: seq}
	w.seqs = append(w.seqs, private)
	w.pieces(private, sequence(1, 45))
	public := w.computed(sequence(1, 41))
	stream := w.save(seq, public.seq)
	o := newGrouped(t, hybrid(200), 2)
	had, _ := o.open(sequence(1, 45))
	require.NoError(t, o.run(ask{had, sequence(1, 45)}))
	require.Equal(t, []int{0, 45}, resumables(had.seq))
	all := o.loadTold(stream, private, public)
	require.Equal(t, resumables(public.seq), resumables(all[1].seq))
	o.drop(had)
	o.drop(all[0])
	o.drop(all[1])
	o.close()
	w.drop(private)
	w.drop(public)
	w.close()
}

// stepping reads, and does something before a byte.
type stepping struct {
	io.Reader
	at, read int
	do       func()
}

func (s *stepping) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if s.read += n; s.do != nil && s.read > s.at {
		s.do()
		s.do = nil
	}
	return n, err
}

// A step of others that fails meanwhile is no failure of a save, nor of a load.
func TestSavedBesideFailures(t *testing.T) {
	r, dev, be := lateRig(t, hybrid(160))
	w := groupedOn(r, 1)
	a := w.computed(sequence(1, 41))
	other, err := r.be.NewStream()
	require.NoError(t, err)
	next, failed := 5000, []*Sequence[buffer](nil)
	fail := func() { // a step on another stream
		_, _ = w.pool.Stats() // which is told of the last one
		b, _ := w.open(sequence(next, 9))
		last := ask{b, sequence(next, 9)}
		next += 1000
		own := w.s
		w.s = other
		w.unfinished(last)
		w.s = own
		dev.failEvents(other, errBoom)
		require.NoError(t, other.Sync())
		w.lost(b)
		failed = append(failed, b.seq)
	}
	what := Saved[buffer]{Sequences: []*Sequence[buffer]{a.seq}, Notes: []snapshot.Note{{Name: "long", Data: make([]byte, 1<<18)}}}
	var first bytes.Buffer
	fail()
	require.NoError(t, w.pool.Save(&first, what, snapshot.Options{}))
	out := slowly{at: 1 << 17, do: fail}
	require.NoError(t, w.pool.Save(&out, what, snapshot.Options{}))
	require.True(t, bytes.Equal(first.Bytes(), out.Bytes()))
	_, _ = w.pool.Stats()
	want := resumables(a.seq)
	w.drop(a)
	require.NoError(t, r.s.Sync())
	require.NoError(t, r.pool.Clear(false))
	in := &stepping{Reader: connection(out.Bytes()), at: out.Len() - 100, do: fail}
	got, err := w.pool.Load(in, snapshot.Options{})
	require.NoError(t, err)
	require.Equal(t, want, resumables(got.Sequences[0]))
	dev.SetFault(nil)
	w.release(got.Sequences...)
	for _, s := range failed {
		if err := s.Release(); err != nil { // the first to ask is told
			require.ErrorIs(t, err, errBoom)
		}
	}
	require.NoError(t, other.Close())
	closeLate(t, r, dev, be)
}
