package runner

import (
	"cmp"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// takesGuesses checks Options.Guesses for a device that takes trees of this many words of 32 nodes.
func (m *Model) takesGuesses(opt Options, words int) {
	n, most := opt.Guesses, max(32*words-1, 0)
	accept(n >= 0 && n <= most, "Guesses", n, "accepts 0 to %d on this device", most)
	accept(n == 0 || opt.Cache.Storage.Residual <= 0, "Guesses", n,
		"cannot be used with a residual window: blocks of guesses that may be wrong would be quantized")
	for l := range m.Config.Layers {
		kind := m.block(l).Kind
		accept(n == 0 || kind == group.Full || kind == group.Window, "Guesses", n, "layer %d is of kind %v, which has no trees of guesses", l, kind)
	}
}

// guess makes a run's token the root of a tree: after it are guesses of what follows, as many as the cache has room for.
func (g *generation[B]) guess(run *run[B], w *Work[B]) {
	have, capacity, deep := run.seq.Len(), g.Pool().Config().Memory.Capacity, g.guesses+1
	for l := range g.model.Layers {
		if b := g.model.block(l); b.Kind == group.Window {
			deep = min(deep, b.Span) // nodes see all that they go on from
		}
	}
	nodes := 1 + min(g.guesses, capacity-have-1, g.maxTokens-run.emitted()-1)
	tree := lookUp(run.text, nodes, deep)
	w.Tokens, w.Parents = tree.tokens, tree.parents
	w.Right = func(nodes Logits) (path []int) {
		for node := 0; node >= 0; {
			token := Greedy(nodes.Row(node))
			path, run.chosen = append(path, node), append(run.chosen, token)
			if node = tree.child(node, token); g.model.Stops(token) {
				break // a guess of it, too, is not in the text
			}
		}
		g.report.Guesses += len(tree.tokens) - 1
		g.report.Right += len(path) - 1
		return path
	}
}

// drafts is a tree of tokens, the first of which is certain.
type drafts struct {
	tokens  []uint32
	parents []int // -1: of the first
}

// child is the node with a token after another one; -1: there is none.
func (d *drafts) child(node int, token uint32) int {
	for i, parent := range d.parents {
		if parent == node && d.tokens[i] == token {
			return i
		}
	}
	return -1
}

// lookUp guesses what follows a text from what followed its last tokens where they were before (prompt look-up,
// github.com/apoorvumang/prompt-lookup-decoding): first where most of them were, and of equal places at the last one. Each
// place gives at most half of the tree, which has at most that many nodes, and paths of at most deep nodes.
func lookUp(text []uint32, nodes, deep int) drafts {
	const most = 16 // tokens that are compared
	type place struct{ end, alike int }
	last := len(text) - 1
	var places []place
	for end := last; end > 0; end-- {
		alike := 0
		for alike < min(most, end) && text[end-1-alike] == text[last-alike] {
			alike++
		}
		if alike > 0 {
			places = append(places, place{end, alike})
		}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(b.alike, a.alike) })
	d := drafts{tokens: []uint32{text[last]}, parents: []int{-1}}
	for _, p := range places {
		node, rest := 0, text[p.end:]
		for _, token := range rest[:min(len(rest), (nodes+1)/2, deep-1)] {
			next := d.child(node, token)
			if next < 0 {
				if len(d.tokens) >= nodes {
					return d
				}
				next, d.tokens, d.parents = len(d.tokens), append(d.tokens, token), append(d.parents, node)
			}
			node = next
		}
	}
	return d
}
