package kvcache

import (
	"context"
	"fmt"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Match says how much of a prompt was found in the cache.
type Match struct {
	Matched   int // tokens whose keys and values were found
	Recompute int // tokens left to compute
	// Lacks is why it was not more, said of the first block that was not found;
	// prefix.NotAsked where nothing is reused. That others have it is none of the
	// caller's business: it is NeverSeen here, and counted by its cause in Stats.
	Lacks prefix.Cause
}

// OpenOptions says who a sequence shares its prefixes with, and how. The zero value
// shares with every sequence that was opened with none.
type OpenOptions struct {
	prefix.Scope
	prefix.Keep
	// Items are the images and the like behind placeholder tokens of the prompt.
	Items []prefix.Item
	// Accept is what the keys and values that are found may lack; zero: nothing.
	Accept prefix.Fidelity
	// NoReuse computes the whole prompt although it may be known: its logits are
	// wanted.
	NoReuse bool
	// NoPublish leaves nothing behind for others.
	NoPublish bool
}

// Open starts a sequence for a prompt. Of the longest prefix that is in the cache it
// shares the blocks, down to a token: at least one token is left to compute, so that
// there are logits. The caller adds the others to steps, in one or in several:
//
//	step.Add(seq, prompt[match.Matched:])
//
// Other tokens are ErrPrompt until those are committed, or the sequence is changed. The
// prompt may be nil, and any tokens added: nothing is looked up then. No other blocks are taken before a step
// needs them. A prompt longer than a sequence may be is an ErrCapacity. At most one
// option is accepted. ctx is looked at once, at the beginning: Open waits for nothing.
//
// Where prefixes are reused (Config.Prefix; the paged layout only), every full block of
// a committed step is offered to sequences that are opened later, from the moment of
// Commit: they wait, on the device, for the step that writes it. The tokens behind a
// sequence's last full block are not offered: the next turn of a conversation computes
// them again. Nor is what is still being computed: hold back a prompt that begins like
// one in hand, and open it when Match finds what that one has committed.
func (p *Pool[B]) Open(ctx context.Context, prompt []uint32, opts ...OpenOptions) (*Sequence[B], Match, error) {
	if ctx == nil {
		return nil, Match{}, backend.ErrShape{Package: "kvcache", Op: "open", What: "the context is nil; use context.Background()"}
	}
	if err := ctx.Err(); err != nil {
		return nil, Match{}, err
	}
	if len(prompt) > p.cfg.Capacity {
		return nil, Match{}, ErrCapacity{Have: len(prompt), Max: p.cfg.Capacity}
	}
	o, err := p.option("open", opts)
	if err != nil {
		return nil, Match{}, err
	}
	from, q := p.origin(prompt, o), query(prompt, o)
	q.Extra = from.extra
	var found prefix.Match
	if p.tree != nil && !o.NoReuse { // without the pool's lock: readers do not wait
		found = p.tree.Match(from.root, q)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.usable(); err != nil {
		return nil, Match{}, err
	}
	s := p.newSequence()
	s.origin = from
	m := Match{Recompute: len(prompt), Lacks: prefix.NotAsked}
	if p.tree != nil && !o.NoReuse && len(prompt) > 0 {
		if m, err = s.reuse(q, found); err != nil {
			p.dropSequence(s)
			return nil, Match{}, err
		}
	}
	s.expect(prompt)
	return s, m, nil
}

// reuse gives an empty sequence the blocks of what was found of its prompt.
func (s *Sequence[B]) reuse(q prefix.Query, found prefix.Match) (Match, error) {
	p := s.pool
	if err := p.kept.Reclaim(); err != nil { // what a device failed to write goes
		return Match{}, err
	}
	blocks, found, err := p.tree.Take(s.kept.blocks, s.root, q, s.keep, found)
	if err != nil {
		return Match{}, err
	}
	s.kept.blocks, s.len, s.published, s.fidelity = blocks, found.Tokens, found.Blocks, found.Fidelity
	s.places.next = s.len
	if p.windowed() {
		s.recent.gone = len(blocks)
	}
	p.kept.logical += len(blocks)
	if n := len(blocks); n > 0 { // the step that wrote the last one came after the others'
		s.fence = p.kept.Writer(blocks[n-1]).Hold()
	}
	return Match{Matched: found.Tokens, Recompute: len(q.Tokens) + 1 - found.Tokens, Lacks: found.Lacks().Told()}, nil
}

// query is what is looked up of a prompt: all but the token that is held back.
func query(prompt []uint32, o OpenOptions) prefix.Query {
	return prefix.Query{Tokens: prompt[:max(len(prompt)-1, 0)], Accept: o.Accept}
}

// Match says what Open would find of a prompt now, and takes nothing: for a scheduler
// that wants to know what a request costs. It waits for nobody and is not counted as a
// lookup.
func (p *Pool[B]) Match(prompt []uint32, opts ...OpenOptions) (Match, error) {
	o, err := p.option("match", opts)
	if err != nil {
		return Match{}, err
	}
	if err := p.shut(); err != nil {
		return Match{}, fmt.Errorf("kvcache: match: %w", err)
	}
	if p.tree == nil || o.NoReuse {
		return Match{Recompute: len(prompt), Lacks: prefix.NotAsked}, nil
	}
	from, q := p.origin(prompt, o), query(prompt, o)
	q.Extra = from.extra
	found := p.tree.Match(from.root, q)
	return Match{Matched: found.Tokens, Recompute: len(prompt) - found.Tokens, Lacks: found.Lacks().Told()}, nil
}

// option is the one option of a call, if it has any.
func (p *Pool[B]) option(op string, opts []OpenOptions) (OpenOptions, error) {
	switch {
	case len(opts) == 0:
		return OpenOptions{}, nil
	case len(opts) > 1:
		return OpenOptions{}, backend.ErrShape{Package: "kvcache", Op: op, What: fmt.Sprintf("%d options: need none or one", len(opts))}
	}
	o := opts[0]
	for i, item := range o.Items {
		if len(item.Hash) == 0 {
			return o, backend.ErrShape{Package: "kvcache", Op: op, What: fmt.Sprintf("item %d has no hash: all such items would be one", i)}
		}
	}
	return o, o.Check(op)
}

// origin is where a prompt's blocks belong.
func (p *Pool[B]) origin(prompt []uint32, o OpenOptions) origin {
	if p.tree == nil {
		return origin{}
	}
	from := origin{
		root: p.root(o.Scope), extra: prefix.ItemKeys(o.Items, len(prompt), p.cfg.BlockSize), keep: o.Keep,
		silent: o.NoPublish, private: o.NoReuse,
	}
	for _, item := range o.Items {
		from.items = max(from.items, min(item.End, len(prompt)))
	}
	return from
}

// root is where the paths of a scope begin: a few sums of SHA-256, but for the one that
// is used most.
func (p *Pool[B]) root(s prefix.Scope) prefix.Root {
	if s.Salt == nil && s.Adapter == nil {
		return p.common
	}
	return p.model.Root(s)
}

// Pin keeps the full blocks of what is in the cache of a prompt from eviction for so
// long, or until the lease is given to Unpin. It may find nothing: see Lease.Match. At
// most half of the pool can be pinned (prefix.ErrPinned).
func (p *Pool[B]) Pin(prompt []uint32, d time.Duration, opts ...OpenOptions) (*prefix.Lease, error) {
	o, err := p.option("pin", opts)
	if err != nil {
		return nil, err
	}
	from := p.origin(prompt, o)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.reusable("pin"); err != nil {
		return nil, err
	}
	return p.tree.Pin(from.root, prefix.Query{Tokens: prompt, Extra: from.extra, Accept: o.Accept}, d)
}

// Unpin ends a lease. prefix.ErrReleased when it has ended already.
func (p *Pool[B]) Unpin(l *prefix.Lease) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.reusable("unpin"); err != nil {
		return err
	}
	return p.tree.Unpin(l)
}

// Limit bounds what the sequences of a salt may keep in the cache: see prefix.Limits.
func (p *Pool[B]) Limit(s prefix.Scope, l prefix.Limits) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.reusable("limit"); err != nil {
		return err
	}
	return p.tree.SetLimits(p.root(s), l)
}

