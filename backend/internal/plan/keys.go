package plan

// Keys is the keys [First, Sinks) and [Lo, Hi) of a sequence, which begin and end in this order. Hi
// is the end of the last run that has any.
type Keys struct{ First, Sinks, Lo, Hi int }

// Count is the number of keys.
func (k Keys) Count() int { return k.Sinks - k.First + k.Hi - k.Lo }

// At is the position of the i-th key, and Hi or more beyond the last.
func (k Keys) At(i int) int {
	if i += k.First; i < k.Sinks {
		return i
	}
	return k.Lo + i - k.Sinks
}

// From is the first position of k that is not before key, where key is at most Hi.
func (k Keys) From(key int) int {
	if key = max(key, k.First); key >= k.Sinks && key < k.Lo {
		return k.Lo
	}
	return key
}

// Has reports whether k contains a position.
func (k Keys) Has(key int) bool {
	return key < k.Hi && (key >= k.Lo || key >= k.First && key < k.Sinks)
}

// after takes the keys before edge out, which is at most Hi.
func (k *Keys) after(edge int) {
	if k.Lo = max(k.Lo, edge); edge >= k.Sinks {
		edge, k.Sinks = 0, 0
	}
	k.First = edge
}

// And is keys that are in both runs of k and o of a kind.
func (k Keys) And(o Keys) Keys {
	return Keys{max(k.First, o.First), min(k.Sinks, o.Sinks), max(k.Lo, o.Lo), min(k.Hi, o.Hi)}
}

// Or is the keys from the first to the last of each of the two runs of k and o.
func (k Keys) Or(o Keys) Keys {
	var u Keys
	u.First, u.Sinks = cover(k.First, k.Sinks, o.First, o.Sinks)
	u.Lo, u.Hi = cover(k.Lo, k.Hi, o.Lo, o.Hi)
	if u.Lo == u.Hi {
		u.Lo, u.Hi = u.Sinks, u.Sinks
	}
	u.Hi = max(u.Hi, u.Sinks) // one may end before the other's sink tokens do
	u.Sinks = min(u.Sinks, u.Lo)
	u.First = min(u.First, u.Sinks)
	return u
}

// cover is the shortest run that has two runs in it, of which either may be empty.
func cover(a, b, c, d int) (int, int) {
	switch {
	case a >= b:
		return c, d
	case c >= d:
		return a, b
	}
	return min(a, c), max(b, d)
}
