package compact

import (
	"cmp"
	"errors"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
)

// rewriting is a compaction where tokens lie in two stores, and slots of a quantized block may share
// scales, so that none moves alone. Blocks that move whole, with no key turned, are the same blocks in
// other places. Every other block is put together in the written store, from tokens that are there and
// from quantized ones that are brought back, turned there, and quantized again where it lies before the
// window. All of it is written to new blocks, so that a failure changes nothing.
type rewriting[B backend.Buffer] struct {
	*Compaction[B]
	gone, full int   // of the sequence before: blocks that are in the kept store alone, and those that are whole there
	whole      []int // the old block that becomes a new one, or −1
	first, end int   // afterwards: the first block in the written store, and the end of those in the kept one
	groups     []bunch
	scratch    int // blocks of the written store that a group needs besides

	copies                  store.Vector[B, uint32] // quantized blocks that are copied as they are
	kept, written           []block.Block           // afterwards
	takenKept, takenWritten store.Owned
}

// bunch is new blocks that are put together at once, and the quantized ones that their tokens come from.
type bunch struct{ blocks, sources []int }

// groupBlocks is how many blocks are put together at once: each group is a few launches a layer.
const groupBlocks = 8

// prepare lays the tokens out, and takes the new blocks.
func (r *rewriting[B]) prepare() error {
	r.gone, r.full = r.run.Written.From, r.run.Full()
	r.lay()
	return r.take()
}

func (r *rewriting[B]) taken() [store.MostStores][]block.Block {
	return [...][]block.Block{r.takenKept.Blocks, r.takenWritten.Blocks}
}

// finish gives the sequence its blocks.
func (r *rewriting[B]) finish() error {
	err := r.run.Part.Written.Retire(r.run.Fence, r.besides())
	return cmp.Or(err, r.run.Exchange(r.len, r.cut, store.Segment{Blocks: r.kept}, store.Segment{From: r.first, Blocks: r.written}))
}

// undo gives back what a failed rewriting took.
func (r *rewriting[B]) undo(err error) error {
	s, p := r.run, r.run.Part
	r.Moved = false // only in new blocks
	return errors.Join(err, p.Kept.GiveBack(s.Kept, &r.takenKept, r.takenKept.Blocks, nil),
		p.Written.GiveBack(s.Written, &r.takenWritten, r.takenWritten.Blocks, nil))
}

// besides is the blocks of the written store that a group needs besides.
func (r *rewriting[B]) besides() []block.Block {
	return r.takenWritten.Blocks[len(r.takenWritten.Blocks)-r.scratch:]
}

// tokens are those of a new block.
func (r *rewriting[B]) tokens(j int) (from, to int) {
	slots := r.run.Part.Config.BlockTokens()
	return j * slots, min((j+1)*slots, r.len)
}

