package quant

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// Layer is one layer of a CacheManager.
//
// A token's position is the number of tokens that were appended to the layer before it. Eviction
// does not change it.
type Layer struct {
	cache        *CacheManager
	index, limit int
	appended     int
	entries      []entry // of the tokens held, oldest first
	table        []block.Block
}

// entry is a token that is held. The slots of a layer's n tokens are 0 to n-1, in any
// order: slot s is place s%16 of block s/16 of the table. So a token that goes leaves its
// place to another, and no other one moves.
type entry struct {
	position int
	slot     int
	score    float64
}

// ErrNotHeld is a position that a layer does not hold. errors.Is(err, ErrNotHeld{})
// matches any.
type ErrNotHeld struct {
	Layer, Position int
	Appended        int // tokens the layer was given; Position is below if it was evicted
}

func (e ErrNotHeld) Error() string {
	why := "it was evicted"
	if e.Position < 0 || e.Position >= e.Appended {
		why = fmt.Sprintf("%d tokens were appended so far", e.Appended)
	}
	return fmt.Sprintf("quant: layer %d has no position %d: %s", e.Layer, e.Position, why)
}

// Is matches the same error and the zero value.
func (e ErrNotHeld) Is(target error) bool {
	t, ok := target.(ErrNotHeld)
	return ok && (t == e || t == ErrNotHeld{})
}

// made is ErrArgument of a layer that is no cache's.
func (l *Layer) made(op string) error {
	if l.cache == nil {
		return backend.ErrArgument{Package: "quant", Op: op, What: "the layer was not made by New; CacheManager.Layer gives one"}
	}
	return nil
}

// Len is the number of tokens held.
func (l *Layer) Len() int { return len(l.entries) }

// IsEmpty reports whether Len is 0.
func (l *Layer) IsEmpty() bool { return len(l.entries) == 0 }

// Limit is the most tokens of the layer: MaxSeqLen, or less when the policy has a lower limit.
func (l *Layer) Limit() int { return l.limit }

// Positions appends the positions of the tokens held to dst, in rising order.
func (l *Layer) Positions(dst []int) []int {
	for _, e := range l.entries {
		dst = append(dst, e.position)
	}
	return dst
}

// MemoryBytes is CacheManager.MemoryBytes of this layer.
func (l *Layer) MemoryBytes() int64 {
	if l.cache == nil {
		return 0
	}
	return int64(len(l.table)) * int64(l.cache.format.blockBytes())
}

// Append stores a copy of the next token's key and value, [NumHeads, HeadDim] each. When the layer
// is full it first evicts other tokens, so the new token always stays and Len never exceeds Limit.
// ErrArgument for another length, ErrNonFinite for an infinity or NaN without Saturate; the layer is
// then as it was. Magnitudes above 0x1.ep127 (3.19e38) are stored as that. It allocates only blocks
// that the cache never had.
func (l *Layer) Append(key, value []float32) error {
	if err := l.made("append"); err != nil {
		return err
	}
	c, n := l.cache, l.cache.format.elements()
	if len(key) != n || len(value) != n {
		return backend.ErrArgument{Package: "quant", Op: "append", What: fmt.Sprintf("key and value: %d and %d elements, need %d", len(key), len(value), n)}
	}
	if err := c.encode(key, false, l.index); err != nil {
		return err
	}
	if err := c.encode(value, true, l.index); err != nil {
		return err
	}
	if len(l.entries) >= l.limit {
		if err := l.Evict(l.limit - 1); err != nil {
			return err
		}
	}
	slot := len(l.entries)
	if slot == blockSize*len(l.table) {
		table, err := c.memory.Extend(l.table, 1, 0)
		if err != nil {
			return err
		}
		l.table = table
	}
	l.token(slot).Copy(c.pending)
	l.entries = append(l.entries, entry{position: l.appended, slot: slot})
	l.appended++
	return nil
}

