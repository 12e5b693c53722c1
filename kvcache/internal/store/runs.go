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

// Runs are what a sequence has on the device: a run in each part of the layers, all of as many tokens. The prefix tree, other sequences'
// steps and a failed device are known of the sequence as a whole.
type Runs[B backend.Buffer] struct {
	In []Run[B] // by part
	// Path is the entries of the prefix tree that the sequence owns besides blocks.
	Path []block.Block
	// partial is the entry whose beginning a sequence has that found it, until its first step.
	partial block.Block
	// waitFor are steps of others that write what the sequence reads, besides its fence.
	waitFor []*residency.Fence
	// Writers is the steps that wrote what the sequence has, as far as it is not known that they did.
	Writers residency.Writers
	// restorePoints are where sequences may go on that share the beginning of this one's prompt.
	restorePoints group.RestorePoints
	// Failed is the device's error that left the content undefined: whoever sees one sets it.
	Failed error
	// Suspended is what a suspended sequence has instead of blocks; nil: it is not suspended.
	Suspended *Suspended

	joined   int            // tokens that it has places for: see Join
	arriving []segmentOf[B] // blocks besides: those that are filled again, and checkpoints
	all      *Parts[B]
	one      [1]Run[B] // of a pool with one part
}

// Begin makes s, which stays where it is, that of an empty sequence whose paths begin at root. It takes over the memory of
// lists.
func (s *Runs[B]) Begin(p *Parts[B], root prefix.Root, l Lists) {
	s.all, s.Path, s.Writers = p, l.path, l.writers
	if s.In = s.one[:]; len(p.All) > 1 {
		s.In = make([]Run[B], len(p.All))
	}
	for i := range s.In {
		s.In[i].begin(s, p.All[i], root)
	}
	for i := range s.In[0].Segments {
		s.In[0].Segments[i].Blocks = l.segments[i]
	}
}

// Lists are the memory of a sequence's blocks, of no sequence any more: they grow with what they hold, and most
// sequences need not grow theirs.
type Lists struct {
	segments [MostStores][]block.Block // of the first part
	path     []block.Block
	writers  residency.Writers
}

// Drop is the memory of the lists of a sequence without blocks.
func (s *Runs[B]) Drop() Lists {
	l := Lists{path: s.Path[:0], writers: s.Writers}
	for i := range s.In[0].Segments {
		g := &s.In[0].Segments[i]
		l.segments[i], g.Blocks = g.Blocks[:0], nil
	}
	s.Path, s.Writers = nil, residency.Writers{}
	return l
}

// Len is the tokens of the sequence.
func (s *Runs[B]) Len() int {
	if s.In == nil { // of no pool
		return 0
	}
	if s.Suspended != nil {
		return s.Suspended.tokens
	}
	return s.In[0].Total()
}

// Reads reports whether an entry of the prefix tree is the sequence's.
func (s *Runs[B]) Reads(entry block.Block) bool {
	return entry == s.partial || slices.Contains(s.Entries(), entry)
}

// Blocks appends the numbers of the first part's blocks.
func (s *Runs[B]) Blocks(dst []uint32) []uint32 {
	if s.In == nil {
		return dst
	}
	for _, b := range s.In[0].Kept.Blocks {
		dst = append(dst, b.ID)
	}
	return dst
}

// Entries are those of the prefix tree that the sequence has, and may have once they are published.
func (s *Runs[B]) Entries() []block.Block {
	return s.all.Blocks.Groups().PathOf(s.Path, s.In[0].Kept.Blocks)
}

// Full is the number of entries of the prefix tree that the sequence's blocks fill.
func (s *Runs[B]) Full() int {
	n := s.Len() / s.all.Config.EntryTokens()
	for i := range s.In {
		b := &s.In[i]
		n = min(n, (b.Full()+b.Gone)*b.Part.Rule.Block/s.all.Config.EntryTokens())
	}
	return n
}

// Fork makes an empty child another owner of everything.
func (s *Runs[B]) Fork(child *Runs[B]) error {
	if len(s.Path) > 0 {
		if err := s.all.Blocks.Groups().Entries().RetainN(s.Path); err != nil {
			return err
		}
		child.Path = append(child.Path[:0], s.Path...)
	}
	for i := range s.In {
		if err := s.In[i].fork(&child.In[i]); err != nil {
			return errors.Join(err, child.release(i))
		}
	}
	child.partial, child.restorePoints = s.partial, s.restorePoints
	s.Writers.CopyTo(&child.Writers)
	for _, f := range s.waitFor {
		child.waitFor = append(child.waitFor, f.Hold())
	}
	return nil
}

// Release gives everything back. The sequence is released also with an error.
func (s *Runs[B]) Release() error { return s.release(len(s.In)) }

func (s *Runs[B]) release(parts int) error { return s.leave(parts, (*Run[B]).release) }

