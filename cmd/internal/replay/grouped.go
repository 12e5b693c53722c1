package replay

import (
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// piece is the most blocks of a prompt that are computed in a step. What leaves a window goes when a step is over.
const piece = 8

// grouped replays through the library's cache of several parts. A block of the trace is an entry of its tree, with a
// single token, its number. What a request does is what a sequence of the pool does: see kvcache/internal/store.
type grouped struct {
	trace *Trace
	parts []group.Part
	cache *group.Cache
	pages *block.BlockAllocator
	root  prefix.Root
	next  int // request
	full  int // hits that layers of full attention alone would have had
	uses  uses

	// Of the request.
	path  []block.Block // entries, besides blocks
	found int           // entries that others can find
	lists []tail        // by part
	fresh []block.Block // yet to be given to a part
	old   []block.Block // that another's took the place of
}

// tail is a part's blocks after the gone ones; of a state, the one that it is in.
type tail struct {
	gone   int
	blocks []block.Block
}

func newGrouped(policy string, t *Trace, p Parts, blocks int) (*grouped, error) {
	kind, err := prefix.ParsePolicy(policy)
	if err != nil {
		return nil, ErrSetting{"policy", policy, err.Error()}
	}
	pages, err := block.New(blocks)
	if err != nil {
		return nil, err
	}
	g := &grouped{trace: t, parts: p.rules(t.BlockTokens), pages: pages, lists: make([]tail, p.count())}
	g.uses = newUses(p, g.parts, blocks, t.Requests())
	g.cache, err = group.New(pages, group.Config{
		Tree:    prefix.Config{BlockSize: 1, Policy: kind},
		Entries: min(blocks, t.unique+piece),
		Parts:   g.parts, Every: p.Every, Share: p.Share,
	})
	return g, err
}

func (g *grouped) request(path []uint32) (hits int, err error) {
	q := prefix.Query{Tokens: path}
	f, err := g.cache.Take(g.root, q, prefix.RetentionHint{}, prefix.Match{})
	if err != nil {
		return 0, err
	}
	g.full += f.Known
	marks := group.RestorePoints{Found: f.Tokens, Branch: f.Known, End: g.trace.Full(g.next)}
	g.next++
	g.path, g.found = append(g.path[:0], f.Path...), f.Blocks
	for part, run := range f.Runs {
		l := &g.lists[part]
		l.gone, l.blocks = run.Gone, append(l.blocks[:0], run.Blocks...)
	}
	g.uses.holds(g.lists)
	for n := f.Tokens; n < len(path); n = g.found {
		next, err := g.take(n, g.border(n, len(path), marks))
		if err != nil {
			return 0, err
		}
		if next == n { // the rest is left out
			break
		}
		g.uses.holds(g.lists)
		if err = g.publish(path[n:next], marks, len(path)); err != nil {
			return 0, err
		}
		if g.found < next { // so it is
			break
		}
		if err = g.slide(next, marks); err != nil {
			return 0, err
		}
	}
	for _, l := range g.lists {
		if err = g.cache.Release(l.blocks); err != nil {
			return 0, err
		}
	}
	if err = g.cache.Tree().Release(g.path); err != nil {
		return 0, err
	}
	g.uses.ended(g.cache, g.pages.Cached())
	return f.Tokens, nil
}

// border is how far the next step goes after n blocks: no further than to where a state is to stay.
func (g *grouped) border(n, all int, m group.RestorePoints) int {
	next := min(n+piece, all)
	if g.parts[len(g.parts)-1].Kind != group.State {
		return next
	}
	for b := n + 1; b < next; b++ {
		if g.cache.Keeps(b, m) {
			return b
		}
	}
	return next
}
