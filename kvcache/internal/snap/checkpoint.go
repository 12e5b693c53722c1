package snap

import "github.com/ferrumkv/ferrumkv/kvcache/prefix"

// state is where the states of a part are after so many tokens of the sequence; false: some of them are nowhere.
func (p *planner[B]) state(after int) (from [][]src, ok bool) {
	for _, f := range p.in.homes[p.homes[0]].from {
		ref, ok := p.lines[f].after(after)
		if !ok {
			return nil, false
		}
		from = append(from, []src{{ref.Chunk, 0, 0, after}})
	}
	return from, true
}

// checkpoints are the states before the sequence's last token, as far as others can find them in this pool: at the ends of entries of its tree.
func (p *planner[B]) checkpoints() (all []*target) {
	q := &p.in.Head.Sequences[p.i]
	size := p.in.parts.Config.EntryTokens()
	if p.in.parts.Blocks.Tree() == nil || q.Silent || q.Tokens == nil || q.Fidelity != prefix.Exact || q.Draft > 0 {
		return nil
	}
	for _, ref := range p.lines[p.in.homes[p.homes[0]].from[0]] {
		n := ref.Tokens
		if n == p.tokens || n%size != 0 {
			continue
		}
		if from, ok := p.state(n); ok {
			all = append(all, p.join(0, &target{home: p.homes[0], owner: nobody, from: from, checkpoint: n}, p.in.checkpoints))
		}
	}
	return all
}
