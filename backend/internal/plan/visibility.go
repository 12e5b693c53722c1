package plan

import "math"

// Visibility is which keys a query may see: the part of a mask that a plan
// depends on.
type Visibility struct {
	NonCausal          bool
	Window, SinkTokens int
}

// Visible is a mask's visibility in numbers that the work of a plan can hold: no
// context is longer than a U32. Window and sink tokens are not negative.
func Visible(nonCausal bool, window, sinkTokens int) Visibility {
	return Visibility{NonCausal: nonCausal, Window: int(min(uint64(window), math.MaxUint32)),
		SinkTokens: int(min(uint64(sinkTokens), math.MaxUint32))}
}

// Within reports whether v shows no key that a plan with that window and those
// sink tokens leaves out; window 0 is the widest.
func (v Visibility) Within(window, sinkTokens int) bool {
	return window == 0 || v.Window > 0 && v.Window <= window && v.SinkTokens <= sinkTokens
}

// Keys is the keys [0, Sinks) and [Lo, Hi) of a sequence; Sinks is at most Lo.
type Keys struct{ Sinks, Lo, Hi int }

// Of is what queries [q0, q1) of n see together in a context of ctx tokens, the
// queries' own included. A query before the first token sees nothing.
func (v Visibility) Of(ctx, n, q0, q1 int) Keys {
	if v.NonCausal {
		return Keys{Hi: ctx}
	}
	k := Keys{Hi: min(max(ctx-n+q1, 0), ctx)}
	if v.Window > 0 && v.Window < ctx {
		k.Lo = min(max(ctx-n+q0-v.Window+1, 0), k.Hi)
		k.Sinks = min(v.SinkTokens, k.Lo)
	}
	return k
}

// Count is the number of keys.
func (k Keys) Count() int { return k.Sinks + k.Hi - k.Lo }

// At is the position of the i-th key, and Hi or more beyond the last.
func (k Keys) At(i int) int {
	if i < k.Sinks {
		return i
	}
	return k.Lo + i - k.Sinks
}

// From is the first position of k that is not before key, where key is at most Hi.
func (k Keys) From(key int) int {
	if key >= k.Sinks && key < k.Lo {
		return k.Lo
	}
	return key
}

// Has reports whether k contains a position.
func (k Keys) Has(key int) bool {
	return key < k.Hi && (key >= k.Lo || key < k.Sinks)
}
