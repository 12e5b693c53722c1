package kvcache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/offload"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/disk"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
)

// below is what a pool has below the device.
type below[B backend.Buffer] struct {
	offload *offload.Offload[B] // nil: nothing
	tiers   []tier.Tier         // fastest first
	own     []tier.Tier         // those that the pool opened
	outlive bool                // one of them is found by the next process
}

// openTiers opens the tiers of the configuration and the way to them.
func (p *Pool[B]) openTiers(be backend.Backend[B]) (err error) {
	t := &p.cfg.Tiers
	if !t.Any() {
		return nil
	}
	if p.parts.Grouped() {
		return unsupported("tiers do not go with Model.Groups yet; leave Tiers unset, or have one group")
	}
	defer func() {
		if err != nil {
			_ = p.below.close()
		}
	}()
	if host := t.HostBytes; host != 0 {
		if err := HostTier(be.Info()); err != nil {
			return err
		}
		if host < 0 {
			var pool int64
			if be.Info().HostVisible {
				pool, _ = p.cfg.Bytes()
			}
			host = memory.DefaultBytes(pool)
		}
		if need, err := p.blockBytes(); err != nil {
			return err
		} else if host < need {
			return ErrConfig{Name: "Tiers.HostBytes", Value: strconv.FormatInt(host, 10), Why: fmt.Sprintf("has no room for a block, which takes %d bytes", need)}
		}
		m, err := memory.Open(memory.Options{Bytes: host})
		if err != nil {
			return err
		}
		p.below.own = append(p.below.own, m)
	}
	if d := &t.Disk; d.Dir != "" {
		bytes, err := p.blockBytes()
		if err != nil {
			return err
		}
		n := disk.Namespace{Fingerprint: p.model.Key(), About: map[string]string{
			"digest": fmt.Sprintf("%x", p.cfg.Model.Digest), "layers": fmt.Sprint(p.cfg.Model.Layers),
			"keys": p.cfg.Storage.K.String(), "values": p.cfg.Storage.V.String(), "block tokens": fmt.Sprint(p.cfg.EntryTokens()),
		}}
		on, err := disk.Open(disk.Options{Dir: disk.Path(d.Dir, n), Namespace: n, Payload: bytes, Bytes: d.Bytes, Floor: d.Floor,
			Admission: d.Admission, WriteBudget: d.WriteBudget, Durable: d.Durable, Secret: d.Secret, Network: d.Network})
		if err != nil {
			return err
		}
		p.below.own = append(p.below.own, on)
	}
	p.below.tiers = append(append(p.below.tiers, p.below.own...), t.More...)
	for _, tr := range p.below.tiers {
		p.below.outlive = p.below.outlive || tr.Info().Outlives
	}
	st := p.parts.All[0].Kept
	p.below.offload, err = offload.New(be, &p.mu, p.parts.Blocks, st, p.cfg.EntryTokens(), p.below.tiers)
	return err
}

// HostTier is why a device's pools have no tier of host memory, an ErrUnsupported; nil: they may have one.
func HostTier(device backend.Info) error {
	if device.HostVisible && device.Kernels == "" {
		return unsupported("the device's memory is the host's: blocks would be copied from it to itself; leave Tiers.HostBytes unset, and have more Memory.Blocks")
	}
	return nil
}

// checkScope is ErrConfig where blocks of a scope would be taken for those of other weights by the next process.
func (p *Pool[B]) checkScope(s prefix.Scope) error {
	if !p.below.outlive {
		return nil
	}
	if err := s.Persistable(); err != nil {
		return ErrConfig{Name: "Adapter.Version", Value: "", Why: err.(prefix.ErrArgument).Why}
	}
	return nil
}

// blockBytes is a block as it goes to tiers.
func (p *Pool[B]) blockBytes() (int64, error) {
	st := p.parts.All[0].Kept
	set, free, err := st.BlockSet(p.parts.BE)
	if err != nil {
		return 0, err
	}
	defer free()
	return set.BlockBytes() * int64(st.Each()), set.Close()
}

// closeWait is how long Close waits for what is on its way down.
const closeWait = 10 * time.Second

// close lets go of everything. The pool's lock is not held.
func (b *below[B]) close() (err error) {
	if o := b.offload; o != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeWait)
		defer cancel()
		_ = o.Flush(ctx) // a tier that hangs does not hang the program
		err = o.Close()
	}
	for _, t := range b.own {
		err = errors.Join(err, t.Close())
	}
	b.offload, b.own, b.tiers = nil, nil, nil
	return err
}

// ErrLoading is an Add of tokens to a sequence that waits for some from tiers, and was opened with MustWait.
type ErrLoading struct{ Tokens int }

func (e ErrLoading) Error() string {
	return fmt.Sprintf("kvcache: %d tokens of the prompt are on their way from tiers; call Sequence.Wait, or open the sequence without MustWait", e.Tokens)
}

// Is matches any ErrLoading with errors.Is(err, ErrLoading{}).
func (e ErrLoading) Is(target error) bool {
	t, ok := target.(ErrLoading)
	return ok && (t == e || t == ErrLoading{})
}

// arrival is what a sequence waits for.
type arrival struct {
	load  *offload.Load
	want  int // tokens
	first int // block of the sequence that it is for
	must  bool
}

