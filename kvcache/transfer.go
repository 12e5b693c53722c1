package kvcache

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/offload"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Match says how much of a prompt was found in the cache.
type Match struct {
	Cached   int // tokens whose keys and values were found
	Uncached int // tokens left to compute
	// MissReason is why the first block that was not found was not found;
	// prefix.NotLookedUp if the pool or the sequence reuses nothing. What other tenants
	// have is not told: it is NeverSeen here; Pool.Stats counts the real reason.
	MissReason prefix.MissReason
	// Loading is, of Uncached, the tokens that are on their way from tiers: wait for them by Sequence.Wait, or go on and compute them.
	Loading int
	// Pending is, of Uncached, the tokens that other sequences are about to write: see Batch.Join. Pool.Match does not say it.
	Pending int
	// Tiers is, of Cached, the tokens that came from each tier (Pool.Tiers) while Sequence.Wait waited; nil: none did.
	Tiers []int
}

// lower finds in tiers what of a prompt follows what was found in the tree: it returns what to load. No lock is held.
func (p *Pool[B]) lower(root prefix.Root, q prefix.Query, found prefix.Match) (w offload.Request, tokens int) {
	o := p.below.Offload
	if o == nil || len(q.Tokens)/p.cfg.EntryTokens() <= found.Blocks {
		return w, 0
	}
	most := findWait
	if left := o.Planner().Patience(found.Tokens, len(q.Tokens)-found.Tokens); left > 0 {
		most = min(most, max(left, findLeast))
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	begin := time.Now()
	w, tokens = o.Find(ctx, root, q, found)
	w.Asked = max(time.Since(begin)-findLeast, 0)
	return w, tokens
}

// findWait is how long Open waits for tiers to say what they have, or a tenth of what computing takes, if that is known and less, or
// findLeast: what is slower has nothing.
var findWait, findLeast = 100 * time.Millisecond, 10 * time.Millisecond

// expect begins to load what was found in tiers for a sequence that was just opened, and returns how many tokens will come, and why. The caller holds the lock.
func (s *Sequence[B]) expect(w offload.Request, tokens int) (int, string) {
	o := s.pool.below.Offload
	if o == nil || tokens == 0 || s.text.Fidelity != prefix.Exact { // lossy content, that came meanwhile, is not extended by exact one
		return 0, ""
	}
	w.Path.RetentionHint = s.text.Keep
	w.Tokens = slices.Clone(w.Tokens) // the prompt is the caller's
	l, why := o.Begin(w)
	if l == nil {
		return 0, why
	}
	s.coming = &offload.Incoming{Transfer: l, End: len(w.Tokens), Base: s.Len(), First: l.First()}
	return s.coming.Rest(s.Len()), why
}

// Wait waits until what of the sequence's prompt was on its way from tiers (Match.Loading) is there, or no more will come: as long
// as loading is expected to be faster than computing (Pool.Prefilled), or ctx lives. It returns how much of the prompt the sequence
// has then: go on with prompt[match.Cached:]. When ctx ends it returns that, too, and the context's error; no more comes
// then. Without anything on its way it returns at once.
func (s *Sequence[B]) Wait(ctx context.Context) (m Match, err error) {
	defer naming("Sequence.Wait", &err)
	p := s.pool
	p.lock()
	c := s.coming
	if err := s.idle(); err != nil {
		p.unlock()
		return Match{}, err
	}
	if c == nil || c.Transfer.Meets() {
		m = s.matched()
		p.unlock()
		return m, nil
	}
	s.busy = true
	p.unlock()
	select {
	case <-c.Transfer.Done:
	case <-ctx.Done():
		c.Transfer.Cancel()
		<-c.Transfer.Done // what is under way ends soon
		err = ctx.Err()
	}
	defer func() { p.logWaited(m, err) }() // without the lock
	p.lock()
	defer p.unlock()
	s.busy, s.coming = false, nil
	if shut := p.closedErr(); shut != nil {
		return Match{}, shut
	}
	from, failed := s.arrive(c)
	m = s.matched()
	for i := range from {
		from[i] *= p.cfg.EntryTokens()
	}
	m.Tiers = from
	return m, cmp.Or(failed, err)
}

// arrive gives the sequence what has come, and returns how many entries came from each tier. The caller holds the lock.
func (s *Sequence[B]) arrive(c *offload.Incoming) (from []int, err error) {
	o := s.pool.below.Offload
	if s.Len() != c.Base || o.Forgotten(c.Transfer) { // it is not what it was opened for
		o.Drop(c.Transfer)
		return nil, nil
	}
	found, from, err := o.Hand(c.Transfer, s.Len())
	if err != nil || found.Tokens == 0 {
		return nil, err
	}
	err = s.runs.ReuseAnew(found)
	s.text.Reuse(found.Match)
	return from, err
}

// meet has the sequence go on behind what tiers brought while it was computed, if it has come so far. The caller holds the
// lock, and the sequence's step is committed.
func (s *Sequence[B]) meet(f *residency.Fence) error {
	p, c, size := s.pool, s.coming, s.pool.cfg.EntryTokens()
	at, end := s.Len()/size, c.End/size
	if at >= end { // all of it is computed
		s.forgo()
		return nil
	}
	if s.Len()%size != 0 || s.text.Draft > 0 || s.text.Findable() != at {
		return nil
	}
	rest := prefix.Path{Root: s.text.Root, RetentionHint: s.text.Keep, Parent: s.runs.Entries()[at-1]}
	rest.Extra = s.text.Extra[min(at, len(s.text.Extra)):]
	tokens := s.text.Tokens()[s.Len() : end*size]
	if !p.parts.Blocks.KnownWritten(f, rest, tokens) {
		return nil // others write the same: later
	}
	blocks := p.below.Offload.Meet(c.Transfer, at-c.First)
	if blocks == nil {
		return nil
	}
	s.coming = nil
	n, _, err := p.parts.Blocks.Publish(nil, nil, nil, rest, tokens, func(_, i int) *block.Block { return &blocks[i] })
	err = cmp.Or(err, p.parts.Blocks.Retire(nil, blocks[n:]), s.runs.Extend(blocks[:n]))
	s.text.Extend(n, s.Len())
	return err
}

// matched is what the sequence has of its prompt.
func (s *Sequence[B]) matched() Match {
	return Match{Cached: s.Len(), Uncached: max(s.text.Prompt()-s.Len(), 0), MissReason: prefix.NotLookedUp}
}