// Clear forgets all prefixes: after the weights have changed, for example. It is
// prefix.ErrInUse while sequences, leases or steps on the device own some, unless by
// force: then they keep theirs, and what they write from here on is not offered to others. Where nothing
// is reused there is nothing to forget.
func (p *Pool[B]) Clear(force bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.usable(); err != nil || p.tree == nil {
		return err
	}
	if err := p.kept.Reclaim(); err != nil { // what nobody uses any more does not count
		return err
	}
	if err := p.tree.Clear(force); err != nil {
		return err
	}
	for s := range p.seqs { // also those that had nothing in the tree yet
		s.silent = s.silent || s.len > 0 || s.step != nil
	}
	return nil
}

// Watch returns a stream of what enters and leaves the prefix tree, with room for so
// many events (at most prefix.MaxRoom), and what is in it now: for a router that sends
// requests where their prefix is. It never makes the pool wait. Unwatch or Close ends it.
func (p *Pool[B]) Watch(room int) (*prefix.Subscription, []prefix.Event, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.reusable("watch"); err != nil {
		return nil, nil, err
	}
	if room > prefix.MaxRoom {
		return nil, nil, backend.ErrShape{Package: "kvcache", Op: "watch", What: fmt.Sprintf("room for %d events: accepts up to %d", room, prefix.MaxRoom)}
	}
	sub, have := p.tree.Subscribe(room)
	return sub, have, nil
}

// Unwatch ends a stream and closes its channel.
func (p *Pool[B]) Unwatch(s *prefix.Subscription) {
	if p.tree != nil {
		p.tree.Unsubscribe(s)
	}
}

// SaltStats returns the numbers of one salt: nothing in them tells of others. A salt
// with limits is counted as long as it has them, another from its first block until its
// last one has gone.
func (p *Pool[B]) SaltStats(s prefix.Scope) (prefix.Stats, error) {
	if err := p.shut(); err != nil {
		return prefix.Stats{}, fmt.Errorf("kvcache: salt stats: %w", err)
	}
	if p.tree == nil {
		return prefix.Stats{}, errNoReuse("salt stats")
	}
	return p.tree.SaltStats(p.root(s)), nil
}

// reusable reports why the pool has no prefix tree to work on.
func (p *Pool[B]) reusable(op string) error {
	if p.tree == nil {
		return errNoReuse(op)
	}
	return p.usable()
}

func errNoReuse(op string) error {
	return backend.ErrUnsupported{Package: "kvcache", Op: op, Why: "the pool reuses no prefixes: it has the contiguous layout, or Config.Prefix is off"}
}
