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
		s.Parts[i].begin(s, p.All[i], root)
	}
	for i := range s.Parts[0].Segments {
		s.Parts[0].Segments[i].Blocks = l.segments[i]
	}
}

// Lists are the memory of a sequence's blocks, of no sequence any more: they grow with what they hold, and most
// sequences need not grow theirs.
type Lists struct {
	segments [MostStores][]block.Block // of the first part
	path     []block.Block
	past     residency.Past
}

// Drop is the memory of the lists of a sequence without blocks.
func (s *Bodies[B]) Drop() Lists {
	l := Lists{path: s.Path[:0], past: s.Past}
	for i := range s.Parts[0].Segments {
		g := &s.Parts[0].Segments[i]
		l.segments[i], g.Blocks = g.Blocks[:0], nil
	}
	s.Path, s.Past = nil, residency.Past{}
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
		b := &s.Parts[i]
		n = min(n, (b.Full()+b.Gone)*b.Stores.Rule.Block/s.all.Config.EntryTokens())
	}
	return n
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
	s.all.Fences.Replace(&s.Parts[0].Fence, f)
	if len(s.Parts) > 1 || len(s.Behind) > 0 || s.Tail != (block.Block{}) {
		s.usedInParts(f)
	}
}

func (s *Bodies[B]) usedInParts(f *residency.Fence) {
	for i := range s.Parts[1:] {
		s.all.Fences.Replace(&s.Parts[1+i].Fence, f)
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
	if s.all.appends {
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
		return s.rows(func(b *Body[B]) error { return b.uploadTables(stream) })
	})
}

// rows calls do with the body of each part that has keys and values, until an error.
func (s *Bodies[B]) rows(do func(*Body[B]) error) error {
	for _, i := range s.all.rows {
		if err := do(&s.Parts[i]); err != nil {
			return err
		}
	}
	return nil
}

// Of is the body of a layer's part, and which of its layers it is.
func (s *Bodies[B]) Of(layer int) (*Body[B], int) {
	at := s.all.Layers[layer]
	return &s.Parts[at.Part], at.Layer
}
