package kvcache

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/internal/offload"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/text"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// OpenOptions says with whom a sequence shares its prefixes, and how. The zero value
// shares with every sequence that was opened with the zero value.
type OpenOptions struct {
	prefix.Scope
	prefix.RetentionHint
	// Items are the images, or other content, that placeholder tokens of the prompt stand for.
	Items []prefix.Item
	// Spans are tokens of the prompt that see each other both ways, such as those of an image, in rising order: Add computes
	// them so, those of each in one step (ErrSpan), and their blocks are found by prompts with the same spans only. See
	// Batch.AddSpans.
	Spans []Span
	// Accept is how found keys and values may differ from exact ones; zero: not at all.
	Accept prefix.Fidelity
	// NoReuse computes the whole prompt even if it is cached, for instance to get all its
	// logits.
	NoReuse bool
	// Overlap says that the runner can compute the beginning of a prompt while tiers bring its end, where that is fastest. It gives steps
	// prompt[seq.Len():] in pieces (Sequence.Piece) as long as there is some: with a Commit Len may go on by more than the tokens that were
	// added. Wait returns at once then.
	Overlap bool
	// NoPublish keeps the sequence's blocks out of the prefix tree: no other sequence finds
	// them.
	NoPublish bool
}

// Open starts a sequence for a prompt. It shares the cached blocks of the longest known prefix, to
// the token, but leaves at least one token to compute, so that there are logits. The caller adds the
// remaining tokens to one or several steps:
//
//	step.Add(seq, prompt[match.Cached:])
//
// Until those are committed, or the sequence is truncated or otherwise changed, Add returns ErrPrompt
// for other tokens. With a nil prompt nothing is looked up, and any tokens can be added. Open takes no
// new blocks, a step takes them when it needs them, and Open does not wait for the device. A prompt of more than
// Memory.Capacity tokens is an ErrCapacity.
//
// Where prefixes are reused (Memory.Prefix; the paged layout only), every full block of
// a committed step is offered to sequences that are opened after its Commit; on the device
// they wait for the step that writes it. The tokens after a sequence's last full block are
// offered when it is released, so that the next turn of a conversation computes only what is
// new; with Storage.Residual they are not. Blocks of uncommitted steps are not offered:
// Batch.Join shares them with prompts of the same step, and Match.Pending says how much there is.
func (p *Pool[B]) Open(prompt []uint32, o OpenOptions) (seq *Sequence[B], m Match, err error) {
	defer naming("Pool.Open", &err)
	if len(prompt) > p.cfg.Memory.Capacity {
		return nil, Match{}, ErrCapacity{Have: len(prompt), Max: p.cfg.Memory.Capacity}
	}
	if err := o.check(prompt); err != nil {
		return nil, Match{}, err
	}
	if err := p.checkScope(o.Scope); err != nil {
		return nil, Match{}, err
	}
	from, q := p.origin(prompt, o), query(prompt, o)
	q.Extra = from.Extra
	o.remember(&from, len(prompt))
	var found prefix.Match
	var more offload.Request
	var below int
	if p.tree != nil && !o.NoReuse { // without the pool's lock: readers do not wait
		found, _ = p.parts.Blocks.Groups().Peek(from.Root, q)
		more, below = p.lower(from.Root, q, found)
	}
	var plan string
	if seq, m, plan, err = p.start(prompt, o, from, q, found, more, below); err == nil {
		p.logOpened(len(prompt), m, plan)
	}
	return seq, m, err
}

// start makes the sequence of a prompt of which that much was found, in the tree and below the device; plan is why that much is loaded.
func (p *Pool[B]) start(prompt []uint32, o OpenOptions, from text.Origin, q prefix.Query, found prefix.Match, more offload.Request, below int) (s *Sequence[B], m Match, plan string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.usable(); err != nil {
		return nil, Match{}, "", err
	}
	s = p.newSequence(from)
	m = Match{Uncached: len(prompt), MissReason: prefix.NotLookedUp}
	if p.tree != nil && !o.NoReuse && len(prompt) > 0 {
		if m, err = s.reuse(q, found); err != nil {
			s.drop()
			return nil, Match{}, "", err
		}
	}
	more.Both = o.Overlap && !o.NoPublish && p.parts.Appends()
	m.Loading, plan = s.expect(more, below)
	s.text.Expect(prompt, s.Len())
	s.fresh = true
	if s.text.Prompt() > 0 && s.shares() {
		m.Pending = max(s.pending(func(*Sequence[B]) bool { return true })-s.Len(), 0)
	}
	s.runs.Prompt(len(prompt))
	return s, m, plan, nil
}

