package store

import (
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

// Part is layers that keep the same of a sequence and have one list of blocks for each, as a config.Part says, and the stores that these
// blocks lie in. Most have one store. With Storage.Residual there are two: steps write to the last, which has the last tokens in the
// activation type; full blocks are quantized into the one before as they leave the window. All stores number a sequence's tokens alike,
// and attention merges what they give.
type Part[B backend.Buffer] struct {
	BE      backend.Backend[B]
	Config  config.Config
	Stores  []*Store[B] // from the one where tokens stay to the one that steps write to
	Kept    *Store[B]   // the first, where prefixes are found
	Written *Store[B]   // the last
	number  int         // of the part
	Model   []int       // the layers of the model that it has
	Rule    group.Rule  // what the part's layers read
	States  *States[B]  // nil: they have keys and values
	content content[B]
	tokens  int // that a block has room for
	sinks   int // see SinkBlocks
	most    int // blocks that a sequence has in the store that steps write to while it grows token by token
	Fences  *residency.Fences
	RoPE    backend.RotaryTable[B]
	scoring sync.Mutex // see LockScores
	owned   []B        // every buffer of the pool
}

// newStores allocates the stores of a part, and fills them on a stream: what lies in lanes is there already.
func newStores[B backend.Buffer](be backend.Backend[B], stream backend.Stream, part *config.Part, fences *residency.Fences, in *lanes[B]) (*Part[B], error) {
	p := &Part[B]{BE: be, Config: part.Config, Rule: part.Rule, Fences: fences}
	p.content, p.tokens, p.sinks = rows[B]{p}, p.Config.BlockTokens(), p.Rule.SinkBlocks()
	p.most = p.BlocksOf(p.Config.Memory.Capacity)
	p.have(1)
	if p.Config.Storage.Residual > 0 {
		p.have(2)
		p.most = p.Config.WindowBlocks()
	}
	if err := p.allocate(stream, part, in); err != nil {
		p.free()
		return nil, err
	}
	return p, nil
}

// MostStores is the most stores of a part.
const MostStores = 2

// have gives the part empty stores.
func (p *Part[B]) have(n int) {
	all := make([]Store[B], n)
	p.Stores = make([]*Store[B], n)
	for i := range all {
		p.Stores[i] = &all[i]
	}
	p.Kept, p.Written = p.Stores[0], p.Stores[n-1]
}

// Sealed are the stores before the last one: blocks come into them from the next.
func (p *Part[B]) Sealed() []*Store[B] { return p.Stores[:len(p.Stores)-1] }

// Residual reports whether the last tokens are read as they were computed, and those before as they are stored in few bits.
func (p *Part[B]) Residual() bool { return len(p.Stores) > 1 }

// allocate makes the buffers. What was made before a failure is in p.owned.
func (p *Part[B]) allocate(stream backend.Stream, part *config.Part, in *lanes[B]) error {
	c := &p.Config
	m := memory[B]{p.BE, stream, &p.owned}
	masks, err := m.masks(c)
	if err != nil {
		return err
	}
	if in != nil {
		err = p.Kept.place(in, part, masks)
	} else {
		err = p.Kept.make(m, *c, masks)
	}
	if err != nil {
		return err
	}
	for _, st := range p.Stores[1:] {
		if err = st.make(m, c.Recent(), masks); err != nil {
			return err
		}
		p.split(st)
	}
	p.RoPE, err = m.rope(c)
	return err
}

// split makes attention to the kept store that to older tokens, and attention to another one that
// to recent ones, which a sink logit counts with, once. One turn of the queries is for both.
func (p *Part[B]) split(st *Store[B]) {
	for l := range st.Layers {
		older, recent := &p.Kept.Layers[l].Mask, &st.Layers[l].Mask
		older.Part, older.Residual, older.SinkLogits = backend.OlderKeys, p.Config.Storage.Residual, backend.Opt[B]{}
		recent.Part, recent.Residual = backend.ResidualKeys, p.Config.Storage.Residual
		st.Layers[l].View.K.Hadamard = p.Kept.Layers[l].View.K.Hadamard
	}
}

// settleLast makes the residency of the other stores, whose blocks nobody else has.
func (p *Part[B]) settleLast() (err error) {
	for _, st := range p.Stores[1:] {
		if st.Blocks, err = residency.New(p.Fences, p.Config.Recent().Memory.Blocks, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// Rotates reports whether the library turns keys and queries: there is a table of the rotary embedding.
func (p *Part[B]) Rotates() bool { return p.RoPE.Table.Set }

// BlocksOf is the number of blocks of n tokens, of which none are cut out.
func (p *Part[B]) BlocksOf(n int) int { return (max(n, 0) + p.tokens - 1) / p.tokens }

// Open is the place, in a run of n tokens, of the block that the next token goes into; −1: it has no such block yet.
func (p *Part[B]) Open(n int) int {
	if at := n / p.tokens; at*p.tokens < n {
		return at
	}
	return -1
}

// Pieces returns those of a store of the part. They are closed before the part is.
func (p *Part[B]) Pieces(of *Store[B]) (*Pieces, error) { return p.content.pieces(of) }

// SinkBlocks is the number of first blocks that every query reads: group.Rule.SinkBlocks.
func (p *Part[B]) SinkBlocks() int { return p.sinks }

// LockScores is held while scores are added to, moved or read. Sequences that share blocks have the
// same ones: on the host, where an operation is done when it returns, one is done after another. Where nothing
// keeps scores it does nothing.
func (p *Part[B]) LockScores() {
	if p.Config.Attention.Scores {
		p.scoring.Lock()
	}
}

// UnlockScores ends LockScores.
func (p *Part[B]) UnlockScores() {
	if p.Config.Attention.Scores {
		p.scoring.Unlock()
	}
}

// closeBlocks gives up the blocks. The device is done with them.
func (p *Part[B]) closeBlocks() {
	for _, st := range p.Stores {
		st.Close()
	}
}

func (p *Part[B]) free() {
	for _, b := range p.owned {
		_ = p.BE.Free(b) // the buffer is ours and live: a failure means the device is gone
	}
	p.owned = nil
}
