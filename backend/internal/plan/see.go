package plan

import "github.com/ferrumkv/ferrumkv/backend"

// See is the keys before end that a query at a position sees, but for drafts: Keys{} where there are none.
func (v *Visibility) See(position, end int) Keys {
	first, sinks, lo, hi := 0, 0, 0, max(end, 0)
	if v.Window > 0 {
		sinks = min(v.SinkTokens, hi)
		lo, hi = max(position-v.Window+1, 0), min(position+v.Window, hi)
	}
	if v.Chunk > 0 {
		if position < 0 {
			return Keys{}
		}
		lo = position - position%v.Chunk
		hi = min(lo+v.Chunk, hi)
	}
	switch v.Part {
	case backend.OlderKeys:
		edge := v.Edge(position)
		sinks, hi = min(sinks, edge), min(hi, edge)
	case backend.ResidualKeys:
		first = v.Edge(position)
		lo = max(lo, first)
	}
	switch {
	case lo >= hi && first >= sinks:
		return Keys{}
	case lo >= hi:
		return Keys{first, sinks, sinks, sinks}
	case first >= sinks:
		return Keys{Lo: lo, Hi: hi}
	case sinks >= lo:
		return Keys{Lo: first, Hi: max(sinks, hi)}
	}
	return Keys{first, sinks, lo, hi}
}

// TreeWords bounds the words of a row of a tree of drafts, on every device: 1024 drafts, for rows look through all of them.
const TreeWords = 32

// Places is what a plan knows of where the queries of its step are.
type Places struct {
	See Visibility

	views     []uint32 // of each query its position and end, nil: as the mask says
	treeWords int
}

// PlacesOf is that of a shape, which was checked. It is for the time of planning only.
func PlacesOf(s *backend.AttendShape) Places { return Places{Planned(s), s.Views, s.TreeWords} }

// Plain reports whether Visibility.Of says what queries of a step see.
func (v *Visibility) Plain(views bool, treeWords int) bool {
	return !views && treeWords == 0 && v.Chunk == 0 && (!v.NonCausal || v.Window == 0)
}

// Of is the keys from the first to the last that some of queries [q0, q1) of n see in a context of ctx
// tokens, of sink tokens and of others; first is the token of query 0 in its step. What is drafted is
// not known: all of a sequence's tokens may be.
func (p *Places) Of(first, ctx, n, q0, q1 int) Keys {
	if p.See.Plain(p.views != nil, p.treeWords) {
		return p.See.Of(ctx, n, q0, q1)
	}
	var all Keys
	for i := q0; i < q1; i++ {
		position, end := p.at(first, ctx, n, i)
		all = all.Or(p.See.See(position, end))
	}
	if p.treeWords > 0 && p.See.Part != backend.OlderKeys {
		drafts := max(ctx-n, 0)
		all = all.Or(Keys{Lo: drafts, Hi: min(drafts+32*p.treeWords, ctx)})
	}
	return all
}

// at is the position and the end of query i.
func (p *Places) at(first, ctx, n, i int) (position, end int) {
	switch position = ctx - n + i; {
	case p.views != nil:
		at := p.views[2*(first+i):][:2]
		return int(at[0]), int(at[1])
	case p.See.NonCausal:
		return position, ctx
	}
	return position, position + 1
}

// Common is how many keys from the first on all of a sequence's n queries see, without a window, chunks and
// residual keys; those of the queries themselves do not count unless views have them.
func (p *Places) Common(first, ctx, n int) int {
	before := ctx - n
	if p.views == nil {
		if p.See.Part == backend.OlderKeys {
			before = p.See.Edge(before)
		}
		return before
	}
	common := ctx
	if p.treeWords > 0 {
		common = before
	}
	for i := range n {
		position, end := p.at(first, ctx, n, i)
		if common = min(common, end); p.See.Part == backend.OlderKeys {
			common = min(common, p.See.Edge(position))
		}
	}
	return common
}
