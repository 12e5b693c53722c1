package kvcache

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/snap"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/text"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
)

// Load reads a stream that Save wrote, and opens a sequence for each that it has. They go on where those ended that were saved, in this pool's
// layout and blocks, with the same bytes of keys and values; sequences that shared blocks share them again, and what others may find of
// them can be found. The stream is verified, and no byte behind it is read. The caller releases the sequences.
//
// snapshot.ErrCorrupt is a stream that is not what was written, snapshot.ErrMismatch one that this pool cannot use: it names the field. Like a
// step Load waits for blocks that the device still uses before it returns ErrOutOfBlocks. After any error the pool has what it had, and prefixes
// that can be found are still there. Other sequences and steps go on meanwhile. States before the last token
// come where all of them take no more than a quarter of the blocks that stay free. A sealed stream needs its secret, a compressed one a compressor.
//
// It holds some megabytes of host memory, also where layers lie together in another way than they were saved. Prefixes are evicted for nothing
// that is not verified: where that needs to be, a reader that is an io.Seeker, such as a file, is read twice, and what any other one has is
// held as a whole.
func (p *Pool[B]) Load(r io.Reader, o snapshot.Options) (_ Saved[B], err error) {
	defer naming("Pool.Load", &err)
	return p.load(r, o, -1)
}

// ReadSequence is Load of a stream with one sequence, as Sequence.WriteTo writes it.
func (p *Pool[B]) ReadSequence(r io.Reader) (_ *Sequence[B], err error) {
	defer naming("Pool.ReadSequence", &err)
	s, err := p.load(r, snapshot.Options{}, 1)
	if err != nil {
		return nil, err
	}
	return s.Sequences[0], nil
}

// errEvicts is that there are no free blocks for what was not read yet.
var errEvicts = errors.New("blocks would have to be evicted")

// load loads so many sequences; below 0: any number. Close waits for all of it.
func (p *Pool[B]) load(r io.Reader, o snapshot.Options, want int) (out Saved[B], err error) {
	p.lock()
	defer p.unlock()
	if err := p.closedErr(); err != nil {
		return out, err
	}
	if err := p.usable(); err != nil {
		return out, err
	}
	if err := p.cfg.Persistable(); err != nil {
		return out, err
	}
	content, err := p.cfg.Content()
	if err != nil {
		return out, err
	}
	l := loading[B]{pool: p, content: content, from: r, coded: o, want: want}
	err = p.parts.Fences.Apart(func() error { return errors.Join(l.run(), l.in.Close()) })
	if err != nil {
		return out, errors.Join(p.parts.Fences.Observe(err), l.abandon())
	}
	return Saved[B]{l.seqs, l.in.Head.Notes}, nil
}

// loading is a Load under way.
type loading[B backend.Buffer] struct {
	pool    *Pool[B]
	content string
	from    io.Reader
	coded   snapshot.Options
	want    int // sequences; below 0: any number
	in      *snap.In[B]
	seqs    []*Sequence[B]
}

// run loads what the stream has. The pool's lock is not held.
func (l *loading[B]) run() error {
	begin, back := whereIs(l.from)
	if err := l.head(); err != nil {
		return err
	}
	// What is not verified yet takes free blocks alone: no prefix is evicted for it.
	err := l.pool.parts.Fences.Retry(func() error {
		if fits, err := l.in.Fits(); err != nil || !fits {
			return cmp.Or(err, errEvicts)
		}
		return l.take(l.in.Read)
	})
	if !errors.Is(err, errEvicts) {
		return err
	}
	if !back {
		if err := l.in.Read(); err != nil {
			return err
		}
		return l.pool.retry(func() error { return l.take(l.in.Fill) })
	}
	if err := errors.Join(l.in.Verify(), l.in.Close()); err != nil {
		return err
	}
	if _, err := l.from.(io.Seeker).Seek(begin, io.SeekStart); err != nil {
		return err
	}
	if err := l.head(); err != nil {
		return err
	}
	return l.pool.retry(func() error { return l.take(l.in.Read) })
}

// whereIs is where a reader is, if it can go back there.
func whereIs(r io.Reader) (int64, bool) {
	s, ok := r.(io.Seeker)
	if !ok {
		return 0, false
	}
	at, err := s.Seek(0, io.SeekCurrent)
	return at, err == nil
}

// head reads the head of the stream.
func (l *loading[B]) head() (err error) {
	if l.in, err = snap.NewIn(l.pool.parts, l.content, snapshot.NewReader(l.from, l.coded)); err != nil {
		return err
	}
	if have := len(l.in.Head.Sequences); l.want >= 0 && have != l.want {
		return snapshot.ErrMismatch{Field: "sequences", Layer: -1, Have: fmt.Sprint(have), Want: fmt.Sprint(l.want), Why: "use Pool.Load"}
	}
	return nil
}

// take opens the sequences, takes their blocks and has them filled. With an error there are none. The lock is held, and given up meanwhile.
func (l *loading[B]) take(fill func() error) (err error) {
	p := l.pool
	if err := p.usable(); err != nil {
		return err
	}
	var runs []*store.Runs[B]
	for i := range l.in.Head.Sequences {
		s, err := l.open(&l.in.Head.Sequences[i])
		if err != nil {
			return errors.Join(err, l.abandon())
		}
		l.seqs, runs = append(l.seqs, s), append(runs, &s.runs)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.abandon())
		}
	}()
	if err := l.in.Take(runs); err != nil {
		return err
	}
	if err := p.parts.Fences.Observe(p.parts.Fences.Apart(fill)); err != nil {
		return err
	}
	if err := cmp.Or(p.closedErr(), p.usable()); err != nil { // meanwhile
		return err
	}
	for _, i := range l.in.Order() { // each is published before others share its blocks: what has several owners is not
		s := l.seqs[i]
		if err := l.in.Arrive(i, &s.runs); err != nil {
			return err
		}
		if p.tree != nil && s.text.Draft == 0 {
			if err := s.publishAccepted(); err != nil {
				return err
			}
		}
		l.in.Published(i, &s.runs)
	}
	for _, s := range l.seqs {
		if err := s.runs.ForgoArriving(); err != nil {
			return err
		}
		s.busy, s.incoming = false, false
	}
	return nil
}

// open is a new sequence as one of the stream, without blocks, that nothing can be done with yet.
func (l *loading[B]) open(q *snapshot.Sequence) (*Sequence[B], error) {
	p := l.pool
	o := OpenOptions{Scope: l.in.Head.Scopes[q.Scope], Items: q.Items, Spans: q.Spans, NoPublish: q.Silent || q.Tokens == nil && q.Len > 0, NoReuse: q.Private}
	if err := p.checkScope(o.Scope); err != nil {
		return nil, err
	}
	if q.Tokens != nil {
		if err := o.check(q.Tokens); err != nil {
			return nil, snapshot.ErrCorrupt{Section: "SEQ ", Why: err.Error()}
		}
	}
	from := p.origin(q.Tokens, o)
	o.remember(&from, len(q.Tokens))
	s := p.newSequence(from)
	s.busy, s.incoming = true, true
	s.text.Fidelity, s.text.Draft = q.Fidelity, q.Draft
	s.runs.Prompt(q.Len)
	s.text.Loaded(q.Tokens, q.Prompt, text.Placed(q.Next, q.Positions))
	return s, nil
}

// abandon gives up what was opened. The lock is held.
func (l *loading[B]) abandon() (err error) {
	for _, s := range l.seqs {
		err = errors.Join(err, s.runs.ForgoArriving(), s.runs.Release())
		s.drop()
		s.released = true
	}
	l.seqs = nil
	return err
}
