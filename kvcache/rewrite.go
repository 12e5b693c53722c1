package kvcache

import (
	"errors"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

// rewriting is a compaction where tokens lie in two stores, and slots of a quantized block may share
// scales, so that none moves alone. Blocks that move whole, with no key turned, are the same blocks in
// other places. Every other block is put together in the fresh store, from tokens that are there and
// from quantized ones that are brought back, turned there, and quantized again where it lies before the
// window. All of it is written to new blocks, so that a failure changes nothing.
type rewriting[B backend.Buffer] struct {
	*compaction[B]
	gone, full int   // of the sequence before: blocks that are in the kept store alone, and those that are whole there
	whole      []int // the old block that becomes a new one, or −1
	first, end int   // afterwards: the first block in the fresh store, and the end of those in the kept one
	groups     []group
	scratch    int // blocks of the fresh store that a group needs besides

	copies                vector[B, uint32] // quantized blocks that are copied as they are
	leaves                []block.Block     // of the prefix tree: others' paths do not go through them
	kept, fresh           []block.Block     // afterwards
	takenKept, takenFresh []block.Block
	claimedKept           int
}

// group is new blocks that are put together at once, and the quantized ones that their tokens come from.
type group struct{ blocks, sources []int }

// groupBlocks is how many blocks are put together at once: each group is a few launches a layer.
const groupBlocks = 8

// rewrite is run for a sequence in two stores.
func (c *compaction[B]) rewrite() error {
	s, p := c.seq, c.seq.pool
	r := &rewriting[B]{compaction: c, gone: s.recent.gone, full: s.full()}
	c.claimed, r.claimedKept = s.recent.claim.Blocks(), s.kept.claim.Blocks()
	r.lay()
	defer r.copies.free(p.be)
	err := r.take()
	if err == nil {
		err = s.fence.Order(c.stream)
	}
	if err == nil {
		err = r.enqueue()
	}
	if err == nil {
		err = s.touched(c.stream)
	}
	if err != nil {
		err = errors.Join(p.fences.Observe(err), residency.Drain(c.stream)) // nothing uses the new blocks any more
		err = errors.Join(err, p.kept.Retire(nil, r.takenKept), p.fresh.Retire(nil, r.takenFresh))
		return errors.Join(err, s.restore(c.claimed), p.kept.Restore(&s.kept.claim, r.claimedKept))
	}
	for _, b := range r.leaves {
		p.kept.Forget(b)
	}
	unused := r.takenFresh[len(r.takenFresh)-r.scratch:]
	err = p.fresh.Retire(s.fence, unused)
	err = firstOf(err, p.kept.exchange(&s.kept, 0, r.kept, s.fence))
	s.len = c.len
	return firstOf(err, p.fresh.exchange(&s.recent, r.first, r.fresh, s.fence))
}

// exchange gives a segment other blocks, from one of the sequence on, and gives up those that are not
// among them.
func (st *store[B]) exchange(g *segment, gone int, blocks []block.Block, f *residency.Fence) error {
	stays := make(map[block.Block]bool, len(blocks))
	for _, b := range blocks {
		stays[b] = true
	}
	var left []block.Block
	for _, b := range g.blocks {
		if !stays[b] {
			left = append(left, b)
		}
	}
	st.logical += len(blocks) - len(g.blocks)
	g.gone, g.blocks = gone, append(g.blocks[:0], blocks...)
	return st.Retire(f, left)
}

// tokens are those of a new block.
func (r *rewriting[B]) tokens(j int) (from, to int) {
	slots := r.seq.pool.cfg.slots()
	return j * slots, min((j+1)*slots, r.len)
}

// lay decides where new blocks are, which of them are old ones, and in what groups the others are made.
func (r *rewriting[B]) lay() {
	c, slots := &r.seq.pool.cfg, r.seq.pool.cfg.slots()
	blocks := ceilDiv(r.len, slots)
	r.from, r.first = r.len, blocks
	for j := range blocks {
		r.whole = append(r.whole, r.oldOf(j))
		if r.whole[j] != j {
			r.from = min(r.from, j*slots)
		}
		if exact := r.lowest(j) >= r.gone*slots; exact {
			r.first = min(r.first, j)
		}
	}
	r.first = max(min(r.first, r.len/slots), c.edge(r.len-1-slots))
	r.end = max(r.first, c.edge(r.len-1), min(r.full, r.from/slots)) // what is quantized and the same stays so
	var g group
	for j := range blocks {
		if !r.makes(j) {
			continue
		}
		sources := g.sources
		if r.moves(j) {
			sources = r.sources(sources, j)
		}
		if len(g.blocks) > 0 && (len(g.blocks) == groupBlocks || len(sources) > 2*groupBlocks) {
			r.groups = append(r.groups, g)
			g, sources = group{}, nil
			if r.moves(j) {
				sources = r.sources(nil, j)
			}
		}
		g.blocks, g.sources = append(g.blocks, j), sources
	}
	if len(g.blocks) > 0 {
		r.groups = append(r.groups, g)
	}
}

// lowest is the first of the tokens that a new block is made of, in all lists.
func (r *rewriting[B]) lowest(j int) int {
	from, _ := r.tokens(j)
	low := r.source(0, from)
	for list := 1; list < r.lists; list++ {
		low = min(low, r.source(list, from))
	}
	return low
}

// oldOf is the old block that a new one is, token by token in every list, or −1.
func (r *rewriting[B]) oldOf(j int) int {
	slots := r.seq.pool.cfg.slots()
	from, to := r.tokens(j)
	at := r.source(0, from)
	if at%slots != 0 {
		return -1
	}
	for list := range r.lists {
		for i := from; i < to; i++ {
			if r.source(list, i) != at+i-from || r.turned(list, i) != 0 {
				return -1
			}
		}
	}
	return at / slots
}

// keeps and stays report whether a new block is an old one of the kept store, and of the fresh one.
func (r *rewriting[B]) keeps(j int) bool { return r.whole[j] >= 0 && r.whole[j] < r.full }
func (r *rewriting[B]) stays(j int) bool { return r.whole[j] >= r.gone }

// makes reports whether a new block has to be put together, or an old one quantized.
func (r *rewriting[B]) makes(j int) bool {
	return j < r.end && !r.keeps(j) || j >= r.first && !r.stays(j)
}

// fixed reports whether a quantized block that moves whole has to stay for others, where it is: it is
// on a path of the prefix tree, which would have a gap in front of it here.
func (r *rewriting[B]) fixed(j int) (published, shared bool, err error) {
	b := r.seq.kept.blocks[r.whole[j]]
	if j == r.whole[j] || !r.seq.pool.kept.Published(b) {
		return false, false, nil
	}
	owners, err := r.seq.pool.kept.Owners(b)
	return true, owners > 1, err
}

// moves reports whether tokens have to move for a new block.
func (r *rewriting[B]) moves(j int) bool { return !r.stays(j) }

// sources adds the quantized blocks that a new block's tokens come from.
func (r *rewriting[B]) sources(all []int, j int) []int {
	slots := r.seq.pool.cfg.slots()
	all = append([]int(nil), all...)
	from, to := r.tokens(j)
	for list := range r.lists {
		for i := from; i < to; i++ {
			at := r.source(list, i) / slots
			if at < r.gone && !slices.Contains(all, at) {
				all = append(all, at)
			}
		}
	}
	return all
}

// take takes the new blocks of both stores; those of the fresh one end with what a group needs besides.
func (r *rewriting[B]) take() error {
	s, p := r.seq, r.seq.pool
	kept, fresh := 0, 0
	copied := make([]bool, len(r.whole))
	for j := range r.whole {
		if j < r.end && r.keeps(j) {
			published, shared, err := r.fixed(j)
			if err != nil {
				return err
			}
			if copied[j] = shared; published && !shared {
				r.leaves = append(r.leaves, s.kept.blocks[r.whole[j]])
			}
		}
		if j < r.end && (copied[j] || !r.keeps(j)) {
			kept++
		}
		if j >= r.first && !r.stays(j) {
			fresh++
		}
	}
	for _, g := range r.groups {
		n := len(g.sources)
		for _, j := range g.blocks {
			if j < r.first && r.moves(j) {
				n++
			}
		}
		r.scratch = max(r.scratch, n)
	}
	var err error
	if r.takenFresh, err = p.fresh.Take(&s.recent.claim, s.root, nil, fresh+r.scratch); err != nil {
		return err
	}
	if r.takenKept, err = p.kept.Take(&s.kept.claim, s.root, nil, kept); err != nil {
		return err
	}
	kept, fresh = 0, 0
	for j := range r.whole {
		if j < r.end {
			if r.keeps(j) && !copied[j] {
				r.kept = append(r.kept, s.kept.blocks[r.whole[j]])
			} else {
				if r.kept = append(r.kept, r.takenKept[kept]); copied[j] {
					r.copies.host = append(r.copies.host, s.kept.blocks[r.whole[j]].ID, r.takenKept[kept].ID)
				}
				kept++
			}
		}
		if j >= r.first {
			if r.stays(j) {
				r.fresh = append(r.fresh, s.recent.blocks[r.whole[j]-r.gone])
			} else {
				r.fresh = append(r.fresh, r.takenFresh[fresh])
				fresh++
			}
		}
	}
	return nil
}

// enqueue makes the groups, one after another: they use the same blocks besides.
func (r *rewriting[B]) enqueue() error {
	p := r.seq.pool
	if len(r.copies.host) > 0 {
		if err := p.copyBlocks(r.stream, p.kept, &r.copies); err != nil {
			return err
		}
	}
	for i := range r.groups {
		if err := r.make(&r.groups[i]); err != nil {
			return err
		}
	}
	return nil
}

// make brings back what a group's tokens come from, moves and turns them, and quantizes.
func (r *rewriting[B]) make(g *group) error {
	p, slots := r.seq.pool, int64(r.seq.pool.cfg.slots())
	besides := r.takenFresh[len(r.takenFresh)-r.scratch:]
	var back, sealed vector[B, uint32]
	lists := make([]changes[B], r.lists)
	defer func() {
		back.free(p.be)
		sealed.free(p.be)
		for i := range lists {
			lists[i].free(p.be)
		}
	}()
	place := map[int]block.Block{} // of the old blocks, in the fresh store
	for i, at := range g.sources {
		back.host = append(back.host, r.seq.kept.blocks[at].ID, besides[i].ID)
		place[at] = besides[i]
	}
	besides = besides[len(g.sources):]
	for _, j := range g.blocks {
		var to block.Block // where the block is put together
		switch {
		case j >= r.first:
			to = r.fresh[j-r.first]
		case r.stays(j):
			to = r.seq.recent.blocks[r.whole[j]-r.gone]
		default:
			to, besides = besides[0], besides[1:]
		}
		if j < r.end && !r.keeps(j) {
			sealed.host = append(sealed.host, to.ID, r.kept[j].ID)
		}
		if !r.moves(j) {
			continue
		}
		from, end := r.tokens(j)
		for list := range lists {
			for i := from; i < end; i++ {
				token := int64(r.source(list, i))
				old, there := place[int(token/slots)]
				if !there {
					old = r.seq.recent.blocks[int(token/slots)-r.gone]
				}
				slot := int64(to.ID)*slots + int64(i-from)
				lists[list].moves.host = append(lists[list].moves.host, int64(old.ID)*slots+token%slots, slot)
				if turn := r.turned(list, i); turn != 0 {
					lists[list].at.host, lists[list].turns.host = append(lists[list].at.host, slot), append(lists[list].turns.host, int32(turn))
				}
			}
		}
	}
	err := firstOf(back.upload(p.be, r.stream), sealed.upload(p.be, r.stream))
	for i := range lists {
		err = firstOf(err, lists[i].upload(p.be, r.stream))
	}
	for l := 0; l < p.cfg.Layers && err == nil; l++ {
		kept, fresh := &p.kept.layers[l], &p.fresh.layers[l]
		if len(back.host) > 0 {
			err = p.convert(r.stream, kept, fresh, &back)
		}
		if err == nil {
			err = r.layer(fresh, &lists[min(l, r.lists-1)])
		}
		if err == nil && len(sealed.host) > 0 {
			err = p.convert(r.stream, fresh, kept, &sealed)
		}
	}
	return err
}
