package snap

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
)

// Order is that in which sequences get their blocks. A block that several have can be found by others if the first of them publishes it, so
// those come first that publish, and of these the longest: who has the beginning of a block alone ends there.
func (in *In[B]) Order() []int { return in.order }

func (in *In[B]) sort() {
	all := in.Head.Sequences
	last := func(i int) int {
		if q := &all[i]; q.Silent || q.Tokens == nil || q.Fidelity != prefix.Exact || q.Draft > 0 {
			return 1
		}
		return 0
	}
	in.order = make([]int, len(all))
	for i := range in.order {
		in.order[i] = i
	}
	slices.SortStableFunc(in.order, func(a, b int) int { return cmp.Or(cmp.Compare(last(a), last(b)), cmp.Compare(all[b].Len, all[a].Len)) })
}

// longest is the order in which sequences are planned: see sharing.
func (in *In[B]) longest() []int {
	order, all := slices.Clone(in.order), in.Head.Sequences
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(all[b].Len, all[a].Len) })
	return order
}

// lays refuses sequences with far more blocks than the pool has and than the stream has bytes to describe them: a few bytes can
// name a chunk of any length, and each sequence that does has a table of all of its blocks.
func (in *In[B]) lays(blocks int) error {
	most := int(in.r.Bytes()) * len(in.homes)
	for _, h := range in.homes {
		most += h.of.Blocks.Total()
	}
	if in.laid += blocks; in.laid > most {
		return snapshot.ErrMismatch{Field: "sequences", Layer: -1, Have: fmt.Sprintf("%d blocks or more", in.laid), Want: fmt.Sprintf("%d at most", most),
			Why: "they share chunks without naming tokens, so finding their blocks takes far longer than reading the snapshot; use the block size that they were saved from, or save fewer of them together"}
	}
	return nil
}

// What the keys of items may be made of, as text: so much, and so many times what was read. An item of a few bytes is in the key of each block
// that it overlaps.
const (
	mostKeyed = 16 << 20
	keyedEach = 16
)

// keys refuses a sequence whose items would make the keys of its blocks much longer than what was read of them.
func (in *In[B]) keys(q *snapshot.Sequence) error {
	if in.parts.Blocks.Tree() == nil {
		return nil
	}
	size, all := in.parts.Config.EntryTokens(), q.Spans
	for _, item := range q.Items {
		begin, end := max(item.Begin, 0), min(item.End, len(q.Tokens))
		if begin >= end {
			continue
		}
		if i := sort.Search(len(all), func(i int) bool { return all[i].End > begin }); i < len(all) {
			begin = min(begin, all[i].Begin)
		}
		if i := sort.Search(len(all), func(i int) bool { return all[i].Begin >= end }); i > 0 {
			end = max(end, all[i-1].End)
		}
		in.keyed += (end/size-begin/size+1)*(2*len(item.Hash)+32) + len(all)/16 // a span costs little to compare with
	}
	if most := mostKeyed + keyedEach*int(in.r.Bytes()); in.keyed > most {
		return snapshot.ErrMismatch{Field: "items", Layer: -1, Have: fmt.Sprintf("%d bytes of keys", in.keyed), Want: fmt.Sprintf("%d at most", most),
			Why: "items overlap each other, or have long hashes, so that keys take far longer than reading the snapshot"}
	}
	return nil
}