// reuse gives an empty sequence the blocks of what was found of its prompt.
func (s *Sequence[B]) reuse(q prefix.Query, found prefix.Match) (Match, error) {
	p := s.pool
	if err := p.parts.Blocks.Reclaim(); err != nil { // what a device failed to write goes
		return Match{}, err
	}
	taken, err := p.parts.Blocks.Groups().Take(s.text.Root, q, s.text.Keep, found)
	if err != nil {
		return Match{}, err
	}
	s.runs.Reuse(taken)
	s.text.Reuse(taken.Match)
	return Match{Cached: taken.Tokens, Uncached: len(q.Tokens) + 1 - taken.Tokens, MissReason: taken.MissReason().Redacted()}, nil
}

// query is what is looked up of a prompt: all but the token that is held back.
func query(prompt []uint32, o OpenOptions) prefix.Query {
	return prefix.Query{Tokens: prompt[:max(len(prompt)-1, 0)], Accept: o.Accept}
}

// Match says what Open would find of a prompt now, without opening a sequence: for a
// scheduler that wants to know what a request costs. It does not wait for other calls, but
// in a pool some of whose layers give something up (Model.Groups) for those that hold its lock, none of which waits for a device;
// Stats does not count it as a lookup.
func (p *Pool[B]) Match(prompt []uint32, o OpenOptions) (_ Match, err error) {
	defer naming("Pool.Match", &err)
	if err := o.check(prompt); err != nil {
		return Match{}, err
	}
	if err := p.closedErr(); err != nil {
		return Match{}, err
	}
	if p.tree == nil || o.NoReuse {
		return Match{Uncached: len(prompt), MissReason: prefix.NotLookedUp}, nil
	}
	from, q := p.origin(prompt, o), query(prompt, o)
	q.Extra = from.Extra
	found := p.match(from.Root, q)
	w, more := p.lower(from.Root, q, found)
	if more > 0 {
		more = len(w.Tokens) - found.Tokens // it may have the beginning of a block
	}
	return Match{Cached: found.Tokens, Uncached: len(prompt) - found.Tokens, MissReason: found.MissReason().Redacted(), Loading: more}, nil
}

// match is what is found of a query.
func (p *Pool[B]) match(root prefix.Root, q prefix.Query) prefix.Match {
	groups := p.parts.Blocks.Groups()
	m, ok := groups.Peek(root, q)
	if !ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		m, _ = groups.Match(root, q)
	}
	return m
}

func (o *OpenOptions) check(prompt []uint32) error {
	if err := checkRising(o.Spans, len(prompt)); err != nil {
		return err
	}
	for i, item := range o.Items {
		if len(item.Hash) == 0 {
			return argument("item %d has no hash: all such items would be one", i)
		}
	}
	return o.Check("RetentionHint")
}

// origin is where a prompt's blocks belong.
func (p *Pool[B]) origin(prompt []uint32, o OpenOptions) text.Origin {
	spans := slices.Clone(o.Spans)
	from := text.Origin{
		Keep: o.RetentionHint, Silent: o.NoPublish, Private: o.NoReuse, Spans: spans, Seen: spans,
	}
	if p.tree != nil {
		from.Root, from.Extra = p.root(o.Scope), prefix.SpanKeys(prompt, o.Items, spans, p.cfg.EntryTokens())
	}
	for _, item := range o.Items {
		from.Items = max(from.Items, min(item.End, len(prompt)))
	}
	if n := len(o.Spans); n > 0 {
		from.Items = max(from.Items, o.Spans[n-1].End)
	}
	return from
}

// remember notes what a snapshot has of a sequence that is opened so, with a prompt of so many tokens: the options are the caller's.
func (o *OpenOptions) remember(in *text.Origin, prompt int) {
	in.Scope = o.Scope.Clone()
	for _, item := range o.Items {
		if begin, end := max(item.Begin, 0), min(item.End, prompt); begin < end {
			in.Contents = append(in.Contents, prefix.Item{Begin: begin, End: end, Hash: slices.Clone(item.Hash)})
		}
	}
}

// root is where the paths of a scope begin: a few sums of SHA-256, but for the one that
// is used most.
func (p *Pool[B]) root(s prefix.Scope) prefix.Root {
	if s.Salt == nil && s.Adapter == nil {
		return p.common
	}
	return p.model.Root(s)
}

// checkScope is ErrConfig if the next process would take blocks of a scope for those of other weights. If only an environment variable
// set the tier that outlives this one, they stay above that tier instead.
func (p *Pool[B]) checkScope(s prefix.Scope) error {
	if err := p.below.Admit(s, p.root); err != nil {
		return ErrConfig{Name: "Adapter.Version", Value: "", Why: err.(prefix.ErrArgument).Why}
	}
	return nil
}
