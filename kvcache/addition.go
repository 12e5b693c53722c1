package kvcache

// addition is tokens that a call adds to a step.
type addition struct {
	tokens  []uint32 // nil: the cache of one sequence knows none
	n       int
	draft   int
	spans   []Span
	parents []int // of a tree's nodes; nil: it is none
	again   bool  // no new tokens: the last n of the sequence are queries
}

// Add gives seq new tokens in this step, at positions seq.Len() and on. Their rows
// in k, v, q and out follow those of what was added before. A sequence gets tokens in
// one open step at a time (ErrBusy), and its length is at most the pool's capacity
// (ErrCapacity). After Commit it begins the next step.
//
// A sequence may be added several times in a step, also with others in between: each time its tokens go on
// after those of the time before. After a draft or a tree it gets no more, and where it is queried none
// (ErrStep).
//
// A sequence that was opened with a prompt must first be given the rest of it,
// prompt[match.Cached:], in one step or several (ErrPrompt); more tokens may follow it in the same call. With prefix
// reuse tokens identify content: of two blocks with equal tokens after equal prefixes one is kept.
func (b *Batch[B]) Add(seq *Sequence[B], tokens []uint32) (err error) {
	defer naming("Batch.Add", &err)
	return b.add(seq, addition{tokens: tokens, n: len(tokens)})
}

// AddDraft is Add of tokens the last draft of which are guesses, as of speculative decoding: the step computes them like
// others, but nobody finds them, and no event tells of them, before they are accepted. Truncate rejects those after the
// length that it is given and accepts the others: call it after each verification, also where all were right. A step
// without it accepts all of them. Fork copies a draft as one. Release drops it, and where that cannot be offers nothing of
// the sequence's end. In a pool with Model.Groups a draft of more than Memory.Rollback tokens cannot be rejected as a
// whole, nor any part of one where layers have a state: draft on a Fork there. Guesses that branch are AddTree's.
func (b *Batch[B]) AddDraft(seq *Sequence[B], tokens []uint32, draft int) (err error) {
	defer naming("Batch.AddDraft", &err)
	if draft < 0 || draft > len(tokens) {
		return argument("a draft of %d of %d tokens", draft, len(tokens))
	}
	return b.add(seq, addition{tokens: tokens, n: len(tokens), draft: draft})
}

// AddSpans is Add of tokens of which those of each span see each other both ways, in all layers: with a window those that
// are near enough in either direction. Spans count from the first of tokens, rise, and do not overlap. Spans of a prompt are
// better named when it is opened (OpenOptions.Spans): Add then knows them, and here they need not be named again; who does
// names a whole one, or the rest of one whose beginning the sequence has. What a block holds depends on spans, so that blocks
// with some which the prompt did not name, and those after them, are found by nobody.
//
// A span over the border of a chunk (group.Chunked), and any in a model that is NonCausal or in a step of a fixed shape, is
// backend.ErrUnsupported, as all are on devices without views of queries (backend.Caps.Views).
func (b *Batch[B]) AddSpans(seq *Sequence[B], tokens []uint32, spans []Span) (err error) {
	defer naming("Batch.AddSpans", &err)
	if err := checkRising(spans, len(tokens)); err != nil {
		return err
	}
	return b.add(seq, addition{tokens: tokens, n: len(tokens), spans: spans})
}

