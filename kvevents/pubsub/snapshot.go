// The present state as events: what a new epoch begins with.

package pubsub

import (
	"bytes"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvevents"
)

const (
	mostEvents = 64       // of a batch
	mostSaid   = 64 << 10 // bytes of a batch, about: another block is added below
)

// batches calls a function with the events that say the ledger's state, in batches of limited size. A batch is valid until the function returns.
func (l *ledger) batches(batch func(events []kvevents.Event)) {
	var events []kvevents.Event
	var e *kvevents.Stored // the last of events
	var last *stored
	said := 0
	l.inOrder(func(b *stored) {
		follows := last != nil && b.has == last.has && b.hasParent && sameHash(b.parent, last.hash)
		if said > mostSaid || !follows && len(events) == mostEvents {
			batch(events)
			events, follows, said = events[:0], false, 0
		}
		if !follows {
			e = new(kvevents.Stored)
			*e = b.has.event
			said += b.has.bytes()
			e.Parent, e.HasParent = b.parent, b.hasParent
			events = append(events, e)
		}
		e.Hashes = append(e.Hashes, b.hash)
		e.Tokens = append(e.Tokens, b.tokens...)
		if b.has.extra {
			e.ExtraKeys = append(e.ExtraKeys, b.extra)
		}
		said += 4*len(b.tokens) + 9 + len(b.hash.Bytes)
		for _, k := range b.extra {
			said += len(k.Text) + len(k.Raw)
		}
		last = b
	})
	if len(events) > 0 {
		batch(events)
	}
}

// traitsOf are those of an event, shared with those of earlier events: stores on several media alternate.
func (l *ledger) traitsOf(e *kvevents.Stored) *traits {
	has := traits{event: *e, extra: e.ExtraKeys != nil, place: placeOf(e.Medium, e.Group, e.HasGroup)}
	has.event.Hashes, has.event.Parent, has.event.HasParent, has.event.Tokens, has.event.ExtraKeys = nil, kvevents.Hash{}, false, nil, nil
	for _, t := range l.traits {
		if t != nil && sameTraits(t, &has) {
			return t
		}
	}
	kept := has
	kept.event.Unknown = nil
	for _, f := range e.Unknown {
		kept.event.Unknown = append(kept.event.Unknown, kvevents.Field{Name: f.Name, Value: bytes.Clone(f.Value)})
	}
	l.traits[l.replaced] = &kept
	l.replaced = (l.replaced + 1) % len(l.traits)
	return &kept
}

// bytes is about what they take in an event.
func (t *traits) bytes() int {
	e := &t.event
	n := 100 + len(e.LoRAName) + len(e.Medium) + len(e.Kind) + len(e.Locality) + len(e.Ownership) + len(e.SessionID) + len(e.CacheSalt)
	for _, f := range e.Unknown {
		n += len(f.Name) + len(f.Value)
	}
	return n
}

func sameTraits(a, b *traits) bool {
	x, y := &a.event, &b.event
	return a.place == b.place && a.extra == b.extra && x.Pairs == y.Pairs && x.BlockSize == y.BlockSize && x.LoRAID == y.LoRAID &&
		x.LoRAName == y.LoRAName && x.Group == y.Group && x.Kind == y.Kind && x.Window == y.Window && x.Locality == y.Locality &&
		x.Ownership == y.Ownership && x.SessionID == y.SessionID && x.CacheSalt == y.CacheSalt &&
		slices.EqualFunc(x.Unknown, y.Unknown, func(a, b kvevents.Field) bool { return a.Name == b.Name && bytes.Equal(a.Value, b.Value) })
}

func sameHash(a, b kvevents.Hash) bool { return a.Number == b.Number && bytes.Equal(a.Bytes, b.Bytes) }

// tokensEach is how many numbers of Tokens a block has.
func tokensEach(e *kvevents.Stored) int {
	if e.Pairs {
		return 2 * e.BlockSize
	}
	return e.BlockSize
}

// inOrder calls a function with each block, after its parent if that is there, else in the order in which they were stored.
func (l *ledger) inOrder(block func(b *stored)) {
	l.walk++
	var chain []*stored
	for b := l.first; b != nil; b = b.next {
		chain = chain[:0]
		for c := b; c != nil && c.walk != l.walk; c = l.parentOf(c) { // marks end circles, too
			c.walk = l.walk
			chain = append(chain, c)
		}
		for i := len(chain) - 1; i >= 0; i-- {
			block(chain[i])
		}
	}
}

// parentOf is a block's parent at the same place, or else at another one.
func (l *ledger) parentOf(b *stored) *stored {
	if !b.hasParent {
		return nil
	}
	if p := l.find(b.parent.Number, b.has.place); p != nil {
		return p
	}
	return l.blocks[b.parent.Number]
}