// lower finds in tiers what of a prompt follows what was found in the tree: it returns what to load. No lock is held.
func (p *Pool[B]) lower(root prefix.Root, q prefix.Query, found prefix.Match) (w offload.Want, tokens int) {
	o := p.below.offload
	size := p.cfg.EntryTokens()
	if o == nil || len(q.Tokens)/size <= found.Blocks {
		return w, 0
	}
	all := prefix.Query{Tokens: q.Tokens[:len(q.Tokens)/size*size], Extra: q.Extra}
	keys := root.Keys(nil, size, all)[found.Blocks:]
	ctx, cancel := context.WithTimeout(context.Background(), findWait)
	defer cancel()
	places, n := o.Find(ctx, keys)
	if n == 0 {
		return w, 0
	}
	from := found.Blocks * size
	w = offload.Want{Path: prefix.Path{Root: root, Extra: q.Extra[min(found.Blocks, len(q.Extra)):]}, Tokens: q.Tokens[from : from+n*size],
		Keys: keys[:n], Places: places}
	return w, n * size
}

// findWait is how long Open waits for tiers to say what they have: what is slower has nothing.
var findWait = time.Second

// expect begins to load what was found in tiers for a sequence that was just opened. The caller holds the lock.
func (s *Sequence[B]) expect(w offload.Want, found prefix.Match, must bool) (tokens int) {
	o := s.pool.below.offload
	if o == nil || len(w.Keys) == 0 || s.text.Findable() != found.Blocks {
		return 0
	}
	w.Have = s.body.Entries()[:found.Blocks]
	w.Path.RetentionHint = s.text.Keep
	l := o.Begin(w)
	if l == nil {
		return 0
	}
	s.coming = &arrival{l, len(w.Keys) * s.pool.cfg.EntryTokens(), found.Blocks, must}
	return s.coming.want
}

// forgo gives up what is on its way. The caller holds the lock.
func (s *Sequence[B]) forgo() {
	if c := s.coming; c != nil {
		s.coming = nil
		s.pool.below.offload.Drop(c.load)
	}
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
	if c == nil || c.load.Meets() {
		m = s.matched()
		p.unlock()
		return m, nil
	}
	s.busy = true
	p.unlock()
	select {
	case <-c.load.Done:
	case <-ctx.Done():
		c.load.Cancel()
		<-c.load.Done // what is under way ends soon
		err = ctx.Err()
	}
	p.lock()
	defer p.unlock()
	s.busy, s.coming = false, nil
	if shut := p.shut(); shut != nil {
		return Match{}, shut
	}
	n, from := c.load.Blocks()
	from = append([]int(nil), from...)
	if n > 0 {
		err = cmp.Or(s.body.Extend(p.below.offload.TakeOver(c.load)), err)
		s.text.Extend(n, s.Len())
	} else {
		p.below.offload.Drop(c.load)
	}
	m = s.matched()
	for i := range from {
		from[i] *= p.cfg.EntryTokens()
	}
	m.Tiers = from
	return m, err
}

// giveWay has blocks come back that tiers filled for sequences which are computed meanwhile.
func (p *Pool[B]) giveWay() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.below.offload != nil && p.below.offload.GiveWay()
}

// meet has the sequence go on behind what tiers brought while it was computed, if it has come so far. The caller holds the
// lock, and the sequence's step is committed.
func (s *Sequence[B]) meet(f *residency.Fence) error {
	p, c, size := s.pool, s.coming, s.pool.cfg.EntryTokens()
	first := c.first
	at := s.Len() / size
	if at >= first+c.want/size { // all of it is computed
		s.forgo()
		return nil
	}
	if s.Len()%size != 0 || s.text.Draft > 0 || s.text.Findable() != at {
		return nil
	}
	rest := prefix.Path{Root: s.text.Root, RetentionHint: s.text.Keep, Parent: s.body.Entries()[at-1]}
	rest.Extra = s.text.Extra[min(at, len(s.text.Extra)):]
	tokens := s.text.Tokens()[s.Len() : (first+c.want/size)*size]
	if !p.parts.Blocks.KnownWritten(f, rest, tokens) {
		return nil // others write the same: later
	}
	blocks := p.below.offload.Meet(c.load, at-first)
	if blocks == nil {
		return nil
	}
	s.coming = nil
	n, err := p.parts.Blocks.Publish(nil, nil, rest, tokens, blocks)
	err = cmp.Or(err, p.parts.Blocks.Retire(nil, blocks[n:]), s.body.Extend(blocks[:n]))
	s.text.Extend(n, s.Len())
	return err
}

// toMeet is how many of the next n tokens to compute so that the sequence can meet what tiers bring (OpenOptions.Overlap): up to where that
// begins, and whole blocks.
func (s *Sequence[B]) toMeet(n int) int {
	c, size := s.coming, s.pool.cfg.EntryTokens()
	if c == nil || !c.load.Meets() {
		return n
	}
	if border := (c.first + c.load.Between()) * size; border > s.Len() {
		n = min(n, border-s.Len())
	}
	if end := (s.Len() + n) / size * size; end > s.Len() {
		n = end - s.Len()
	}
	return n
}

// matched is what the sequence has of its prompt.
func (s *Sequence[B]) matched() Match {
	return Match{Cached: s.Len(), Uncached: max(s.text.Prompt()-s.Len(), 0), MissReason: prefix.NotLookedUp}
}

// Prefilled tells the pool what the runner computed: so many tokens of a prompt after a context of others, and how long that took.
// By that the pool knows when loading is faster: until it is told, it loads whatever tiers have. With steps of several prompts it is told the
// part of each.
func (p *Pool[B]) Prefilled(context, tokens int, took time.Duration) {
	if o := p.below.offload; o != nil {
		o.Planner().Prefilled(context, tokens, took)
	}
}

// Flush waits until the blocks that are written by now are in tiers, or ctx ends. Close waits a while for that by itself.
func (p *Pool[B]) Flush(ctx context.Context) (err error) {
	defer naming("Pool.Flush", &err)
	if err := p.shut(); err != nil {
		return err
	}
	if p.below.offload == nil {
		return nil
	}
	return p.below.offload.Flush(ctx)
}
