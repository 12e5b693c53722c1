package store

import (
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

// Stores are those of a part of a pool's layers: of all of them, but in a pool with groups. Most have one. With
// Storage.Residual there are two: steps write to that
// of the last tokens, in the activation type, from which full blocks are quantized into the other as they
// leave the window. The two number a sequence's tokens alike, and attention merges what both give.
type Stores[B backend.Buffer] struct {
	BE      backend.Backend[B]
	Config  config.Config
	Kept    *Store[B]  // where tokens stay, and prefixes are found
	Fresh   *Store[B]  // where steps write: the same, but with Storage.Residual
	Number  int        // of the part
	Model   []int      // the layers of the model that it has
	Rule    group.Rule // what the part's layers read
	States  *States[B] // nil: they have keys and values
	Fences  *residency.Fences
	RoPE    backend.RotaryTable[B]
	scoring sync.Mutex // see LockScores
	owned   []B        // every buffer of the pool
}

// newStores allocates the stores of a part, and fills them on a stream: what lies in lanes is there already.
func newStores[B backend.Buffer](be backend.Backend[B], stream backend.Stream, part *config.Part, fences *residency.Fences, in *lanes[B]) (*Stores[B], error) {
	p := &Stores[B]{BE: be, Config: part.Config, Rule: part.Rule, Kept: &Store[B]{}, Fences: fences}
	p.Fresh = p.Kept
	if p.Config.Storage.Residual > 0 {
		p.Fresh = &Store[B]{}
	}
	if err := p.allocate(stream, part, in); err != nil {
		p.free()
		return nil, err
	}
	return p, nil
}

// allocate makes the buffers. What was made before a failure is in p.owned.
func (p *Stores[B]) allocate(stream backend.Stream, part *config.Part, in *lanes[B]) error {
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
	if p.Windowed() {
		if err = p.Fresh.make(m, c.Recent(), masks); err != nil {
			return err
		}
		p.split()
	}
	p.RoPE, err = m.rope(c)
	return err
}

// split makes attention to the kept store that to older tokens, and attention to the fresh one that
// to recent ones, which a sink logit counts with, once. One turn of the queries is for both.
func (p *Stores[B]) split() {
	for l := range p.Fresh.Layers {
		older, recent := &p.Kept.Layers[l].Mask, &p.Fresh.Layers[l].Mask
		older.Part, older.Residual, older.SinkLogits = backend.OlderKeys, p.Config.Storage.Residual, backend.Opt[B]{}
		recent.Part, recent.Residual = backend.ResidualKeys, p.Config.Storage.Residual
		p.Fresh.Layers[l].View.K.Hadamard = p.Kept.Layers[l].View.K.Hadamard
	}
}

// settleFresh makes the residency of the store of last tokens.
func (p *Stores[B]) settleFresh() (err error) {
	if p.Windowed() {
		p.Fresh.Blocks, err = residency.New(p.Fences, p.Config.Recent().Memory.Blocks, nil, nil)
	}
	return err
}

// MostTokens is the most tokens that a sequence has in the part, those of a step of so many included.
func (p *Stores[B]) MostTokens(step int) int {
	r, most := &p.Rule, p.Config.Memory.Capacity
	switch r.Kind {
	case group.Window:
		return min((r.SinkBlocks()+1)*r.Block+r.Window-1+r.Back+step, most)
	case group.Chunked:
		return min(r.Chunk+r.Back+r.Block+step, most)
	}
	return most
}

// Windowed reports whether sequences lie in two stores.
func (p *Stores[B]) Windowed() bool { return p.Kept != p.Fresh }

// LockScores is held while scores are added to, moved or read. Sequences that share blocks have the
// same ones: on the host, where an operation is done when it returns, one is done after another. Where nothing
// keeps scores it does nothing.
func (p *Stores[B]) LockScores() {
	if p.Config.Attention.Scores {
		p.scoring.Lock()
	}
}

// UnlockScores ends LockScores.
func (p *Stores[B]) UnlockScores() {
	if p.Config.Attention.Scores {
		p.scoring.Unlock()
	}
}

// closeBlocks gives up the blocks. The device is done with them.
func (p *Stores[B]) closeBlocks() {
	p.Kept.Close()
	p.Fresh.Close() // where it is the same, once more is nothing
}

func (p *Stores[B]) free() {
	for _, b := range p.owned {
		_ = p.BE.Free(b) // the buffer is ours and live: a failure means the device is gone
	}
	p.owned = nil
}
