package cpu

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// visibility is which keys a query may see: the part of a mask that a plan
// depends on.
type visibility struct {
	nonCausal          bool
	window, sinkTokens int
}

func visibilityOf(m *backend.Mask[*Buffer]) visibility {
	return visibility{nonCausal: m.NonCausal, window: m.Window, sinkTokens: m.SinkTokens}.clamped()
}

// clamped is v in numbers that the work of a plan can hold: no context is longer
// than a U32.
func (v visibility) clamped() visibility {
	v.window = int(min(uint64(v.window), math.MaxUint32))
	v.sinkTokens = int(min(uint64(v.sinkTokens), math.MaxUint32))
	return v
}

// within reports whether v shows no key that a plan with that window and those
// sink tokens leaves out; window 0 is the widest.
func (v visibility) within(window, sinkTokens int) bool {
	return window == 0 || v.window > 0 && v.window <= window && v.sinkTokens <= sinkTokens
}

// keyRange is the keys [0, sinks) and [lo, hi) of a sequence; sinks is at most lo.
type keyRange struct{ sinks, lo, hi int }

// of is what queries [q0, q1) of n see together in a context of ctx tokens, the
// queries' own included. A query before the first token sees nothing.
func (v visibility) of(ctx, n, q0, q1 int) keyRange {
	if v.nonCausal {
		return keyRange{hi: ctx}
	}
	r := keyRange{hi: min(max(ctx-n+q1, 0), ctx)}
	if v.window > 0 && v.window < ctx {
		r.lo = min(max(ctx-n+q0-v.window+1, 0), r.hi)
		r.sinks = min(v.sinkTokens, r.lo)
	}
	return r
}

// count is the number of keys.
func (r keyRange) count() int { return r.sinks + r.hi - r.lo }

// at is the position of the i-th key, and hi or more beyond the last.
func (r keyRange) at(i int) int {
	if i < r.sinks {
		return i
	}
	return r.lo + i - r.sinks
}

// from is the first position of the range that is not before key.
func (r keyRange) from(key int) int {
	if key >= r.sinks && key < r.lo {
		return r.lo
	}
	return key
}

// has reports whether the range contains a position.
func (r keyRange) has(key int) bool {
	return key < r.hi && (key >= r.lo || key < r.sinks)
}
