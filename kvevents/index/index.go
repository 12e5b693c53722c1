package index

import (
	"hash/maphash"
	"strings"
	"sync"

	"github.com/ferrumkv/ferrumkv/kvevents"
)

// Index records which owners have which blocks. The zero value is an Index with the default Options. It is safe for concurrent use.
type Index struct {
	o    Options
	seed maphash.Seed

	mu      sync.RWMutex
	owners  map[string]*owner
	numbers int              // how many numbers of owners there have been at once
	free    []int            // those of owners that are gone
	media   []medium         // that were named so far
	holds   map[key][]holder // of each block of tokens the owners that have it
	stats   Stats
}

// key is the hash of a block of tokens and of all tokens before it: 64 bits, under a random seed. If two prompts collide, a request goes to
// the wrong engine, which computes it.
type key uint64

// medium is a kind of memory, by its name in lower case.
type medium struct {
	name   string
	weight float64
}

// holder is an owner that has a block on a medium, n times.
type holder struct {
	owner  *owner
	medium uint16
	n      uint32
}

// mostMedia bounds how many media, and how many groups of an owner, publishers can name.
const mostMedia = 1 << 8

// Stats describes what an Index holds and has seen.
type Stats struct {
	Owners  int
	Blocks  int // of engines
	Keys    int // distinct blocks of tokens
	Stored  uint64
	Removed uint64
	Orphans uint64 // stored blocks that were skipped because their parent, or without tokens the block itself, was not known
	Skipped uint64 // stored blocks of groups that do not count, of events whose tokens do not fill their blocks, and beyond the limits
}

// New returns an empty Index. The error is ErrConfig.
func New(o Options) (*Index, error) {
	o, err := o.filled()
	if err != nil {
		return nil, err
	}
	x := &Index{}
	x.begin(o)
	return x, nil
}

func (x *Index) begin(o Options) {
	x.o, x.seed, x.owners, x.media, x.holds = o, maphash.MakeSeed(), map[string]*owner{}, []medium{{"", 1}}, map[key][]holder{}
	for name, w := range o.Weights {
		x.media = append(x.media, medium{strings.ToLower(name), w})
	}
}

// Apply records an event of an owner, such as "10.0.0.7:8000"; it does not retain the event's memory. The error is ErrFull or ErrBlockSize: blocks
// of the event were skipped, and Stats counts them. Continue with the next event: a caller that returns the error to Decoder.Decode loses the rest of the
// batch, and with it the removals that would make room.
func (x *Index) Apply(name string, e kvevents.Event) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.owners == nil {
		o, _ := Options{}.filled()
		x.begin(o)
	}
	switch e := e.(type) {
	case *kvevents.Stored:
		if e == nil {
			return nil
		}
		o := x.owners[name]
		if o == nil {
			if len(x.owners) >= x.o.Owners {
				x.stats.Skipped += uint64(len(e.Hashes))
				return ErrFull{name, "owners", x.o.Owners}
			}
			o = x.join(name)
		}
		return x.store(o, e)
	case *kvevents.Removed:
		if o := x.owners[name]; o != nil && e != nil {
			x.remove(o, e)
		}
	case *kvevents.Cleared:
		if o := x.owners[name]; o != nil && e != nil {
			x.clear(o)
			if len(o.groups) == 0 {
				x.forget(name)
			}
		}
	}
	return nil
}

// join is a new owner.
func (x *Index) join(name string) *owner {
	o := &owner{name: strings.Clone(name), blocks: map[uint64]*block{}}
	if n := len(x.free); n > 0 {
		o.number, x.free = x.free[n-1], x.free[:n-1]
	} else {
		o.number, x.numbers = x.numbers, x.numbers+1
	}
	x.owners[o.name] = o
	return o
}

// Forget removes an owner and all its blocks, for instance when the engine stops answering, or when a subscription reports that events were lost.
func (x *Index) Forget(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.forget(name)
}

func (x *Index) forget(name string) {
	o := x.owners[name]
	if o == nil {
		return
	}
	x.clear(o)
	delete(x.owners, name)
	x.free = append(x.free, o.number)
}

// clear forgets the blocks of an owner, but not the kinds of its groups: engines may say them once only.
func (x *Index) clear(o *owner) {
	for _, b := range o.blocks {
		for _, p := range b.places {
			x.drop(o, b, p.medium)
		}
	}
	x.stats.Blocks -= len(o.blocks)
	o.blocks, o.keys = map[uint64]*block{}, 0
}

// Stats returns what the Index holds and has seen.
func (x *Index) Stats() Stats {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := x.stats
	s.Owners, s.Keys = len(x.owners), len(x.holds)
	return s
}
