package snap

import (
	"fmt"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
)

// plan finds what a sequence gets.
func (in *In[B]) plan(i int) error {
	q, c := &in.Head.Sequences[i], &in.parts.Config
	if n := max(q.Len, q.Prompt); n > c.Memory.Capacity {
		return snapshot.ErrMismatch{Field: "Memory.Capacity", Layer: -1, Have: fmt.Sprint(n, " tokens"), Want: fmt.Sprint(c.Memory.Capacity)}
	}
	if most := math.MaxInt32 - c.Memory.Capacity; q.Next > most { // what is still computed has positions, too
		return snapshot.ErrMismatch{Field: "position", Layer: -1, Have: fmt.Sprint(q.Next), Want: fmt.Sprint(most, " at most")}
	}
	if lists := len(q.Positions); lists > 1 && lists != c.Model.Layers {
		return snapshot.ErrCorrupt{Offset: in.r.Bytes(), Section: "SEQ ", Why: fmt.Sprintf("%d lists of positions, for %d layers", lists, c.Model.Layers)}
	}
	if err := in.keys(q); err != nil {
		return err
	}
	lines := make([]line, len(q.Strips))
	for s := range lines {
		lines[s] = newLine(q.Strips[s])
	}
	in.runs[i] = make([]run, len(in.parts.All))
	for p, st := range in.parts.All {
		if st.Rotates() && q.Next > c.Memory.Capacity {
			return snapshot.ErrMismatch{Field: "Memory.Capacity", Layer: -1, Have: fmt.Sprint("position ", q.Next), Want: fmt.Sprint(c.Memory.Capacity)}
		}
		pl := planner[B]{in: in, i: i, tokens: q.Len, st: st, lines: lines}
		for j, of := range st.Stores {
			pl.homes[j] = in.homeOf(of)
		}
		var err error
		if in.runs[i][p], err = pl.run(); err != nil {
			return err
		}
	}
	for of, n := range in.needs { // now, for what a stream says may be much more than it has
		if n > of.Total() {
			return block.ErrOutOfBlocks{Need: n, Free: of.Total()}
		}
	}
	return nil
}

func (in *In[B]) homeOf(of *store.Store[B]) int {
	return slices.IndexFunc(in.homes, func(h home[B]) bool { return h.of == of })
}

// planner finds what a sequence gets in a part. Tokens lie where blocks of the pool have them, whichever blocks they came from:
// what a part gave up must be outside of those.
type planner[B backend.Buffer] struct {
	in     *In[B]
	i      int // the sequence
	tokens int
	st     *store.Part[B]
	lines  []line
	homes  [store.MostStores]int // of its stores
}

func (p *planner[B]) run() (b run, err error) {
	n := p.tokens
	if n == 0 {
		return b, nil
	}
	if p.st.States != nil {
		from, ok := p.state(n)
		if !ok {
			return b, p.missing()
		}
		said := newText(p.in.Head, p.i)
		last := p.join(0, &target{home: p.homes[0], owner: nobody, from: from, at: said.place(0, n)}, p.in.needs)
		b = run{len: n, checkpoints: p.checkpoints()}
		b.segments[0].targets = []*target{last}
		return b, nil
	}
	rule, size := &p.st.Rule, p.st.Config.BlockTokens()
	start, stop := p.extent(p.homes[0])
	if start == stop { // it has nothing, as where a chunk begins
		start = n
	}
	end := ceilDiv(n, size)
	kept, exact := end, 0 // blocks before which there are rows as stored, and from which on there are computed ones
	for i := range p.st.Sealed() {
		at, to := p.extent(p.homes[i+1])
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

// lay finds the blocks of a run that has given up so many after its sinks: those before kept as they are stored, and those
// from exact on as they were computed. It reports whether they can be had.
func (p *planner[B]) lay(gone, end, kept, exact int) (b run, ok bool, err error) {
	rule, size, n := &p.st.Rule, p.st.Config.BlockTokens(), p.tokens
	sinks := rule.SinkBlocks()
	if gone > 0 && !rule.Reaches(gone, n) {
		return b, false, nil
	}
	var all []int
	stored := 0
	for i := 0; i < end; i++ {
		if i == sinks {
			if i += gone; i >= end {
				break
			}
		}
		all = append(all, i)
		if i < kept {
			stored++
		}
	}
	if err := p.in.lays(len(all)); err != nil {
		return b, false, err
	}
	b = run{len: n - gone*size, gone: gone}
	blocks := [store.MostStores][]int{all} // of each segment
	for i := range p.st.Sealed() {
		from := exact
		if exact > sinks {
			from = max(exact-gone, min(sinks, len(all)))
		}
		if stored < from {
			return b, false, nil
		}
		b.segments[i+1].from = from
		blocks[i], blocks[i+1] = all[:stored], all[from:]
	}
	for i := range p.st.Stores {
		if ok, err := p.has(p.homes[i], blocks[i]); !ok || err != nil {
			return b, false, err
		}
	}
	for i := range p.st.Stores {
		if b.segments[i].targets, err = p.targets(p.homes[i], blocks[i]); err != nil {
			return b, false, err
		}
	}
	return b, true, nil
}

// missing is that tokens which a block would have were given up before they were saved.
func (p *planner[B]) missing() error {
	c := &p.st.Config
	e := snapshot.ErrMismatch{Field: "Memory.BlockSize", Layer: p.st.Model[0], Want: fmt.Sprint(c.BlockTokens()),
		Why: "blocks would have tokens that the layers had given up before they were saved; take the block size that they were saved from"}
	for _, f := range p.in.homes[p.homes[0]].from {
		e.Have = fmt.Sprint(p.in.Head.Strips[f].Tokens)
	}
	if c.Memory.Layout == config.Contiguous {
		e.Field, e.Have, e.Want = "Memory.Layout", "paged", "contiguous"
		e.Why = "the layers had given up tokens before they were saved, which the contiguous layout has all of"
	}
	return e
}

func ceilDiv(a, b int) int { return (max(a, 0) + b - 1) / b }