// lay decides where new blocks are, which of them are old ones, and in what groups the others are made.
func (r *rewriting[B]) lay() {
	c, slots := &r.run.Part.Config, r.run.Part.Config.BlockTokens()
	blocks := c.BlocksOf(r.len)
	r.From, r.first = r.len, blocks
	for j := range blocks {
		r.whole = append(r.whole, r.oldOf(j))
		if r.whole[j] != j {
			r.From = min(r.From, j*slots)
		}
		if r.lowest(j) >= r.gone*slots { // nothing of it is quantized
			r.first = min(r.first, j)
		}
	}
	r.first = max(min(r.first, r.len/slots), c.Edge(r.len-1-slots))
	r.end = max(r.first, c.Edge(r.len-1), min(r.full, r.From/slots)) // what is quantized and the same stays so
	var g bunch
	for j := range blocks {
		if !r.makes(j) {
			continue
		}
		sources := r.sources(g.sources, j)
		if len(g.blocks) > 0 && (len(g.blocks) == groupBlocks || len(sources) > 2*groupBlocks) {
			r.groups = append(r.groups, g)
			g, sources = bunch{}, r.sources(nil, j)
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
	slots := r.run.Part.Config.BlockTokens()
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

// keeps and stays report whether a new block is an old one of the kept store, and of the written one.
func (r *rewriting[B]) keeps(j int) bool { return r.whole[j] >= 0 && r.whole[j] < r.full }
func (r *rewriting[B]) stays(j int) bool { return r.whole[j] >= r.gone }

// makes reports whether a new block has to be put together, or an old one quantized.
func (r *rewriting[B]) makes(j int) bool {
	return j < r.end && !r.keeps(j) || j >= r.first && !r.stays(j)
}

// fixed reports whether a quantized block that moves whole has to stay for others, where it is: it is
// on a path of the prefix tree, which would have a gap in front of it here.
func (r *rewriting[B]) fixed(j int) (published, shared bool, err error) {
	b := r.run.Kept.Blocks[r.whole[j]]
	if j == r.whole[j] || !r.run.Part.Kept.Published(b) {
		return false, false, nil
	}
	owners, err := r.run.Part.Kept.Owners(b)
	return true, owners > 1, err
}

// sources is all with the quantized blocks that a new block's tokens come from, if they have to move.
func (r *rewriting[B]) sources(all []int, j int) []int {
	if r.stays(j) {
		return all
	}
	slots := r.run.Part.Config.BlockTokens()
	all = slices.Clone(all)
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

// take takes the new blocks of both stores; those of the written one end with what a group needs besides.
func (r *rewriting[B]) take() error {
	s, p := r.run, r.run.Part
	kept, fresh := 0, 0
	var leaves []block.Block // of the prefix tree, where nobody else's path goes through them
	copied := make([]bool, len(r.whole))
	for j := range r.whole {
		if j < r.end && r.keeps(j) {
			published, shared, err := r.fixed(j)
			if err != nil {
				return err
			}
			if copied[j] = shared; published && !shared {
				leaves = append(leaves, s.Kept.Blocks[r.whole[j]])
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
			if j < r.first && !r.stays(j) {
				n++
			}
		}
		r.scratch = max(r.scratch, n)
	}
	var err error
	if r.takenWritten, err = p.Written.Own(s.Written, s.Root, fresh+r.scratch); err != nil {
		return err
	}
	if r.takenKept, err = p.Kept.Own(s.Kept, s.Root, kept); err != nil {
		return err
	}
	for _, b := range leaves {
		p.Kept.Forget(b)
	}
	kept, fresh = 0, 0
	for j := range r.whole {
		if j < r.end {
			if r.keeps(j) && !copied[j] {
				r.kept = append(r.kept, s.Kept.Blocks[r.whole[j]])
			} else {
				to := r.takenKept.Blocks[kept]
				if r.kept = append(r.kept, to); copied[j] {
					r.copies.Host = append(r.copies.Host, s.Kept.Blocks[r.whole[j]].ID, to.ID)
				}
				kept++
			}
		}
		if j >= r.first {
			if r.stays(j) {
				r.written = append(r.written, s.Written.At(r.whole[j]))
			} else {
				r.written = append(r.written, r.takenWritten.Blocks[fresh])
				fresh++
			}
		}
	}
	return nil
}

// enqueue makes the groups, one after another: they use the same blocks besides.
func (r *rewriting[B]) enqueue() error {
	p := r.run.Part
	defer r.copies.Free(p.BE)
	if p.Config.Attention.Scores {
		if err := r.run.BringScores(r.stream); err != nil { // which takes its turn
			return err
		}
	}
	if err := p.CopyBlocks(r.stream, p.Kept, &r.copies); err != nil {
		return err
	}
	p.LockScores()
	defer p.UnlockScores()
	for i := range r.groups {
		if err := r.make(&r.groups[i]); err != nil {
			return err
		}
	}
	return nil
}

// make brings back what a group's tokens come from, moves and turns them, and quantizes.
func (r *rewriting[B]) make(g *bunch) error {
	p, slots := r.run.Part, int64(r.run.Part.Config.BlockTokens())
	besides := r.besides()
	var back, sealed store.Vector[B, uint32]
	lists := make([]changes[B], r.lists)
	defer func() {
		back.Free(p.BE)
		sealed.Free(p.BE)
		for i := range lists {
			lists[i].free(p.BE)
		}
	}()
	place := map[int]block.Block{} // of the old blocks, in the written store
	for i, at := range g.sources {
		back.Host = append(back.Host, r.run.Kept.Blocks[at].ID, besides[i].ID)
		place[at] = besides[i]
	}
	besides = besides[len(g.sources):]
	for _, j := range g.blocks {
		var to block.Block // where the block is put together
		switch {
		case j >= r.first:
			to = r.written[j-r.first]
		case r.stays(j):
			to = r.run.Written.At(r.whole[j])
		default:
			to, besides = besides[0], besides[1:]
		}
		if j < r.end && !r.keeps(j) {
			sealed.Host = append(sealed.Host, to.ID, r.kept[j].ID)
		}
		if r.stays(j) {
			continue
		}
		from, end := r.tokens(j)
		for list := range lists {
			for i := from; i < end; i++ {
				token := int64(r.source(list, i))
				old, there := place[int(token/slots)]
				if !there {
					old = r.run.Written.At(int(token / slots))
				}
				slot := int64(to.ID)*slots + int64(i-from)
				lists[list].moves.Host = append(lists[list].moves.Host, int64(old.ID)*slots+token%slots, slot)
				if turn := r.turned(list, i); turn != 0 {
					lists[list].at.Host, lists[list].turns.Host = append(lists[list].at.Host, slot), append(lists[list].turns.Host, int32(turn))
				}
			}
		}
	}
	err := cmp.Or(back.Upload(p.BE, r.stream), sealed.Upload(p.BE, r.stream))
	for i := range lists {
		err = cmp.Or(err, lists[i].upload(p.BE, r.stream))
	}
	for l := 0; l < p.Config.Model.Layers && err == nil; l++ {
		kept, written := &p.Kept.Layers[l], &p.Written.Layers[l]
		err = p.Convert(r.stream, kept, written, &back)
		if err == nil {
			err = r.layer(l, written, &lists[min(l, r.lists-1)])
		}
		if err == nil {
			err = p.Convert(r.stream, written, kept, &sealed)
		}
	}
	return err
}
