package store

import "github.com/ferrumkv/ferrumkv/kvcache/block"

// A sequence that joins another one in a step begins with tokens that the other one has, or gets in that step. Between Join and the
// step's commit its runs have places for their blocks, and no blocks: the step knows which blocks they will be, and owns what it
// took. After the other one's commit, and before what it slides over is given up, Adopt makes the sequence an owner of them.

// Joins reports whether sequences of the pool can join others: a state is not there before its step is done, and what is
// sealed in a step cannot be brought back in it.
func (p *Parts[B]) Joins() bool { return p.Blocks.Tree() != nil && len(p.states) == 0 && !p.seals }

// Leads reports whether the sequence still has what one reads that goes on after its first n tokens.
func (s *Runs[B]) Leads(n int) bool {
	for i := range s.In {
		if s.In[i].Part.Rule.Gone(n) < s.In[i].Gone {
			return false
		}
	}
	return true
}

// Join makes the first n tokens of another sequence, whole entries of the prefix tree, those of this one, which gives up what it has
// and has had no step.
func (s *Runs[B]) Join(n int) (err error) {
	err = s.empty()
	for i := range s.In {
		b := &s.In[i]
		b.Gone = b.Part.Rule.Gone(n)
		b.Len = n - b.Gone*b.Part.Config.BlockTokens()
		b.Part.Kept.Append(b.Kept, make([]block.Block, b.Part.BlocksOf(b.Len)))
	}
	s.joined = n
	return err
}

// Joined is the tokens that the sequence has places for, and no blocks; 0: it has joined none.
func (s *Runs[B]) Joined() int { return s.joined }

// Unjoin undoes Join: the sequence is empty.
func (s *Runs[B]) Unjoin() {
	for i := range s.In {
		b := &s.In[i]
		b.Part.Kept.Logical -= len(b.Kept.Blocks)
		b.Kept.Blocks, b.Gone, b.Len = b.Kept.Blocks[:0], 0, 0
	}
	s.joined = 0
}

// Place is which of a leading run's blocks comes to place i of a run that has joined it.
func (s *Run[B]) Place(i int, lead *Run[B]) int {
	if i < s.Part.sinks {
		return i
	}
	return i + s.Gone - lead.Gone
}

// Adopt makes a sequence that has joined another one, in a step that is committed now, an owner of the blocks that it joined for.
func (s *Runs[B]) Adopt(lead *Runs[B]) error {
	n := s.joined
	s.joined = 0
	for i := range s.In {
		b, of := &s.In[i], &lead.In[i]
		shared := b.Kept.Blocks[:b.Part.BlocksOf(n-b.Gone*b.Part.Config.BlockTokens())]
		for j := range shared {
			shared[j] = of.Kept.Blocks[b.Place(j, of)]
		}
		if err := b.Part.Kept.Share(shared); err != nil { // the other one owns them: this cannot be
			return err
		}
		b.got(len(b.Kept.Blocks) - len(shared))
	}
	lead.Writers.CopyTo(&s.Writers)
	s.Writers.Cut(&s.all.Fences, n)
	for _, f := range lead.waitFor {
		s.waitFor = append(s.waitFor, f.Hold())
	}
	return nil
}
