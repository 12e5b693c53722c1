package snap

import "crypto/sha256"

// sharing finds the target that already is a sequence's block: one with the same tokens of the same chunks in the same text, or
// with more tokens after them. Sequences come longest first, so that the first of those that share a block has
// the most of it. A target is compared with two others at most, however many there are.
//
// A stream that no pool writes, with rows of a chunk under different tokens of one block, may get more blocks than it needs.
type sharing struct {
	by       map[start]*target
	paths    map[link]int // numbers of beginnings, from 1 on
	starts   []start      // of the target that joins
	compared int          // pairs of targets
}

// start is what two targets have in common if the shorter one ends in a chunk that the longer one has at the same place.
type start struct {
	home, block, checkpoint int
	behind                  *target
	path                    int // to the chunk
	chunk, from             int
	text                    [sha256.Size]byte // before the block; zero: any
}

// link is tokens of a chunk after a path.
type link struct {
	path int
	src
}

func newSharing() sharing { return sharing{by: map[start]*target{}, paths: map[link]int{}} }

// join is the target that a block of a sequence is already, or a new one like t.
func (s *sharing) join(block int, t *target) (o *target, there bool) {
	s.starts = s.starts[:0]
	path := 0
	for i, from := range t.from[0] {
		if i > 0 {
			path = s.path(link{path, t.from[0][i-1]})
		}
		s.starts = append(s.starts, start{home: t.home, block: block, checkpoint: t.checkpoint, behind: t.behind, path: path, chunk: from.chunk, from: from.from})
	}
	var text, anyText [sha256.Size]byte
	if t.at != nil {
		text = t.at.before
	}
	if o := s.find(t, text); o != nil {
		return o, true
	}
	if t.at != nil {
		if o := s.find(t, anyText); o != nil && o.at == nil { // it takes the text of the first that has one
			o.at = t.at.clone()
			s.enter(o, text)
			return o, true
		}
	}
	o = t.clone()
	s.enter(o, text)
	if t.at != nil {
		s.enter(o, anyText)
	}
	return o, false
}

// path is the number of a path extended by a link.
func (s *sharing) path(by link) int {
	n := s.paths[by]
	if n == 0 {
		n = len(s.paths) + 1
		s.paths[by] = n
	}
	return n
}

// find is the target of a text that begins with t.
func (s *sharing) find(t *target, text [sha256.Size]byte) *target {
	key := s.starts[len(s.starts)-1]
	key.text = text
	o := s.by[key]
	if o == nil {
		return nil
	}
	if s.compared++; !t.begins(o) {
		return nil
	}
	return o
}

// enter registers a target for those that begin like the one that joins.
func (s *sharing) enter(t *target, text [sha256.Size]byte) {
	for _, key := range s.starts {
		key.text = text
		s.by[key] = t
	}
}

// begins reports whether o is t, or goes on where t ends.
func (t *target) begins(o *target) bool {
	for i, list := range t.from {
		long := o.from[i]
		if len(list) > len(long) {
			return false
		}
		for j, s := range list {
			l := long[j]
			if j == len(list)-1 && s.tokens < l.tokens {
				l.tokens = s.tokens
			}
			if s != l {
				return false
			}
		}
	}
	return t.at.begins(o.at)
}