func (b *Batch[B]) add(seq *Sequence[B], a addition) error {
	if err := b.begin(); err != nil {
		return err
	}
	p := b.pool
	p.lock()
	defer p.unlock()
	if err := b.takes(seq, a.n, "tokens"); err != nil {
		return err
	}
	b.unjoin(seq)
	at, err := b.joins(seq)
	if err != nil {
		return err
	}
	have, next := seq.Len(), seq.NextPosition()
	if at >= 0 {
		have, next = have+b.step.New(at), next+b.step.New(at)
	}
	if !a.again && a.parents == nil { // a tree comes after the prompt: see checkTree
		if err := seq.text.Continues(a.tokens, have); err != nil {
			return err
		}
	}
	switch {
	case !a.again && a.n > p.cfg.Memory.Capacity-have:
		return ErrCapacity{Have: have + a.n, Max: p.cfg.Memory.Capacity}
	case !a.again && a.n > p.cfg.Memory.Capacity-next && p.rotates():
		return ErrCapacity{Have: next + a.n, Max: p.cfg.Memory.Capacity, Positions: true}
	case a.again && a.n > have:
		return argument("%d queries: the sequence has %d tokens", a.n, have)
	}
	if err := b.admits(a.n, at); err != nil {
		return err
	}
	unknown, err := b.sight(seq, &a, have)
	if err != nil {
		return err
	}
	if c := seq.coming; c != nil && !a.again && !c.Transfer.Meets() {
		seq.forgo()
	}
	if !a.again {
		seq.text.Note(a.tokens, have)
	}
	if at < 0 {
		at = len(b.members)
		b.step.Add(&seq.runs, a.n, !a.again, next)
		b.members = append(b.members, member[B]{seq: seq})
		if b.joining.seq != nil {
			b.members[at].lead = b.joining.lead + 1
			b.step.Join(at, b.joining.lead)
			b.joining = joining[B]{any: true}
		}
		seq.busy = true
	} else {
		b.step.Again(at, a.n)
	}
	m := &b.members[at]
	m.draft, m.ended, m.silent = a.draft, a.draft > 0 || a.parents != nil, m.silent || unknown
	switch {
	case a.parents != nil:
		b.step.Grow(a.parents)
	case len(b.spans) > 0:
		b.seeSpans(have, a.n)
	}
	return nil
}

// sight finds what rows of an addition see besides what is before them, and reports whether it is more than the prompt says.
func (b *Batch[B]) sight(seq *Sequence[B], a *addition, have int) (unknown bool, err error) {
	b.spans = b.spans[:0]
	if a.parents != nil {
		return false, b.checkTree(seq, a.parents, have)
	}
	if len(a.spans) == 0 && len(seq.text.Spans) == 0 {
		return false, nil
	}
	unknown, err = b.spansOf(seq, a.spans, have, have+a.n)
	if err == nil && len(b.spans) > 0 {
		err = b.checkSpans()
	}
	return unknown, err
}

// begin empties a step that is over.
func (b *Batch[B]) begin() error {
	if b.state != stepCommitted {
		return nil
	}
	return b.Reset()
}

// takes reports why the step takes no n rows, tokens or queries, of a sequence. The caller holds the lock.
func (b *Batch[B]) takes(seq *Sequence[B], n int, what string) error {
	if err := b.want(stepOpen); err != nil {
		return err
	}
	switch {
	case seq == nil:
		return argument("the sequence is nil; open one with Pool.Open")
	case seq.pool != b.pool:
		return ErrOtherPool
	case n <= 0:
		return argument("no %s: a sequence without any is left out of the step", what)
	}
	return nil
}

// joins is the step's entry of a sequence that gets new tokens; −1: it is in no step.
func (b *Batch[B]) joins(seq *Sequence[B]) (int, error) {
	err := seq.idle()
	if err == nil || seq == b.joining.seq {
		return -1, nil
	}
	at := b.entry(seq)
	if at < 0 || seq.released {
		return 0, err
	}
	switch m := &b.members[at]; {
	case m.queried:
		return 0, ErrStep{Why: "the sequence is queried in this step; give it tokens in another one"}
	case m.ended:
		return 0, ErrStep{Why: "the sequence has a draft or a tree in this step, which are the last tokens that it gets there"}
	}
	return at, nil
}

// entry is the step's entry of a sequence that is busy; −1: it is in another step.
func (b *Batch[B]) entry(seq *Sequence[B]) int {
	for i := range b.members {
		if b.members[i].seq == seq {
			return i
		}
	}
	return -1
}