// leave has the first parts give up what they have, and the path after them.
func (s *Runs[B]) leave(parts int, part func(*Run[B]) error) (err error) {
	var last *residency.Fence
	if parts > 0 && len(s.Path) > 0 {
		last = s.In[0].Fence.Hold()
		defer s.all.Fences.Drop(last)
	}
	for i := range parts {
		err = cmp.Or(err, part(&s.In[i]))
	}
	s.forgetWaits()
	s.Writers.Cut(&s.all.Fences, 0)
	err = cmp.Or(err, s.all.Blocks.RetirePath(last, s.Path))
	s.Path = s.Path[:0]
	return err
}

// Used replaces the sequence's fence by that of a later step.
func (s *Runs[B]) Used(f *residency.Fence) {
	s.all.Fences.Replace(&s.In[0].Fence, f)
	if len(s.In) > 1 || len(s.waitFor) > 0 || s.partial != (block.Block{}) {
		s.usedInParts(f)
	}
}

func (s *Runs[B]) usedInParts(f *residency.Fence) {
	for i := range s.In[1:] {
		s.all.Fences.Replace(&s.In[1+i].Fence, f)
	}
	s.partial = block.Block{}
	s.forgetWaits()
}

func (s *Runs[B]) forgetWaits() {
	for _, f := range s.waitFor {
		s.all.Fences.Drop(f)
	}
	clear(s.waitFor)
	s.waitFor = s.waitFor[:0]
}

// Wrote notes that a step wrote the last n tokens of the sequence.
func (s *Runs[B]) Wrote(f *residency.Fence, tokens int) {
	if s.all.Blocks.Tree() == nil {
		return
	}
	from := 0 // a state is written anew, and a window quantizes what was written before
	if s.all.appends {
		size := s.all.Config.EntryTokens()
		from = (s.Len() - tokens) / size * size // the block may be a copy
	}
	s.Writers.Add(&s.all.Fences, f, from)
}

// inherit notes which steps write the entry of the prefix tree that the sequence ends in the middle of, with n tokens: the
// sequence will have a copy of that part of it.
func (s *Runs[B]) inherit(n int) {
	size := s.all.Config.EntryTokens()
	if n%size == 0 || s.all.Blocks.Tree() == nil {
		return
	}
	if entries := s.Entries(); n/size < len(entries) {
		s.all.Blocks.Inherit(&s.Writers, entries[n/size], n/size*size)
	}
}

// Order puts a stream after what was enqueued for the sequence before.
func (s *Runs[B]) Order(stream backend.Stream) error {
	for _, f := range s.waitFor {
		if err := f.Order(stream); err != nil {
			return err
		}
	}
	return s.In[0].Fence.Order(stream)
}

// FenceAfter makes this point of a stream, after the sequence's fence, that fence.
func (s *Runs[B]) FenceAfter(stream backend.Stream) error {
	if err := s.Order(stream); err != nil {
		return errors.Join(s.all.Fences.Observe(err), residency.Drain(stream))
	}
	return s.Touched(stream)
}

// Touched makes this point of a stream, which has been put after the sequence's fence, that fence. Where none can be had
// it waits.
func (s *Runs[B]) Touched(stream backend.Stream) error {
	f, err := s.all.Fences.Record(s.all.BE, stream)
	if err != nil {
		return errors.Join(s.all.Fences.Observe(err), residency.Drain(stream))
	}
	s.Used(f)
	return nil
}

// Slide gives up, after f, what no later query reads in any part.
func (s *Runs[B]) Slide(f *residency.Fence) (err error) {
	for _, i := range s.all.sliding {
		err = cmp.Or(err, s.In[i].slide(f, s.restorePoints))
	}
	return err
}

// FreeTables ends the lives of what the sequence has on the device besides blocks.
func (s *Runs[B]) FreeTables() {
	for i := range s.In {
		s.In[i].tables.free(s.all.BE)
	}
}

// work enqueues something that uses the sequence, after its last step and before its next, without the pool's
// lock. The sequence is the caller's alone meanwhile.
func (s *Runs[B]) work(stream backend.Stream, enqueue func() error) error {
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
func (s *Runs[B]) Sync(stream backend.Stream) error {
	return s.work(stream, func() error {
		return s.rows(func(b *Run[B]) error { return b.uploadTables(stream) })
	})
}

// rows calls do with the run of each part that has keys and values, until an error.
func (s *Runs[B]) rows(do func(*Run[B]) error) error {
	for _, i := range s.all.rows {
		if err := do(&s.In[i]); err != nil {
			return err
		}
	}
	return nil
}

// Of is the run of a layer's part, and which of its layers it is.
func (s *Runs[B]) Of(layer int) (*Run[B], int) {
	at := s.all.Layers[layer]
	return &s.In[at.Part], at.Layer
}
