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
	Salt      string           // which keeps its blocks apart from those of other prompts: the cache_salt of vLLM and SGLang
	ExtraKeys [][]kvevents.Key // for each block of the index, such as those of images, as the engine sends them; those of a larger block at its first
}

// Match is what an owner has of a prompt.
type Match struct {
	Owner  string
	Tokens int     // from the start of the prompt, in whole blocks of the index, on any medium
	Score  float64 // the sum of these blocks' weights, each on its best medium
}

// Find appends to dst the owners that have at least the first block of a prompt, highest score first, and returns it. Owners with equal scores are
// ordered by name.
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
			dst = c.reach.first(dst, hs, x.numbers)
		}
		if !c.reach.block(dst[from:], hs, x.media, i*size, size) {
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

// reach is how far the owners of a prompt's beginning have been followed.
type reach struct {
	at     []int     // by the number of an owner: where its Match is, plus 1; 0: it has none
	before []float64 // the score of each before the block at hand
}

// first appends the owners that have the first block, each once.
func (r *reach) first(dst []Match, hs []holder, owners int) []Match {
	r.at, r.before = slices.Grow(r.at[:0], owners)[:owners], r.before[:0]
	clear(r.at)
	for _, h := range hs {
		if n := h.owner.number; r.at[n] == 0 {
			dst = append(dst, Match{Owner: h.owner.name})
			r.before = append(r.before, 0)
			r.at[n] = len(r.before)
		}
	}
	return dst
}

// block adds a block of size tokens to the owners that have the block and all the n tokens before it; false: none has.
func (r *reach) block(ms []Match, hs []holder, media []medium, n, size int) (any bool) {
	for _, h := range hs {
		i := r.at[h.owner.number] - 1
		if i < 0 || ms[i].Tokens < n {
			continue
		}
		m, weight := &ms[i], media[h.medium].weight
		if m.Tokens == n {
			m.Tokens, r.before[i], any = n+size, m.Score, true
		}
		m.Score = max(m.Score, r.before[i]+weight)
	}
	return any
}
