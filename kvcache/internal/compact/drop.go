package compact

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
)

// ErrGone is a change after which a query would see tokens that a window or chunk has given up.
type ErrGone struct {
	Group  group.Kind // of the layers
	Tokens int        // that they have given up
	Block  int        // tokens of a block of theirs
}

func (e ErrGone) Error() string {
	return fmt.Sprintf("kvcache: the layers of a group of kind %v have given up %d tokens, some of which the next one would see; drop fewer of the last tokens, or a multiple of the %d of a block, or compute the sequence again", e.Group, e.Tokens, e.Block)
}

// Is matches the same error and the zero value.
func (e ErrGone) Is(target error) bool {
	t, ok := target.(ErrGone)
	return ok && (t == e || t == ErrGone{})
}

// errState is a change that a state cannot follow.
var errState = backend.ErrUnsupported{Package: "kvcache", Op: "drop tokens", Why: "a state is computed from all tokens, and none of them can be taken out again; compute the sequence again"}

// Shift are the compactions that drop the tokens [begin, end) of a sequence and turn the keys of those after them to
// the positions that become free, in layers that the library rotates, or with rotate in all.
func Shift[B backend.Buffer](s *store.Runs[B], stream backend.Stream, begin, end int, rotate Rotate[B]) ([]Compaction[B], error) {
	cs, err := compactions(s, stream)
	for i := range cs {
		c := &cs[i]
		c.rotate = rotate
		if err := c.shift(begin, end); err != nil {
			return nil, err
		}
	}
	return cs, err
}

// compactions are those of a sequence's parts, of which none may have states.
func compactions[B backend.Buffer](s *store.Runs[B], stream backend.Stream) ([]Compaction[B], error) {
	if s.Stateful() != nil {
		return nil, errState
	}
	cs := make([]Compaction[B], len(s.In))
	for i := range cs {
		cs[i].run, cs[i].stream, cs[i].lists = &s.In[i], stream, 1
	}
	return cs, nil
}

func (c *Compaction[B]) shift(begin, end int) error {
	b, gap := c.run, end-begin
	n := b.Total() - gap
	at, from := begin, end // token at becomes what from was, in the part
	if c.cut = b.Gone; b.Gone > 0 {
		sinks, gone := b.Cut()
		switch {
		case begin < sinks:
			return c.gone()
		case begin >= sinks+gone:
			at, from = begin-gone, end-gone
		default:
			first := max(end, sinks+gone) // the first token after the gap that is there
			size := b.Part.Rule.Block
			c.cut = (first - gap - sinks + size - 1) / size
			at, from = sinks, sinks+c.cut*size+gap-gone
		}
		if !b.Part.Rule.Reaches(c.cut, n) {
			return c.gone()
		}
	}
	c.len = n - c.cut*b.Part.Config.BlockTokens()
	c.source = func(_, i int) int {
		if i < at {
			return i
		}
		return i - at + from
	}
	if b.Part.Rotates() || c.rotate != nil {
		c.turn = func(_, i int) int {
			if i < at {
				return 0
			}
			return -gap
		}
	}
	return nil
}

func (c *Compaction[B]) gone() error {
	_, gone := c.run.Cut()
	return ErrGone{Group: c.run.Part.Rule.Kind, Tokens: gone, Block: c.run.Part.Rule.Block}
}

// Retain are the compactions that drop all tokens of a sequence but those in kept: one list, or one for each layer of the
// model. turn is by how many positions the key of a list's token i turns; nil: none does.
func Retain[B backend.Buffer](s *store.Runs[B], stream backend.Stream, kept [][]int, turn func(list, i int) int) ([]Compaction[B], error) {
	cs, err := compactions(s, stream)
	for i := range cs {
		c := &cs[i]
		list := func(int) int { return 0 }
		if len(kept) > 1 {
			layers := s.In[i].Part.Model
			c.lists, list = len(layers), func(l int) int { return layers[l] }
		}
		if err := c.retain(kept, list); err != nil {
			return nil, err
		}
		if turn != nil && c.run.Part.Rotates() {
			cut := c.len - len(kept[0]) // tokens that are cut out, below zero
			sinks, _ := c.run.Cut()
			c.turn = func(l, i int) int {
				if i >= sinks {
					i -= cut
				}
				return turn(list(l), i)
			}
		}
	}
	return cs, err
}

// retain lays out the lists of a part.
func (c *Compaction[B]) retain(kept [][]int, list func(l int) int) error {
	b := c.run
	n, size := len(kept[0]), b.Part.Config.BlockTokens()
	sinks, gone := b.Cut()
	lost := 0
	for l := 0; l < c.lists && gone > 0; l++ {
		first, not := 0, 0
		for _, token := range kept[list(l)] {
			if token < sinks {
				first++
			} else if token < sinks+gone {
				not++
			}
		}
		if not > 0 && first < sinks { // one of them would take a sink's place
			return c.gone()
		}
		lost = max(lost, not)
	}
	c.cut = (lost + size - 1) / size
	if c.cut*size > n-min(sinks, n) || c.cut > 0 && !b.Part.Rule.Reaches(c.cut, n) {
		return c.gone()
	}
	c.len = n - c.cut*size
	c.source = func(l, i int) int {
		if i >= sinks {
			i += c.cut * size
		}
		token := kept[list(l)][i]
		if token >= sinks {
			token -= gone
		}
		return token
	}
	return nil
}
