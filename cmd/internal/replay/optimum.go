package replay

import "math"

// Optimum is the name of the policy that knows the future: it evicts the block
// that is needed again the latest (Belady, A study of replacement algorithms for
// a virtual-storage computer, 1966). No policy that stores every block can have
// more hits. The blocks of the request being served stay, as for any policy.
const Optimum = "belady"

// never is the next use of a block that is not used again.
const never = math.MaxUint32

// optimum is a cache under that policy. A block is needed again no later than
// what follows it, and of two needed at the same time the one of the higher number goes
// first: so a block goes after all that follow it, and the tree needs no thought.
type optimum struct {
	next   []uint32 // for each reference the request of the block's next one
	at     int      // the first reference of the current request
	free   int      // blocks
	stored []bool   // by block
	due    []uint32 // by block: its next use after the current request
	queue  maxHeap  // unheld blocks as next use << 32 | block; also outdated ones
}

func newOptimum(t *Trace, capacity int) *optimum {
	o := &optimum{next: make([]uint32, len(t.blocks)), free: capacity, stored: make([]bool, t.unique), due: make([]uint32, t.unique)}
	for b := range o.due {
		o.due[b] = never
	}
	at := len(t.blocks)
	for i := len(t.requests) - 1; i >= 0; i-- {
		path := t.Path(i)
		at -= len(path)
		for j, b := range path {
			o.next[at+j], o.due[b] = o.due[b], uint32(i)
		}
	}
	return o
}

func (o *optimum) request(path []uint32) (hits int, err error) {
	next := o.next[o.at : o.at+len(path)]
	o.at += len(path)
	for j, b := range path { // held: what the queue says of them is outdated now
		o.due[b] = next[j]
	}
	for hits < len(path) && o.stored[path[hits]] {
		hits++
	}
	held := hits
	for ; held < len(path); held++ {
		if o.free == 0 && !o.evict() {
			break
		}
		o.free--
		o.stored[path[held]] = true
	}
	for _, b := range path[:held] {
		o.queue.push(uint64(o.due[b])<<32 | uint64(b))
	}
	return hits, nil
}

// evict makes room for a block; false where all are held. An entry is outdated
// where its block has gone, or has been used and has another next use by now.
func (o *optimum) evict() bool {
	for len(o.queue) > 0 {
		top := o.queue.pop()
		b := uint32(top)
		if o.stored[b] && o.due[b] == uint32(top>>32) {
			o.stored[b] = false
			o.free++
			return true
		}
	}
	return false
}

// maxHeap is a binary heap with the largest key at the front.
type maxHeap []uint64

func (h *maxHeap) push(key uint64) {
	*h = append(*h, key)
	s := *h
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if s[parent] >= s[i] {
			return
		}
		s[parent], s[i] = s[i], s[parent]
		i = parent
	}
}

// pop takes the front of a heap that is not empty.
func (h *maxHeap) pop() uint64 {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	s = s[:last]
	for i := 0; ; {
		largest := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if s[child] > s[largest] {
				largest = child
			}
		}
		if largest == i {
			break
		}
		s[i], s[largest] = s[largest], s[i]
		i = largest
	}
	*h = s
	return top
}
