package group

import (
	"slices"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// world is a cache under test beside a naive model of it, which is compared after every operation. It knows what is
// written in every block, so that nothing wrong is ever found.
//
// A text is the letter of a scope and the tokens, a byte each.
type world struct {
	t         require.TestingT
	c         *Cache
	pages     *block.BlockAllocator
	parts     []Part
	size      int // tokens of an entry
	every     int
	most      int // blocks that can go alone, cached, before others go
	minPrefix int
	now       time.Time
	tick      func() // called when the time is asked for
	sub       *prefix.Subscription
	announced map[prefix.Key]bool // stored, and not in known yet
	left      []*known            // by the last operation, in this order
	known     map[string]*known   // by text
	keys      map[prefix.Key]*known
	at        map[block.Block]spot
	refs      map[block.Block]int // owners, of blocks that have any
	old       []block.Block       // cached ones that can go alone
	cells     [][]cell            // by block number
	users     []*user
	leases    []*leased
	claim     block.Claim
	seen      map[string]int // how often what happened
}

// known is an entry.
type known struct {
	id   block.Block
	text string // up to its end
	with [][]block.Block
}

// spot is where a block is.
type spot struct {
	e       *known
	part, i int
}

// cell is what is written in a place of a block: the keys and values of the last token of a text, or the state after it.
type cell struct {
	part int
	text string
}

type leased struct {
	*prefix.Lease
	path   []*known
	blocks []block.Block
}

func newWorld(t require.TestingT, pages, entries int, cfg Config) *world {
	w := &world{
		t: t, parts: cfg.Parts, every: cfg.Every, most: pages * cfg.Share / 100, minPrefix: cfg.Tree.MinPrefix,
		now: time.Unix(1000, 0), announced: map[prefix.Key]bool{}, known: map[string]*known{}, keys: map[prefix.Key]*known{},
		at: map[block.Block]spot{}, refs: map[block.Block]int{}, cells: make([][]cell, pages),
		seen: map[string]int{}, tick: func() {},
	}
	for _, p := range cfg.Parts {
		w.size = max(w.size, p.Each*p.Block)
	}
	cfg.Entries, cfg.Tree.BlockSize, cfg.Tree.Now = entries, w.size, func() time.Time {
		w.tick()
		return w.now
	}
	var err error
	w.pages, err = block.New(pages)
	require.NoError(t, err)
	w.c, err = newRows(w.pages, cfg)
	require.NoError(t, err)
	w.sub, _ = w.c.Tree().Subscribe(10000)
	return w
}

func root(text string) prefix.Root {
	return prefix.Fingerprint{Group: prefix.AllLayers}.Root(prefix.Scope{Salt: []byte(text[:1])})
}

func query(text string) prefix.Query {
	tokens := make([]uint32, len(text)-1)
	for i := range tokens {
		tokens[i] = uint32(text[1+i])
	}
	return prefix.Query{Tokens: tokens}
}

// key is the last one of a text.
func (w *world) key(text string) prefix.Key {
	keys := root(text).Keys(nil, w.size, query(text))
	return keys[len(keys)-1]
}

// listen has the model follow what left the tree.
func (w *world) listen() {
	w.left = w.left[:0]
	for {
		select {
		case e := <-w.sub.C:
			for _, k := range e.Keys {
				switch {
				case e.Kind == prefix.Stored:
					w.announced[k] = true
				case e.Kind == prefix.Removed && w.announced[k]:
					delete(w.announced, k)
				case e.Kind == prefix.Removed:
					w.left = append(w.left, w.keys[k])
					w.forgotten(w.keys[k])
				}
			}
		default:
			return
		}
	}
}

// enter makes an entry known.
func (w *world) enter(id block.Block, text string) *known {
	e := &known{id: id, text: text}
	for _, p := range w.parts {
		e.with = append(e.with, make([]block.Block, p.Each))
	}
	k := w.key(text)
	require.True(w.t, w.announced[k], "%q is new", text)
	delete(w.announced, k)
	require.Nil(w.t, w.known[text])
	w.known[text], w.keys[k] = e, e
	return e
}

// forgotten is what happens to the blocks of an entry that left.
func (w *world) forgotten(e *known) {
	delete(w.known, e.text)
	delete(w.keys, w.key(e.text))
	for _, with := range e.with {
		for _, b := range with {
			if b != (block.Block{}) {
				w.detach(b)
			}
		}
	}
}

func (w *world) attach(e *known, part, i int, b block.Block) {
	e.with[part][i], w.at[b] = b, spot{e, part, i}
}

func (w *world) detach(b block.Block) {
	at := w.at[b]
	at.e.with[at.part][at.i] = block.Block{}
	delete(w.at, b)
	w.old = slices.DeleteFunc(w.old, func(o block.Block) bool { return o == b })
}

func (w *world) own(bs ...block.Block) {
	for _, b := range bs {
		w.refs[b]++
		w.old = slices.DeleteFunc(w.old, func(o block.Block) bool { return o == b })
	}
}

// disown is what a release does.
func (w *world) disown(bs []block.Block) {
	for i := len(bs) - 1; i >= 0; i-- {
		b := bs[i]
		if w.refs[b]--; w.refs[b] > 0 {
			continue
		}
		delete(w.refs, b)
		if at, ok := w.at[b]; ok && w.parts[at.part].Kind != Full {
			w.old = append(w.old, b)
		}
	}
}

func (w *world) release(bs []block.Block) {
	require.NoError(w.t, w.c.Release(bs))
	w.disown(bs)
}

// write changes a block, which nobody may see.
func (w *world) write(b block.Block, place, part int, text string) {
	require.NotContains(w.t, w.at, b, "written while it can be found")
	require.Equal(w.t, 1, w.refs[b], "written while it has other owners")
	w.cells[b.ID][place] = cell{part, text}
}
