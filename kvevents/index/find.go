package index

import (
	"cmp"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvevents"
)

// Query is a prompt.
type Query struct {
	Tokens    []uint32
	LoRAName  string
	Salt      string           // what keeps its blocks apart from those of others: vLLM's and SGLang's cache_salt
	ExtraKeys [][]kvevents.Key // of each block of the index, such as of images, as the engine sends them
}

// Match is what an owner has of a prompt.
type Match struct {
	Owner  string
	Tokens int     // from the start of the prompt, in whole blocks of the index, on any medium
	Score  float64 // the sum of these blocks' weights, each by its best medium
}

// Find appends the owners that have at least the first block of a prompt to dst, those with the highest score first, and returns it. Owners with
// equal scores are in the order of their names.
func (x *Index) Find(dst []Match, q Query) []Match {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.owners == nil {
		return dst
	}
	c := x.coder()
	defer coders.Put(c)
	from := len(dst)
	before := x.root(q.LoRAName)
	size := x.o.BlockSize
	for i := 0; (i+1)*size <= len(q.Tokens); i++ {
		c.begin(before)
		if i < len(q.ExtraKeys) {
			c.keysOf(q.ExtraKeys[i], q.LoRAName)
		}
		if i == 0 && q.Salt != "" {
			c.extra(extraText, q.Salt)
		}
		c.tokens(q.Tokens[i*size:(i+1)*size], 1)
		before = c.key()
		hs := x.holds[before]
		if len(hs) == 0 {
			break
		}
		if i == 0 {
			dst = first(dst, hs)
		}
		if !x.reached(dst[from:], hs, i*size, size) {
			break
		}
	}
	slices.SortFunc(dst[from:], func(a, b Match) int {
		if c := cmp.Compare(b.Score, a.Score); c != 0 {
			return c
		}
		return cmp.Compare(a.Owner, b.Owner)
	})
	return dst
}

// first appends the owners that have the first block, each once.
func first(dst []Match, hs []holder) []Match {
	for i, h := range hs {
		if !slices.ContainsFunc(hs[:i], func(o holder) bool { return o.owner == h.owner }) {
			dst = append(dst, Match{Owner: h.owner.name})
		}
	}
	return dst
}

// reached adds a block of size tokens to the owners that have all the n tokens before it, and the block; false: none has.
func (x *Index) reached(ms []Match, hs []holder, n, size int) (any bool) {
	for i := range ms {
		m := &ms[i]
		if m.Tokens < n {
			continue
		}
		best, has := 0.0, false
		for _, h := range hs {
			if h.owner.name == m.Owner {
				best, has = max(best, x.media[h.medium].weight), true
			}
		}
		if has {
			m.Tokens, m.Score, any = n+size, m.Score+best, true
		}
	}
	return any
}
