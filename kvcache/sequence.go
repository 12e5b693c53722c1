package kvcache

import (
	"cmp"
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/offload"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/text"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Sequence is one list of tokens in a pool. It is used by one goroutine at a time;
// different sequences of a pool may be used by different goroutines. A sequence that is
// not released keeps its blocks until Pool.Close; the garbage collector does not free it.
type Sequence[B backend.Buffer] struct {
	pool     *Pool[B]
	number   uint64 // in the order in which they were opened
	runs     store.Runs[B]
	text     text.Text
	busy     bool // it is part of an open step, or works without the lock
	incoming bool // a Load has not returned it yet
	queries  int  // open steps that read it and give it no tokens
	released bool
	fresh    bool              // Open made it, and it has had no step
	layers   []KvCache[B]      // made by Layers
	coming   *offload.Incoming // what is on its way from tiers; nil: nothing
}

// newSequence returns an empty sequence. The caller holds the lock.
func (p *Pool[B]) newSequence(from text.Origin) *Sequence[B] {
	var l spare
	if n := len(p.spare); n > 0 {
		l, p.spare = p.spare[n-1], p.spare[:n-1]
	}
	p.opened++
	s := &Sequence[B]{pool: p, number: p.opened}
	s.runs.Begin(p.parts, from.Root, l.lists)
	s.text = text.New(from, p.findable(), l.tokens)
	p.seqs[s] = struct{}{}
	return s
}

// drop forgets a sequence that has no blocks.
func (s *Sequence[B]) drop() {
	p := s.pool
	delete(p.seqs, s)
	if l := (spare{s.runs.Drop(), s.text.Drop()}); len(p.spare) < p.cfg.Memory.MaxSeqs {
		p.spare = append(p.spare, l)
	}
}

// Len is the number of tokens, without those of an open step.
func (s *Sequence[B]) Len() int { return s.runs.Len() }

// Pool is the pool that the sequence belongs to.
func (s *Sequence[B]) Pool() *Pool[B] { return s.pool }

// Blocks appends the numbers of the sequence's blocks to dst, in order. Blocks that an open step took or
// made as copies are included only after its Commit; Batch.Metadata has the tables of the step. With
// Storage.Residual they are the blocks of the quantized cache, with Model.Groups those of the first layers that have some.
func (s *Sequence[B]) Blocks(dst []uint32) []uint32 {
	return s.runs.Blocks(dst)
}

// Err says why the sequence can be neither added to a step nor changed now: ErrReleased,
// ErrClosed, ErrBusy while it is in an open step or another goroutine's call, ErrSuspended, or the device's error that left its
// content undefined. It is nil if the sequence can be used.
func (s *Sequence[B]) Err() (err error) {
	defer naming("Sequence.Err", &err)
	s.pool.lock()
	defer s.pool.unlock()
	return s.idle()
}

// idle reports why the sequence cannot be changed. The caller holds the pool's lock.
func (s *Sequence[B]) idle() error { return s.ready(s.busy || s.queries > 0) }

// readable reports why the sequence cannot be read: other steps may read it, too.
func (s *Sequence[B]) readable() error { return s.ready(s.busy) }

func (s *Sequence[B]) ready(busy bool) error {
	var err error
	switch {
	case s.released:
		err = ErrReleased
	case s.pool.closedErr() != nil:
		err = s.pool.closedErr()
	case busy:
		err = ErrBusy
	case s.runs.Failed != nil:
		err = s.runs.Failed
	case s.runs.Suspended != nil:
		err = ErrSuspended
	default:
		return nil
	}
	return err
}

// usable reports why nothing can be done with the sequence on a stream. The caller
// holds the lock.
func (s *Sequence[B]) usable(stream backend.Stream) error {
	if err := s.idle(); err != nil {
		return err
	}
	if err := s.pool.usable(); err != nil {
		return err
	}
	if stream == nil {
		return errNoStream
	}
	return nil
}

// alone does what gives up the pool's lock while it works with the sequence, which is nobody else's meanwhile. The
// caller holds the lock.
func (s *Sequence[B]) alone(do func() error) error {
	s.busy = true
	defer func() { s.busy = false }()
	return do()
}

// Fork returns a second sequence with the same tokens. The two share all blocks.
// When one of them writes into a shared block, usually the last one, which is not
// full, it gets a copy of that block on the device.
func (s *Sequence[B]) Fork() (_ *Sequence[B], err error) {
	defer naming("Sequence.Fork", &err)
	p := s.pool
	p.lock()
	defer p.unlock()
	if err := s.idle(); err != nil {
		return nil, err
	}
	if err := p.usable(); err != nil {
		return nil, err
	}
	child := p.newSequence(s.text.Origin)
	if err := s.runs.Fork(&child.runs); err != nil {
		child.drop()
		return nil, err
	}
	child.text = s.text.Fork(child.text.Drop())
	return child, nil
}

// Truncate keeps the first n tokens and gives back the blocks after them. Other
// owners of a shared block keep it; its kept part is copied when this sequence writes
// again. The rest of the prompt that the sequence was opened with need not be added
// any more, even when n is Len; what comes after a cut within its items or spans is found by nobody. Of a draft
// (Batch.AddDraft) it accepts what it keeps. ErrResume if layers have given up what would be read after n tokens: Resumable
// says where the sequence can go on. If Truncate returns an error of the device, the sequence is truncated all the same.
func (s *Sequence[B]) Truncate(n int) (err error) {
	defer naming("Sequence.Truncate", &err)
	p := s.pool
	p.lock()
	defer p.unlock()
	if err := s.idle(); err != nil {
		return err
	}
	if n < 0 || n > s.Len() {
		return argument("%d tokens: the sequence has %d", n, s.Len())
	}
	if at, part := s.runs.Resumable(n); at < n {
		return ErrResume{Tokens: n, At: at, Group: p.parts.All[part].Rule.Kind}
	}
	err = s.runs.Truncate(n)
	if s.Len() != n {
		return err
	}
	s.forgo()
	drafted := s.text.Draft > 0
	s.text.Truncate(n)
	// Its last block may be one that the tree offers to others: it is taken out if it is the end of a path
	// and nobody else's, so that a rejected draft costs no copy; else the next write copies it.
	s.runs.Withdraw()
	if drafted {
		err = cmp.Or(err, s.publishAccepted())
	}
	return err
}

// Resumable is the greatest length, at most n, to which Truncate can cut the sequence so that it can be continued from
// there. A runner that is given an edited prompt calls it with the number of tokens that are equal in both. It is n, or
// Len if that is less, unless layers have given something up (Model.Groups): a window goes back by Memory.Rollback
// tokens, or to where its blocks are still with the prefix tree; a state to a checkpoint. It is 0 while the sequence
// cannot be changed (see Err). n counts the tokens that the sequence has: a runner that dropped some by Shift or Retain
// compares what is left of its text.
func (s *Sequence[B]) Resumable(n int) int {
	s.pool.lock()
	defer s.pool.unlock()
	if s.idle() != nil {
		return 0
	}
	at, _ := s.runs.Resumable(n)
	return at
}

// Piece is how many of the sequence's next n tokens to give a step so that it ends where the pool keeps a checkpoint of
// the layers' states (Memory.RetainEvery, and group.RestorePoints): a prompt that is computed over such a place cannot
// be found there again. Nor does it end within a span of the prompt (OpenOptions.Spans): it is more than n where the next
// tokens are one that is longer. Where there are neither it is n; 0 while the sequence cannot be changed.
func (s *Sequence[B]) Piece(n int) int {
	p := s.pool
	p.lock()
	defer p.unlock()
	switch {
	case s.idle() != nil && s.runs.Joined() == 0 || n <= 0: // what has joined a step is about to be added
		return 0
	case p.tree != nil:
		n = s.coming.ToMeet(s.Len(), s.runs.Piece(n), s.pool.cfg.EntryTokens())
	}
	return s.text.Whole(s.Len(), n)
}

// Release gives the sequence's blocks back. Where prefixes are reused the last one, which may not be full, is offered to
// others like the full ones before: the next turn of a conversation goes on where this one ended. What was not accepted of a
// draft is dropped. Its steps may still be running on the device: the blocks stay held until those are done. If Release
// returns an error of the device, the sequence is released all the same.
func (s *Sequence[B]) Release() (err error) {
	defer naming("Sequence.Release", &err)
	if s == nil {
		return nil
	}
	p := s.pool
	p.lock()
	defer p.unlock()
	failed := s.runs.Failed != nil
	if failed && !s.released && p.closedErr() == nil && !s.busy && s.queries == 0 {
		s.runs.Failed = nil // a failed sequence can still be released
	}
	away := s.runs.Suspended != nil
	if err := s.idle(); err != nil && !(away && errors.Is(err, ErrSuspended)) {
		return err
	}
	s.forgo()
	if away {
		err = s.runs.Discard()
	} else if !failed {
		err = cmp.Or(s.settleDraft(), s.publishEnd())
	}
	err = cmp.Or(err, s.alone(s.runs.Release))
	s.drop()
	s.layers, s.released = nil, true
	return err
}

// Reservation is a request for blocks so that a sequence can grow to Tokens tokens.
type Reservation[B backend.Buffer] struct {
	Seq    *Sequence[B]
	Tokens int
}

// Reserve sets blocks aside so that the sequences can grow as asked, whatever other
// sequences take: for all of them or, with ErrOutOfBlocks, for none. It never lowers a
// reservation, so asking twice changes nothing. Like a step, it waits for blocks that the
// device still uses before it returns ErrOutOfBlocks; others can use the pool meanwhile.
//
// The sequence uses up its reservation as it takes blocks, and Release cancels the
// rest. With Storage.Residual it includes the blocks of the residual window, as many as
// growing token by token needs. Reserve again after a Truncate or Shift, which give blocks
// back, and after a Fork, whose first write copies a block.
//
// What is on its way from tiers is the sequence's after Wait, so call Reserve after it: less is needed then. Before it, Reserve counts
// all of the prompt, and what the load holds by then as others'; the load takes no block that is set aside, so that less may
// come. What comes after a Reserve uses that up.
func (p *Pool[B]) Reserve(rs ...Reservation[B]) (err error) {
	defer naming("Pool.Reserve", &err)
	if err := p.closedErr(); err != nil {
		return err
	}
	return p.retry(func() error { return p.reserve(rs) })
}

func (p *Pool[B]) reserve(rs []Reservation[B]) error {
	if err := p.usable(); err != nil {
		return err
	}
	all := make([]store.Reservation[B], len(rs))
	for i, r := range rs {
		if err := p.checkReservation(r); err != nil {
			return err
		}
		all[i] = store.Reservation[B]{Runs: &r.Seq.runs, Tokens: r.Tokens}
	}
	return p.parts.Reserve(all)
}

func (p *Pool[B]) checkReservation(r Reservation[B]) error {
	switch {
	case r.Seq == nil:
		return argument("the sequence is nil; open one with Pool.Open")
	case r.Seq.pool != p:
		return ErrOtherPool
	case r.Tokens < 0:
		return argument("%d tokens: need 0 or more", r.Tokens)
	case r.Tokens > p.cfg.Memory.Capacity:
		return ErrCapacity{Have: r.Tokens, Max: p.cfg.Memory.Capacity}
	}
	return r.Seq.idle()
}

// Fence tells the pool that work of the runner's own, which is on stream already, uses
// the sequence: its blocks are not handed out, nor written by a step, before that work is
// done.
func (s *Sequence[B]) Fence(stream backend.Stream) (err error) {
	defer naming("Sequence.Fence", &err)
	p := s.pool
	p.lock()
	defer p.unlock()
	if err := s.idle(); err != nil {
		return err
	}
	if stream == nil {
		return errNoStream
	}
	return s.runs.FenceAfter(stream)
}

// publishes reports whether the sequence has something to publish once it has so many full blocks.
func (s *Sequence[B]) publishes(full int) bool {
	return s.text.Publishes(full) && s.pool.parts.Fences.Lost() == nil
}

// publish puts the first so many full blocks, those of them that are not there, into the tree, behind the step's fence.
// Where the tree has the same, that takes the place of the sequence's.
func (s *Sequence[B]) publish(f *residency.Fence, full int) error {
	if !s.publishes(full) {
		return nil
	}
	at, ids := s.text.Pending(s.runs.Entries(), full)
	n, err := s.runs.Publish(f, at, ids, full)
	if n == 0 && err != nil {
		s.text.Silent = true
		if errors.Is(err, prefix.ErrDetached) { // the tree was cleared under the sequence
			return nil
		}
		return err
	}
	s.text.Published(n, full)
	return err
}

// publishAccepted publishes what was accepted of a draft after its step, unless others are writing what would take its
// place: then the next step, which comes after theirs, does.
func (s *Sequence[B]) publishAccepted() error {
	full := s.runs.Full()
	if !s.publishes(full) {
		return nil
	}
	f := s.runs.In[0].Fence
	if at, ids := s.text.Pending(s.runs.Entries(), full); !s.pool.parts.Blocks.KnownWritten(f, at, ids) {
		return nil
	}
	return s.publish(f, full)
}

// settleDraft rejects what was not accepted of a draft, if the layers can go back so far.
func (s *Sequence[B]) settleDraft() error {
	if s.pool.tree == nil || s.text.Draft == 0 {
		return nil
	}
	n := s.Len() - s.text.Draft
	if at, _ := s.runs.Resumable(n); at < n {
		return nil
	}
	err := s.runs.Truncate(n)
	if errors.Is(err, ErrOutOfBlocks{}) { // of what others claimed
		return nil
	}
	if s.Len() == n {
		s.text.Truncate(n)
	}
	return err
}

// publishEnd offers what the sequence ends with: nothing is written behind it any more.
func (s *Sequence[B]) publishEnd() error {
	p := s.pool
	if p.tree == nil || p.parts.Fences.Lost() != nil {
		return nil
	}
	at, tokens, ok := s.text.End(s.runs.Entries(), s.Len())
	if !ok {
		return nil
	}
	if err := s.runs.PublishEnd(at, tokens); !errors.Is(err, prefix.ErrDetached) {
		return err
	}
	return nil
}

// forgo gives up what is on its way. The caller holds the lock.
func (s *Sequence[B]) forgo() {
	if c := s.coming; c != nil {
		s.coming = nil
		s.pool.below.Offload.Drop(c.Transfer)
	}
}
