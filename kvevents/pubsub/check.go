// Events are checked before anything of a batch is published.

package pubsub

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/kvevents"
)

// after is how many blocks are stored after events; it may be a number that is too large, but for those beyond most.
func (l *ledger) after(events []kvevents.Event, most int) int {
	n := l.n
	for _, e := range events {
		if e, ok := e.(*kvevents.Stored); ok {
			n += len(e.Hashes)
		}
	}
	if n <= most {
		return n
	}
	type key struct {
		number uint64
		place  place
	}
	n = l.n
	changed, cleared := map[key]bool{}, false
	set := func(h kvevents.Hash, p place, to bool) {
		k := key{h.Number, p}
		was, ok := changed[k]
		if !ok {
			was = !cleared && l.find(h.Number, p) != nil
		}
		if changed[k] = to; to && !was {
			n++
		} else if was && !to {
			n--
		}
	}
	worst := 0
	for _, e := range events {
		switch e := e.(type) {
		case *kvevents.Stored:
			for _, h := range e.Hashes {
				set(h, placeOf(e.Medium, e.Group, e.HasGroup), true)
			}
		case *kvevents.Removed:
			for _, h := range e.Hashes {
				set(h, placeOf(e.Medium, e.Group, e.HasGroup), false)
			}
		case *kvevents.Cleared:
			clear(changed)
			n, cleared = 0, true
		}
		worst = max(worst, n)
	}
	return worst
}

// check says what is wrong with an event.
func check(i int, e kvevents.Event) error {
	what := ""
	switch e := e.(type) {
	case *kvevents.Stored:
		switch {
		case e == nil:
			what = "it is nil"
		case e.BlockSize < 1 || e.BlockSize > math.MaxInt32:
			what = fmt.Sprintf("a block has %d tokens; BlockSize must be at least 1", e.BlockSize)
		case len(e.Tokens)%tokensEach(e) != 0 || len(e.Tokens)/tokensEach(e) != len(e.Hashes):
			what = fmt.Sprintf("%d blocks of %d numbers, and %d numbers in Tokens; each block needs all of its tokens", len(e.Hashes), tokensEach(e), len(e.Tokens))
		case e.ExtraKeys != nil && len(e.ExtraKeys) != len(e.Hashes):
			what = fmt.Sprintf("%d blocks, and ExtraKeys of %d; leave them out, or have one for each block", len(e.Hashes), len(e.ExtraKeys))
		}
	case *kvevents.Removed:
		if e == nil {
			what = "it is nil"
		}
	case *kvevents.Cleared:
		if e == nil {
			what = "it is nil"
		}
	default:
		what = "it is nil"
	}
	if what == "" {
		return nil
	}
	return argument(fmt.Sprintf("event %d", i), "%s", what)
}
