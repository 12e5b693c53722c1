// The ledger is what a publisher has said that is still so: the blocks that are stored, and what is needed to say it again.

package pubsub

import (
	"bytes"

	"github.com/ferrumkv/ferrumkv/kvevents"
)

// ledger has the blocks by their hashes, and in the order in which they were stored.
type ledger struct {
	blocks      map[uint64]*stored // by the number of the hash; one with several places is a list
	first, last *stored
	n           int
	traits      [8]*traits // of the last kinds of events
	replaced    int        // the next of them to be replaced
	walk        uint64     // of the last snapshot
}

// stored is a block at a place.
type stored struct {
	hash, parent kvevents.Hash
	hasParent    bool
	tokens       []uint32
	extra        []kvevents.Key
	has          *traits
	elsewhere    *stored // the same hash at another place
	before, next *stored
	walk         uint64 // of the snapshot that has had it
}

// place is where a block is: blocks at different places come and go by themselves.
type place struct {
	medium   string
	group    int
	hasGroup bool
}

// traits are what the blocks of an event have in common.
type traits struct {
	event kvevents.Stored // without hashes, parent, tokens and extra keys
	extra bool            // ExtraKeys is sent
	place place
}

func newLedger() *ledger { return &ledger{blocks: map[uint64]*stored{}} }

func placeOf(medium string, group int, hasGroup bool) place {
	if !hasGroup {
		group = 0
	}
	return place{medium, group, hasGroup}
}

func (l *ledger) find(number uint64, p place) *stored {
	b := l.blocks[number]
	for b != nil && b.has.place != p {
		b = b.elsewhere
	}
	return b
}

// apply takes an event in. Nothing of the event is kept but copies.
func (l *ledger) apply(e kvevents.Event) {
	switch e := e.(type) {
	case *kvevents.Stored:
		l.store(e)
	case *kvevents.Removed:
		p := placeOf(e.Medium, e.Group, e.HasGroup)
		for _, h := range e.Hashes {
			l.remove(h.Number, p)
		}
	case *kvevents.Cleared:
		*l = ledger{blocks: map[uint64]*stored{}, walk: l.walk}
	}
}

func (l *ledger) store(e *kvevents.Stored) {
	has := l.traitsOf(e)
	parent, hasParent := kvevents.Hash{}, e.HasParent
	if hasParent {
		parent = l.known(e.Parent)
	}
	each := tokensEach(e)
	for i, h := range e.Hashes {
		b := l.find(h.Number, has.place)
		if b == nil {
			b = &stored{hash: kvevents.Hash{Number: h.Number, Bytes: bytes.Clone(h.Bytes)}, elsewhere: l.blocks[h.Number], before: l.last}
			l.blocks[h.Number] = b
			if l.last == nil {
				l.first = b
			} else {
				l.last.next = b
			}
			l.last = b
			l.n++
		}
		b.parent, b.hasParent, b.has, b.extra = parent, hasParent, has, nil
		b.tokens = append(b.tokens[:0], e.Tokens[i*each:(i+1)*each]...)
		if e.ExtraKeys != nil {
			for _, k := range e.ExtraKeys[i] {
				b.extra = append(b.extra, kvevents.Key{Text: k.Text, Raw: bytes.Clone(k.Raw)})
			}
		}
		parent, hasParent = b.hash, true
	}
}

// known is a hash with the bytes of the block that has it, so that they are kept once.
func (l *ledger) known(h kvevents.Hash) kvevents.Hash {
	if b := l.blocks[h.Number]; b != nil && bytes.Equal(b.hash.Bytes, h.Bytes) {
		return b.hash
	}
	return kvevents.Hash{Number: h.Number, Bytes: bytes.Clone(h.Bytes)}
}

func (l *ledger) remove(number uint64, p place) {
	b := l.find(number, p)
	if b == nil {
		return
	}
	if at := l.blocks[number]; at != b {
		for at.elsewhere != b {
			at = at.elsewhere
		}
		at.elsewhere = b.elsewhere
	} else if b.elsewhere != nil {
		l.blocks[number] = b.elsewhere
	} else {
		delete(l.blocks, number)
	}
	if b.before == nil {
		l.first = b.next
	} else {
		b.before.next = b.next
	}
	if b.next == nil {
		l.last = b.before
	} else {
		b.next.before = b.before
	}
	l.n--
}
