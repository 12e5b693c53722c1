package offload

import (
	"errors"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/keytext"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/kind"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// Shape is what an entry of the prefix tree is to tiers: the blocks that it may have, each a payload under a key of its own. In
// a pool without Model.Groups that is one, under the entry's key.
type Shape[B backend.Buffer] struct {
	// Name is the sum of all that payloads depend on besides tokens, adapter and salt.
	Name tier.Key

	tokens int // of an entry
	bytes  int64
	parts  []*store.Pieces
	rules  []group.Part // of the parts
	places []place
	full   int // how many of the first places are of parts that keep everything
}

// place is a block of an entry: the i-th of a part's.
type place struct {
	part, i int
	id      tier.Key // zero: the key is the entry's
}

// NewShape returns the shape of a pool with a fingerprint. Its parts outlive it; New takes it over.
func NewShape[B backend.Buffer](parts *store.Parts[B], fingerprint tier.Key) (_ *Shape[B], err error) {
	s := &Shape[B]{Name: fingerprint, tokens: parts.Config.EntryTokens(), rules: parts.Blocks.Groups().Parts()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, st := range parts.All {
		p, err := st.Pieces(st.Kept)
		if err != nil {
			return nil, err
		}
		s.parts = append(s.parts, p)
	}
	of, keyed := keytext.New("parts"), parts.Config.Grouped()
	for _, full := range []bool{true, false} { // what is of use without the others first
		for part := range s.rules {
			r := &s.rules[part]
			for i := 0; i < r.Each && full == (kind.Of(r.Kind).Keeps == kind.All); i++ {
				s.places = append(s.places, place{part: part, i: i})
				s.bytes += s.parts[part].BlockBytes()
				if !keyed {
					continue
				}
				id := prefix.Part{Blocks: fingerprint, Kind: r.Kind.String(), Layers: parts.All[part].Model, Begin: i * r.Block, End: (i + 1) * r.Block,
					Pieces: s.parts[part].Each}.Key()
				of.Line("part", keytext.Bytes(id[:]))
				s.places[len(s.places)-1].id = id
			}
		}
		if full {
			s.full = len(s.places)
		}
	}
	if keyed {
		s.Name = of.Sum()
	}
	return s, nil
}

// Largest is the bytes of the largest payload.
func (s *Shape[B]) Largest() (n int64) {
	for _, p := range s.parts {
		n = max(n, p.BlockBytes())
	}
	return n
}

// Close lets go of what copies need.
func (s *Shape[B]) Close() (err error) {
	for _, p := range s.parts {
		err = errors.Join(err, p.Close())
	}
	s.parts = nil
	return err
}

// key is that of an entry's block.
func (s *Shape[B]) key(entry tier.Key, at int) tier.Key {
	if id := s.places[at].id; id != (tier.Key{}) {
		return entry.Part(id)
	}
	return entry
}

// before is the key of the payload without which one is of no use: that of the last part with everything which comes before it,
// in its entry or in the one before; zero: there is none.
func (s *Shape[B]) before(entry, parent tier.Key, at int) tier.Key {
	switch last := min(at, s.full) - 1; {
	case last >= 0:
		return s.key(entry, last)
	case parent == tier.Key{} || s.full == 0:
		return tier.Key{}
	default:
		return s.key(parent, s.full-1)
	}
}

// needs reports whether who goes on after so many entries needs what is at a place of one of them.
func (s *Shape[B]) needs(entry, at, entries int) bool {
	p := &s.places[at]
	r := &s.rules[p.part]
	return r.Needs(entry*r.Each+p.i, entries, s.tokens)
}

// offsets are where payloads lie in host memory, those of a part behind each other: a copy takes them together. order is the
// payloads in the order of that.
func (s *Shape[B]) offsets(n int, at func(i int) int) (offsets []int64, order []int) {
	offsets, order = make([]int64, n), make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return s.places[at(a)].part - s.places[at(b)].part })
	var next int64
	for _, i := range order {
		offsets[i] = next
		next += s.parts[s.places[at(i)].part].BlockBytes()
	}
	return offsets, order
}

// runs does something with the payloads of each part, in the order in which they lie in host memory from an offset on.
func (o *Offload[B]) runs(n int, at func(i int) int, do func(part int, order []int, offset int64) error) error {
	offsets, order := o.shape.offsets(n, at)
	for from := 0; from < n; {
		part, to := o.shape.places[at(order[from])].part, from
		for to < n && o.shape.places[at(order[to])].part == part {
			to++
		}
		if err := do(part, order[from:to], offsets[order[from]]); err != nil {
			return err
		}
		from = to
	}
	return nil
}
