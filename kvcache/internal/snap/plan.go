package snap

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
)

// line is the references of a sequence to chunks of a strip, by their first tokens.
type line []placed

type placed struct {
	first int
	snapshot.Ref
}

func newLine(runs []snapshot.Run) (l line) {
	for _, r := range runs {
		at := r.First
		for _, ref := range r.Refs {
			l = append(l, placed{at, ref})
			at += ref.Tokens
		}
	}
	return l
}

// extent is the last tokens of the line between which is no hole.
func (l line) extent() (start, end int) {
	for i, p := range l {
		if i == 0 || p.first != end {
			start = p.first
		}
		end = p.first + p.Tokens
	}
	return start, end
}

// take appends what of the line are tokens from one on; false: some are missing.
func (l line) take(dst []src, from, tokens int) ([]src, bool) {
	i := sort.Search(len(l), func(i int) bool { return l[i].first+l[i].Tokens > from })
	for at := from; at < from+tokens; i++ {
		if i == len(l) || l[i].first > at {
			return dst, false
		}
		n := min(l[i].first+l[i].Tokens, from+tokens) - at
		dst = append(dst, src{l[i].Chunk, at - l[i].first, at - from, n})
		at += n
	}
	return dst, true
}

// plan finds what a sequence gets.
func (in *In[B]) plan(i int) error {
	q, c := &in.Head.Sequences[i], &in.parts.Config
	if n := max(q.Len, q.Prompt); n > c.Memory.Capacity {
		return snapshot.ErrMismatch{Field: "Memory.Capacity", Layer: -1, Have: fmt.Sprint(n, " tokens"), Want: fmt.Sprint(c.Memory.Capacity)}
	}
	lines := make([]line, len(q.Strips))
	for s := range lines {
		lines[s] = newLine(q.Strips[s])
	}
	bodies := make([]body, len(in.parts.All))
	for p, st := range in.parts.All {
		if st.RoPE.Table.Set && q.Next > c.Memory.Capacity {
			return snapshot.ErrMismatch{Field: "Memory.Capacity", Layer: -1, Have: fmt.Sprint("position ", q.Next), Want: fmt.Sprint(c.Memory.Capacity)}
		}
		pl := planner[B]{in: in, i: i, tokens: q.Len, st: st, lines: lines, kept: in.homeOf(st.Kept), fresh: -1}
		if st.Windowed() {
			pl.fresh = in.homeOf(st.Fresh)
		}
		var err error
		if bodies[p], err = pl.body(); err != nil {
			return err
		}
	}
	in.bodies = append(in.bodies, bodies)
	return nil
}

func (in *In[B]) homeOf(of *store.Store[B]) int {
	return slices.IndexFunc(in.homes, func(h home[B]) bool { return h.of == of })
}

// planner finds what a sequence gets in a part. Tokens lie where blocks of the pool have them, whichever blocks they came from:
// what a part gave up must be outside of those.
type planner[B backend.Buffer] struct {
	in          *In[B]
	i           int // the sequence
	tokens      int
	st          *store.Stores[B]
	lines       []line
	kept, fresh int // homes; −1: there is none
}

func (p *planner[B]) body() (b body, err error) {
	n := p.tokens
	if n == 0 {
		return b, nil
	}
	if p.st.States != nil {
		t, ok, err := p.target(p.kept, 0, n)
		if !ok {
			return b, cmp.Or(err, p.missing())
		}
		return body{len: n, kept: []*target{t}}, nil
	}
	rule, size := &p.st.Rule, p.st.Config.BlockTokens()
	start, stop := p.extent(p.kept)
	end := ceilDiv(n, size)
	kept, exact := end, 0 // blocks before which there are rows as stored, and from which on there are computed ones
	if p.fresh >= 0 {
		at, to := p.extent(p.fresh)
		if to != n {
			at = n
		}
		exact = ceilDiv(at, size)
		if stop < n {
			kept = stop / size
		}
	}
	gone := rule.Gone(n)
	for _, gone := range [...]int{gone, max(gone, ceilDiv(start-rule.SinkBlocks()*size, size))} {
		b, ok, err := p.lay(gone, end, kept, exact)
		if ok || err != nil {
			return b, err
		}
	}
	return b, p.missing()
}

// extent is what all strips of a home have: see line.extent.
func (p *planner[B]) extent(home int) (start, end int) {
	for i, f := range p.in.homes[home].from {
		s, e := p.lines[f].extent()
		if i == 0 {
			start, end = s, e
		}
		start, end = max(start, s), min(end, e)
	}
	return start, end
}

