// Package replay replays the requests of a serving trace through the prefix cache
// and the block allocator of this library, without a model: what counts is which
// blocks of its prompt a request finds cached.
//
// A [Trace] is read from files ([Read]) or generated ([Synthetic]). [Trace.Replay]
// runs it once, for one policy and capacity, and [Trace.Sweep] for all of several. The
// ends between which every policy lies are [Trace.InfiniteHits], of a cache that
// keeps everything, and the policy [Optimum], which knows the future.
package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Trace is the requests of a service in the order in which they came. A request
// is the path of its prompt's blocks from the first one on, and a block is a
// number below Unique: two requests name the same block where their prompts are
// equal up to its end. A block's number is above that of the block before it.
// A Trace does not change, and is safe for concurrent use.
type Trace struct {
	Name        string // where it is from
	BlockTokens int    // tokens of a block

	blocks   []uint32 // the paths, in the order in which they were read
	requests []request
	unique   int
}

// request is one path, blocks[start:end] of its trace.
type request struct {
	at         float64 // seconds since the trace began
	start, end int
	full       int // blocks that its prompt fills: all of them, or all but the last
	prompt     int // tokens
	output     int // tokens of the answer; 0: unknown
}

// Requests is the number of requests.
func (t *Trace) Requests() int { return len(t.requests) }

// Path is the blocks of request i. It must not be changed.
func (t *Trace) Path(i int) []uint32 {
	r := t.requests[i]
	return t.blocks[r.start:r.end:r.end]
}

// Full is how many blocks the prompt of request i fills.
func (t *Trace) Full(i int) int { return t.requests[i].full }

// At is when request i came, in seconds since the trace began.
func (t *Trace) At(i int) float64 { return t.requests[i].at }

// Tokens is the length of request i's prompt, which may be more than its blocks have or end within the last one.
func (t *Trace) Tokens(i int) int { return t.requests[i].prompt }

// Output is the length of request i's answer in tokens; 0: the trace does not say it.
func (t *Trace) Output(i int) int { return t.requests[i].output }

// References is the number of blocks that all requests name. The last block of a
// prompt counts like any other, also where it is not full.
func (t *Trace) References() int { return len(t.blocks) }

// Unique is the number of different blocks: what a cache must hold to keep all.
func (t *Trace) Unique() int { return t.unique }

// InfiniteHits is how many references find their block in a cache that never
// evicts: all but the first one to each block.
func (t *Trace) InfiniteHits() int { return len(t.blocks) - t.unique }

// Limits of a trace. A block's number is a token of the tree, and one number is
// left to say "no block"; references are counted in the optimum's 32-bit keys.
const (
	maxUnique     = min(math.MaxInt, math.MaxUint32-1)
	maxReferences = min(math.MaxInt, 1<<32-2)
	maxTokens     = math.MaxInt32 // of a prompt or an answer, which no model has
)

// builder makes a trace of paths whose blocks have any ids. What makes a block is
// its id and the block before it, so that a path stays a path in the tree even
// where a trace uses an id twice.
type builder struct {
	trace  Trace
	heirs  []heir           // by block: the first one that came after it
	others map[child]uint32 // first blocks of paths, and what else came after a block
	limits limits
}

type limits struct{ references, unique int }

// heir is a block after another one. Most have just one, which is found without
// hashing. Block 0 comes after none, so its number says that there is no heir.
type heir struct {
	id   uint64
	node uint32
}

// child is a block by its id and the number of the block before it.
type child struct {
	parent uint32
	id     uint64
}

// noParent stands before the first block of a path.
const noParent = math.MaxUint32

func newBuilder() *builder {
	return &builder{others: map[child]uint32{}, limits: limits{maxReferences, maxUnique}}
}

// newSpace forgets the ids: those that follow are other blocks.
func (b *builder) newSpace() { clear(b.others) }

// add appends a request that came at a time in seconds, and fills its blocks.
func (b *builder) add(at float64, ids []uint64) error {
	t := &b.trace
	if len(ids) > b.limits.references-len(t.blocks) || len(t.requests) == b.limits.references {
		return fmt.Errorf("the trace has more than %d requests or references to blocks", b.limits.references)
	}
	start, parent := len(t.blocks), uint32(noParent)
	for _, id := range ids {
		node, known := b.find(parent, id)
		if !known {
			if t.unique == b.limits.unique {
				return fmt.Errorf("the trace has more than %d different blocks", b.limits.unique)
			}
			node = b.number(parent, id)
		}
		t.blocks = append(t.blocks, node)
		parent = node
	}
	t.requests = append(t.requests, request{at: at, start: start, end: len(t.blocks), full: len(ids), prompt: len(ids) * t.BlockTokens})
	return nil
}

// fills says that the last request fills no more than n blocks.
func (b *builder) fills(n int64) {
	r := &b.trace.requests[len(b.trace.requests)-1]
	r.full = int(min(n, int64(r.full)))
}

// lengths says how many tokens the last request's prompt and answer have.
func (b *builder) lengths(prompt, output int64) {
	r := &b.trace.requests[len(b.trace.requests)-1]
	r.prompt, r.output = int(min(prompt, maxTokens)), int(min(output, maxTokens))
}

func (b *builder) find(parent uint32, id uint64) (node uint32, known bool) {
	if parent != noParent {
		h := b.heirs[parent]
		if h.node == 0 || h.id == id {
			return h.node, h.node != 0
		}
	}
	node, known = b.others[child{parent, id}]
	return node, known
}

func (b *builder) number(parent uint32, id uint64) uint32 {
	node := uint32(b.trace.unique)
	b.trace.unique++
	b.heirs = append(b.heirs, heir{})
	if parent != noParent && b.heirs[parent].node == 0 {
		b.heirs[parent] = heir{id, node}
	} else {
		b.others[child{parent, id}] = node
	}
	return node
}

// finish orders the requests by time; those of one time stay as they were added.
func (b *builder) finish(name string) *Trace {
	t := b.trace
	t.Name = name
	slices.SortStableFunc(t.requests, func(x, y request) int { return cmp.Compare(x.at, y.at) })
	return &t
}