// encode makes a key or value that of the pending token.
func (c *CacheManager) encode(x []float32, value bool, layer int) error {
	f := c.format
	for h := range f.heads {
		head, to := x[h*f.dim:][:f.dim], f.head(c.pending, h, value)
		if c.cfg.Saturate {
			head = append(c.head[:0], head...)
		}
		if !f.Encode(to.Codes, to.Words, head, c.cfg.Saturate) {
			what := "key"
			if value {
				what = "value"
			}
			return backend.ErrNonFinite{Op: "append", What: fmt.Sprintf("%s of layer %d, head %d", what, layer, h)}
		}
	}
	return nil
}

// token is the memory of a slot.
func (l *Layer) token(slot int) rows {
	return l.cache.memory.Rows(l.table[slot/blockSize], slot%blockSize, slot%blockSize+1)
}

// Get returns the keys and values at the given positions, in their order, [NumHeads, HeadDim] each.
// ErrNotHeld for the first position that the layer does not hold.
func (l *Layer) Get(positions []int) (keys, values [][]float32, err error) {
	if err := l.made("get"); err != nil {
		return nil, nil, err
	}
	if err := l.holds(positions); err != nil {
		return nil, nil, err
	}
	n := l.cache.format.elements()
	data := make([]float32, 2*n*len(positions))
	rows := make([][]float32, 2*len(positions))
	for i := range rows {
		rows[i] = data[i*n : (i+1)*n : (i+1)*n]
	}
	keys, values = rows[:len(positions):len(positions)], rows[len(positions):]
	for i, p := range positions {
		l.read(keys[i], values[i], p)
	}
	return keys, values, nil
}

// GetInto is Get into the caller's memory, [len(positions), NumHeads, HeadDim] for keys and for
// values. ErrArgument for another length. It allocates nothing.
func (l *Layer) GetInto(keys, values []float32, positions []int) error {
	if err := l.made("get"); err != nil {
		return err
	}
	n := l.cache.format.elements()
	if want, ok := backend.Mul(len(positions), n); !ok || len(keys) != want || len(values) != want {
		return backend.ErrArgument{Package: "quant", Op: "get", What: fmt.Sprintf("keys and values: %d and %d elements, need %d for each of %d positions", len(keys), len(values), n, len(positions))}
	}
	if err := l.holds(positions); err != nil {
		return err
	}
	for i, p := range positions {
		l.read(keys[i*n:][:n], values[i*n:][:n], p)
	}
	return nil
}

// holds is an ErrNotHeld for the first position that is not held.
func (l *Layer) holds(positions []int) error {
	for _, p := range positions {
		if _, ok := l.find(p); !ok {
			return ErrNotHeld{Layer: l.index, Position: p, Appended: l.appended}
		}
	}
	return nil
}

// read reads the token at a position that is held.
func (l *Layer) read(key, value []float32, position int) {
	i, _ := l.find(position)
	t := l.token(l.entries[i].slot)
	l.cache.format.decode(key, t, false)
	l.cache.format.decode(value, t, true)
}

// find is the entry of a position.
func (l *Layer) find(position int) (int, bool) {
	return slices.BinarySearchFunc(l.entries, position, func(e entry, p int) int { return cmp.Compare(e.position, p) })
}

// UpdateAttentionScores adds new attention scores to those of the tokens held, in the order of
// Positions. Policies that read scores keep the tokens with the highest, compared as float32.
// ErrArgument when there are not Len scores or one is negative, infinite or NaN; no score has changed
// then.
func (l *Layer) UpdateAttentionScores(scores []float64) error {
	const op = "update attention scores"
	if err := l.made(op); err != nil {
		return err
	}
	if len(scores) != len(l.entries) {
		return backend.ErrArgument{Package: "quant", Op: op, What: fmt.Sprintf("%d scores for %d tokens", len(scores), len(l.entries))}
	}
	for i, s := range scores {
		if !(s >= 0 && s <= math.MaxFloat64) {
			return backend.ErrArgument{Package: "quant", Op: op, What: fmt.Sprintf("score %d is %g, need a finite number, at least 0", i, s)}
		}
	}
	for i, s := range scores {
		l.entries[i].score = min(l.entries[i].score+s, math.MaxFloat64)
	}
	return nil
}