// lay finds the blocks of a body that has given up so many behind its sinks: those before kept as they are stored, and those
// from exact on as they were computed. It reports whether they can be had.
func (p *planner[B]) lay(gone, end, kept, exact int) (b body, ok bool, err error) {
	rule, size, n := &p.st.Rule, p.st.Config.BlockTokens(), p.tokens
	sinks := rule.SinkBlocks()
	if gone > 0 && !rule.Reaches(gone, n) {
		return b, false, nil
	}
	var all []int
	stored := 0
	for i := range end {
		if i < sinks || i >= sinks+gone {
			all = append(all, i)
			if i < kept {
				stored++
			}
		}
	}
	b = body{len: n - gone*size, gone: gone}
	get := func(home int, list []int) (ts []*target, ok bool, err error) {
		for _, i := range list {
			t, ok, err := p.target(home, i*size, min(size, n-i*size))
			if !ok {
				return nil, false, err
			}
			ts = append(ts, t)
		}
		return ts, true, nil
	}
	if p.fresh < 0 {
		b.kept, ok, err = get(p.kept, all)
		return b, ok, err
	}
	b.recentGone = exact
	if exact > sinks {
		b.recentGone = max(exact-gone, min(sinks, len(all)))
	}
	if stored < b.recentGone {
		return b, false, nil
	}
	if b.kept, ok, err = get(p.kept, all[:stored]); ok {
		b.recent, ok, err = get(p.fresh, all[b.recentGone:])
	}
	return b, ok, err
}

// target is a block with tokens of the sequence from one on; false: there are none. Where another sequence has the same tokens of the same
// chunks, or one of the two has more of them, they have one block.
func (p *planner[B]) target(home, first, tokens int) (_ *target, ok bool, err error) {
	h := &p.in.homes[home]
	t := &target{home: home, owner: p.i, last: p.i}
	for _, f := range h.from {
		list, ok := p.lines[f].take(nil, first, tokens)
		if !ok {
			return nil, false, nil
		}
		if err := p.oneScale(f, h, list); err != nil {
			return nil, false, err
		}
		t.from = append(t.from, list)
	}
	key := shared{home, t.from[0][0].chunk, t.from[0][0].from}
	for _, o := range p.in.shared[key] {
		if o.last != p.i && o.merge(t) {
			o.last = p.i
			return o, true, nil
		}
	}
	if p.in.shared == nil {
		p.in.shared = map[shared][]*target{}
	}
	p.in.shared[key] = append(p.in.shared[key], t)
	p.in.targets = append(p.in.targets, t)
	return t, true, nil
}

// shared is what targets have in common that may be one.
type shared struct{ home, chunk, from int }

// merge gives t what o has more, where one of the two is the beginning of the other.
func (t *target) merge(o *target) bool {
	for i, list := range t.from {
		short, long := list, o.from[i]
		if len(short) > len(long) {
			short, long = long, short
		}
		for j, s := range short {
			if l := long[j]; s != l && (s.chunk != l.chunk || s.from != l.from || s.at != l.at || j < len(short)-1 || len(short) < len(long) && s.tokens > l.tokens) {
				return false
			}
		}
	}
	for i, list := range o.from {
		if had := t.from[i]; len(list) > len(had) || len(list) == len(had) && list[len(list)-1].tokens > had[len(had)-1].tokens {
			t.from[i] = list
		}
	}
	return true
}

// tokens is how many a target has.
func (t *target) tokens() (n int) {
	for _, s := range t.from[0] {
		n += s.tokens
	}
	return n
}

// oneScale checks that rows which share scales, those of a block of a kernel, are of one chunk.
func (p *planner[B]) oneScale(f int, h *home[B], list []src) error {
	for _, pair := range p.in.planes[f] {
		s := p.in.strips[pair.to]
		if s.of != h.of || !slices.ContainsFunc(pair.planes, func(p plane) bool { return p.per == snapshot.PerChunk }) {
			continue
		}
		for i, one := range list[:len(list)-1] {
			if next := list[i+1]; next.chunk != one.chunk && next.at%s.pieces.Tokens != 0 {
				return snapshot.ErrMismatch{Field: "Memory.BlockSize", Layer: s.Layers[0].Number, Have: fmt.Sprint(p.in.Head.Strips[f].Tokens), Want: fmt.Sprint(s.pieces.Tokens),
					Why: "the tokens of a block share scales, and those of several blocks have several; take blocks of a size that divides the snapshot's"}
			}
		}
	}
	return nil
}

// missing is that tokens which a block would have were given up before they were saved.
func (p *planner[B]) missing() error {
	c := &p.st.Config
	e := snapshot.ErrMismatch{Field: "Memory.BlockSize", Layer: p.st.Model[0], Want: fmt.Sprint(c.BlockTokens()),
		Why: "blocks would have tokens that the layers had given up before they were saved; take the block size that they were saved from"}
	for _, f := range p.in.homes[p.kept].from {
		e.Have = fmt.Sprint(p.in.Head.Strips[f].Tokens)
	}
	if c.Memory.Layout == config.Contiguous {
		e.Field, e.Have, e.Want = "Memory.Layout", "paged", "contiguous"
		e.Why = "the layers had given up tokens before they were saved, which the contiguous layout has all of"
	}
	return e
}

func ceilDiv(a, b int) int { return (max(a, 0) + b - 1) / b }
