package disk

import (
	"encoding/binary"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// admits tells whether a block is written now: room is whether no other one has to go for it.
func (t *Tier) admits(b *tier.Block, room bool) bool {
	if t.o.Admission == All || room && t.wear.lasts(t.o.WriteBudget, t.o.now()) {
		return true
	}
	return t.seen.again(b.Key, max(4*t.limit, 1<<16))
}

// seen remembers keys that were put and not written: at least the last n and fewer than twice as many.
type seen struct{ now, before map[uint64]struct{} }

// again tells whether a key is remembered, and remembers it if not. Of a key, 64
// bits are enough: a block that is taken for another one is written too early.
func (s *seen) again(k tier.Key, n int) bool {
	h := binary.LittleEndian.Uint64(k[:])
	for _, m := range []map[uint64]struct{}{s.now, s.before} {
		if _, ok := m[h]; ok {
			return true
		}
	}
	if s.now == nil || len(s.now) >= n {
		s.before, s.now = s.now, map[uint64]struct{}{}
	}
	s.now[h] = struct{}{}
	return false
}

// bucket is a write budget: bytes that come in at so many a day, as many as come in an hour at most, and are taken out by writes.
type bucket struct {
	left float64
	at   time.Time
}

// lasts tells whether anything is left of a budget; 0: always.
func (b *bucket) lasts(perDay int64, now time.Time) bool {
	if perDay == 0 {
		return true
	}
	most := float64(perDay) / 24
	if b.at.IsZero() {
		b.left = most
	} else {
		b.left = min(most, b.left+float64(perDay)*now.Sub(b.at).Hours()/24)
	}
	b.at = now
	return b.left > 0
}

// breaker is when to try again after failures: the first two may have been accidents, later ones make it wait, each twice as long.
type breaker struct {
	fails int
	until time.Time
}

const (
	patience  = 3
	firstWait = 100 * time.Millisecond
	lastWait  = 30 * time.Second
)

func (b *breaker) waits(now time.Time) bool { return now.Before(b.until) }

func (b *breaker) failed(now time.Time) {
	if b.fails++; b.fails >= patience {
		b.until = now.Add(min(firstWait<<min(b.fails-patience, 16), lastWait))
	}
}

func (b *breaker) worked() { *b = breaker{} }
