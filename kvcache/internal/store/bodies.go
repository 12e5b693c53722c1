package store

import (
	"cmp"
	"errors"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Bodies are what a sequence has on the device: a body in each part, of as many tokens.
type Bodies[B backend.Buffer] struct {
	Parts []Body[B]
	// Path is the entries of the prefix tree that the sequence owns besides blocks.
	Path []block.Block
	// Tail is the entry whose beginning a sequence has that found it, until its first step.
	Tail block.Block
	// Behind are steps of others that write what the sequence reads, besides its fence.
	Behind []*residency.Fence
	// Past is the steps that wrote what the sequence has, as far as it is not known that they did.
	Past residency.Past
	// Marks are where others may go on who have the beginning of the sequence's prompt.
	Marks group.Marks
	// Failed is the device's error that left the content undefined.
	Failed error
	// Away is what a suspended sequence has instead of blocks; nil: it is not suspended.
	Away *Away

	arriving []segmentOf[B] // blocks besides: those that are filled again, and marks
	all      *Parts[B]
	one      [1]Body[B] // of a pool with one part
}

// Begin makes s, which stays where it is, that of an empty sequence whose paths begin at root. It takes over the memory of
// lists.
func (s *Bodies[B]) Begin(p *Parts[B], root prefix.Root, l Lists) {
	s.all, s.Path, s.Past = p, l.path, l.past
	if s.Parts = s.one[:]; len(p.All) > 1 {
		s.Parts = make([]Body[B], len(p.All))
	}
	for i := range s.Parts {
		s.Parts[i] = Body[B]{Of: s, Stores: p.All[i], Root: root}
	}
	s.Parts[0].Kept.Blocks, s.Parts[0].Recent.Blocks = l.kept, l.recent
}

// Lists are the memory of a sequence's blocks, of no sequence any more: they grow with what they hold, and most
// sequences need not grow theirs.
type Lists struct {
	kept, recent, path []block.Block
	past               residency.Past
}

// Drop is the memory of the lists of a sequence without blocks.
func (s *Bodies[B]) Drop() Lists {
	b := &s.Parts[0]
	l := Lists{b.Kept.Blocks[:0], b.Recent.Blocks[:0], s.Path[:0], s.Past}
	b.Kept.Blocks, b.Recent.Blocks, s.Path, s.Past = nil, nil, nil, residency.Past{}
	return l
}

// Len is the tokens of the sequence.
func (s *Bodies[B]) Len() int {
	if s.Parts == nil { // of no pool
		return 0
	}
	if s.Away != nil {
		return s.Away.Tokens
	}
	return s.Parts[0].Total()
}

// Reads reports whether an entry of the prefix tree is the sequence's.
func (s *Bodies[B]) Reads(entry block.Block) bool {
	return entry == s.Tail || slices.Contains(s.Entries(), entry)
}

// Blocks appends the numbers of the first part's blocks.
func (s *Bodies[B]) Blocks(dst []uint32) []uint32 {
	if s.Parts == nil {
		return dst
	}
	for _, b := range s.Parts[0].Kept.Blocks {
		dst = append(dst, b.ID)
	}
	return dst
}

// Entries are those of the prefix tree that the sequence has, and may have once they are published.
func (s *Bodies[B]) Entries() []block.Block {
	return s.all.Blocks.Groups().PathOf(s.Path, s.Parts[0].Kept.Blocks)
}

// Full is the number of entries of the prefix tree that the sequence's blocks fill.
func (s *Bodies[B]) Full() int {
	n := s.Len() / s.all.Config.EntryTokens()
	for i := range s.Parts {
		if b := &s.Parts[i]; b.Stores.States == nil {
			n = min(n, (b.Full()+b.Gone)*b.Stores.Rule.Block/s.all.Config.EntryTokens())
		}
	}
	return n
}

// Extend gives a sequence whose blocks, but for the beginning of one more, were found, blocks that come after the full ones. They are
// written. It is for pools whose entries are blocks: what the sequence has stays as it is.
func (s *Bodies[B]) Extend(blocks []block.Block) error {
	b := &s.Parts[0]
	full, had := b.Full(), len(b.Kept.Blocks)
	err := b.Stores.Kept.Cut(&b.Kept, full, b.Fence)
	s.Past.Cut(&s.all.Fences, full*b.Stores.Config.BlockTokens())
	b.Kept.Blocks = append(b.Kept.Blocks, blocks...)
	b.Stores.Kept.Logical += len(blocks)
	b.Len = len(b.Kept.Blocks) * b.Stores.Config.BlockTokens()
	if b.Stores.Windowed() {
		b.Recent.Gone = len(b.Kept.Blocks)
	}
	b.got(had)
	return err
}

// Reuse gives an empty sequence what was found of its prompt.
func (s *Bodies[B]) Reuse(f group.Found) {
	s.Path, s.Marks.Found, s.Marks.Branch = append(s.Path[:0], f.Path...), f.Tokens, f.Known
	for i := range s.Parts {
		s.Parts[i].Reuse(f.Runs[i].Blocks, f.Runs[i].Gone, f.Tokens)
	}
	if f.Last != (block.Block{}) {
		s.Parts[0].Fence = s.all.Blocks.Writer(f.Last).Hold()
	}
	s.inherit(f.Tokens)
	if last := len(s.Path) - 1; f.Tail > 0 && last >= 0 { // what comes next is this sequence's own
		s.Tail = s.Path[last]
		_ = s.all.Blocks.RetirePath(nil, s.Path[last:]) // taken a moment ago
		s.Path = s.Path[:last]
	}
	for _, e := range f.Path {
		if w := s.all.Blocks.Writer(e); !w.Reached() && !slices.Contains(s.Behind, w) {
			s.Behind = append(s.Behind, w.Hold())
		}
	}
}

// Fork makes an empty child another owner of everything.
func (s *Bodies[B]) Fork(child *Bodies[B]) error {
	if len(s.Path) > 0 {
		if err := s.all.Blocks.Groups().Entries().RetainN(s.Path); err != nil {
			return err
		}
		child.Path = append(child.Path[:0], s.Path...)
	}
	for i := range s.Parts {
		if err := s.Parts[i].Fork(&child.Parts[i]); err != nil {
			return errors.Join(err, child.release(i))
		}
	}
	child.Tail, child.Marks = s.Tail, s.Marks
	s.Past.CopyTo(&child.Past)
	for _, f := range s.Behind {
		child.Behind = append(child.Behind, f.Hold())
	}
	return nil
}

// Release gives everything back. The sequence is released also with an error.
func (s *Bodies[B]) Release() error { return s.release(len(s.Parts)) }

func (s *Bodies[B]) release(parts int) error { return s.leave(parts, (*Body[B]).Release) }

// leave has the first parts give up what they have, and the path after them.
func (s *Bodies[B]) leave(parts int, part func(*Body[B]) error) (err error) {
	var last *residency.Fence
	if parts > 0 && len(s.Path) > 0 {
		last = s.Parts[0].Fence.Hold()
		defer s.all.Fences.Drop(last)
	}
	for i := range parts {
		err = cmp.Or(err, part(&s.Parts[i]))
	}
	s.forgetBehind()
	s.Past.Cut(&s.all.Fences, 0)
	err = cmp.Or(err, s.all.Blocks.RetirePath(last, s.Path))
	s.Path = s.Path[:0]
	return err
}

// Used replaces the sequence's fence by that of a later step.
func (s *Bodies[B]) Used(f *residency.Fence) {
	for i := range s.Parts {
		s.all.Fences.Replace(&s.Parts[i].Fence, f)
	}
	s.Tail = block.Block{}
	s.forgetBehind()
}

func (s *Bodies[B]) forgetBehind() {
	for _, f := range s.Behind {
		s.all.Fences.Drop(f)
	}
	clear(s.Behind)
	s.Behind = s.Behind[:0]
}

// Wrote notes that a step wrote the sequence's last tokens, so many of them.
func (s *Bodies[B]) Wrote(f *residency.Fence, tokens int) {
	if s.all.Blocks.Tree() == nil {
		return
	}
	from := 0 // a state is written anew, and a window quantizes what was written before
	if len(s.Parts) == 1 && !s.all.partly && !s.Parts[0].Stores.Windowed() {
		size := s.all.Config.EntryTokens()
		from = (s.Len() - tokens) / size * size // the block may be a copy
	}
	s.Past.Add(&s.all.Fences, f, from)
}

// inherit notes who writes the entry of the prefix tree that the sequence ends in the middle of, with n tokens: the
// sequence will have a copy of that part of it.
func (s *Bodies[B]) inherit(n int) {
	size := s.all.Config.EntryTokens()
	if n%size == 0 || s.all.Blocks.Tree() == nil {
		return
	}
	if entries := s.Entries(); n/size < len(entries) {
		s.all.Blocks.Inherit(&s.Past, entries[n/size], n/size*size)
	}
}

// Order puts a stream behind what was enqueued for the sequence before.
func (s *Bodies[B]) Order(stream backend.Stream) error {
	for _, f := range s.Behind {
		if err := f.Order(stream); err != nil {
			return err
		}
	}
	return s.Parts[0].Fence.Order(stream)
}

// FenceBehind makes this point of a stream, behind the sequence's fence, that fence.
func (s *Bodies[B]) FenceBehind(stream backend.Stream) error {
	if err := s.Order(stream); err != nil {
		return errors.Join(s.all.Fences.Observe(err), residency.Drain(stream))
	}
	return s.Touched(stream)
}

// Touched makes this point of a stream, which has been put behind the sequence's fence, that fence. Where none can be had
// it waits.
func (s *Bodies[B]) Touched(stream backend.Stream) error {
	f, err := s.all.Fences.Record(s.all.BE, stream)
	if err != nil {
		return errors.Join(s.all.Fences.Observe(err), residency.Drain(stream))
	}
	s.Used(f)
	return nil
}

// Slide gives up, behind f, what no later query reads in any part.
func (s *Bodies[B]) Slide(f *residency.Fence) error {
	if !s.all.slides {
		return nil
	}
	return s.slide(f)
}

func (s *Bodies[B]) slide(f *residency.Fence) (err error) {
	for i := range s.Parts {
		err = cmp.Or(err, s.Parts[i].Slide(f, s.Marks))
	}
	return err
}

// FreeTables ends the lives of what the sequence has on the device besides blocks.
func (s *Bodies[B]) FreeTables() {
	for i := range s.Parts {
		s.Parts[i].Tables.Free(s.all.BE)
	}
}

// Withdraw takes the blocks that the next tokens go into out of the prefix tree where nobody else has them: see
// residency.Blocks.Withdraw.
func (s *Bodies[B]) Withdraw() {
	for i := range s.Parts {
		b := &s.Parts[i]
		if b.Stores.States == nil && !b.Stores.Windowed() { // else it is copied, or not written again
			b.Stores.Kept.Withdraw(b.Tail())
		}
	}
}

// Publish puts the entries that tokens fill, which end with entry full, into the prefix tree, behind a step that wrote
// their blocks, and returns how many of them are there then.
func (s *Bodies[B]) Publish(f *residency.Fence, at prefix.Path, tokens []uint32, full int) (int, error) {
	size := s.all.Config.EntryTokens()
	s.all.offered = offer[B]{s, full*size - (len(tokens)+size-1)/size*size}
	n, path, err := s.all.Blocks.Publish(f, &s.Past, s.Path, at, tokens, s.all.held)
	s.Path, s.all.offered.of = path, nil
	if err == nil && len(path) == full && s.Len() == full*size && s.all.Blocks.Groups().Keeps(full, s.Marks) {
		s.checkpoint(f)
	}
	return n, err
}

// offer is what a sequence has from a token on.
type offer[B backend.Buffer] struct {
	of   *Bodies[B]
	from int
}

// block is where a part has one that is kept: the i-th of the offer; nil: it has not.
func (o *offer[B]) block(part, i int) *block.Block {
	b := &o.of.Parts[part]
	if b.Stores.States != nil {
		return nil
	}
	return b.at(o.from/b.Stores.Rule.Block + i)
}

// PublishEnd is Publish of the tokens that the sequence ends with, fewer than fill an entry, and none after them: the states
// after the last one stay with them.
func (s *Bodies[B]) PublishEnd(at prefix.Path, tokens []uint32) (err error) {
	f, full := s.Parts[0].Fence, s.Len()/s.all.Config.EntryTokens()
	sealed := func(b Body[B]) bool { return b.Stores.Windowed() } // in whole blocks
	if len(tokens) > 0 {
		if slices.ContainsFunc(s.Parts, sealed) {
			return nil
		}
		// No step of this sequence will come after theirs, and it might add blocks to what they write.
		if s.all.partly && !s.all.Blocks.KnownWritten(f, at, tokens) {
			return nil
		}
		_, err = s.Publish(f, at, tokens, full+1)
		full++
	}
	if err == nil && len(s.Path) == full && s.all.Blocks.Written(f, s.Path[full-1]) {
		s.checkpoint(f)
	}
	return err
}

// Piece is how many of the next n tokens there are up to where a state is kept.
func (s *Bodies[B]) Piece(n int) int {
	states := func(b Body[B]) bool { return b.Stores.States != nil }
	if !slices.ContainsFunc(s.Parts, states) {
		return n
	}
	size := s.all.Config.EntryTokens()
	for e := s.Len()/size + 1; e*size-s.Len() < n; e++ {
		if s.all.Blocks.Groups().Keeps(e, s.Marks) {
			return e*size - s.Len()
		}
	}
	return n
}

// checkpoint leaves the states after the sequence's last token, which ends the last entry of its path, with that entry.
// The sequence writes copies from here on.
func (s *Bodies[B]) checkpoint(f *residency.Fence) {
	e := s.Path[len(s.Path)-1]
	for i := range s.Parts {
		if b := &s.Parts[i]; b.Stores.States != nil && s.all.Blocks.Groups().Checkpoint(e, i, b.Kept.Blocks[0]) {
			s.all.Blocks.Writes(f, &s.Past, e)
		}
	}
}

// at is where the body has block i of the sequence in the kept store; nil: it does not.
func (s *Body[B]) at(i int) *block.Block {
	if i >= s.Stores.Rule.SinkBlocks() {
		if i -= s.Gone; i < s.Stores.Rule.SinkBlocks() {
			return nil
		}
	}
	if i >= len(s.Kept.Blocks) {
		return nil
	}
	return &s.Kept.Blocks[i]
}

// work enqueues something that uses the sequence, after its last step and before its next, without the pool's
// lock. The sequence is the caller's alone meanwhile.
func (s *Bodies[B]) work(stream backend.Stream, enqueue func() error) error {
	fences := &s.all.Fences
	if err := s.Order(stream); err != nil {
		return fences.Observe(err)
	}
	if err := fences.Apart(enqueue); err != nil {
		return errors.Join(fences.Observe(err), s.Touched(stream))
	}
	return s.Touched(stream)
}

// Sync uploads the block tables and the length, after the sequence's last step and before its next.
func (s *Bodies[B]) Sync(stream backend.Stream) error {
	return s.work(stream, func() error {
		for i := range s.Parts {
			if s.Parts[i].Stores.States != nil {
				continue
			}
			if err := s.Parts[i].uploadTables(stream); err != nil {
				return err
			}
		}
		return nil
	})
}

// Of is the body of a layer's part, and which of its layers it is.
func (s *Bodies[B]) Of(layer int) (*Body[B], int) {
	at := s.all.Layers[layer]
	return &s.Parts[at.Part], at.Layer
}

// Resumable is the greatest length, at most n, to which Truncate can cut the sequence: after which every part has what the
// next tokens read, by itself or with an entry of the prefix tree. part is one that has it for no greater one.
func (s *Bodies[B]) Resumable(n int) (length, part int) {
	groups, size := s.all.Blocks.Groups(), s.all.Config.EntryTokens()
	n = max(min(n, s.Len()), 0)
	for i := 0; i < len(s.Parts) && n > 0; i++ {
		m := s.Parts[i].resumable(n)
		if m < n && groups != nil {
			m = max(m, groups.Fits(i, s.Path, min(n, len(s.Path)*size)))
		}
		if m < n {
			n, part, i = m, i, -1 // and from the first part on
		}
	}
	return n, part
}

// resumable is Resumable of what the part has itself.
func (s *Body[B]) resumable(n int) int {
	if s.Stores.States == nil {
		return s.Stores.Rule.Resumable(s.Gone, n)
	}
	if n == s.Len {
		return n
	}
	return 0
}

// Truncate keeps the first n tokens, a length that Resumable gives. With an error of the device the sequence is truncated all
// the same; where there are no blocks to take it is as it was.
func (s *Bodies[B]) Truncate(n int) (err error) {
	groups := s.all.Blocks.Groups()
	var found []group.Run
	for i := range s.Parts {
		if s.Parts[i].resumable(n) == n {
			continue
		}
		if found == nil {
			found = make([]group.Run, len(s.Parts))
		}
		if found[i], err = groups.Own(i, s.Path, n); err != nil {
			for j := range i {
				err = errors.Join(err, groups.Release(found[j].Blocks))
			}
			return err
		}
	}
	s.Past.Cut(&s.all.Fences, n)
	s.inherit(n)
	for i := range s.Parts {
		b := &s.Parts[i]
		if b.resumable(n) == n {
			err = cmp.Or(err, b.Truncate(n))
			continue
		}
		err = cmp.Or(err, b.keep(0))
		b.Reuse(found[i].Blocks, found[i].Gone, n)
	}
	return cmp.Or(err, s.Leave(n))
}

// Leave notes that only the first n tokens are what the sequence's path says.
func (s *Bodies[B]) Leave(n int) (err error) {
	s.Marks.Found = min(s.Marks.Found, n)
	if keep := n / s.all.Config.EntryTokens(); keep < len(s.Path) {
		err = s.all.Blocks.RetirePath(s.Parts[0].Fence, s.Path[keep:])
		s.Path = s.Path[:keep]
	}
	return err
}
