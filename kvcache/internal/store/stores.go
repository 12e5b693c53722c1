package store

import (
	"cmp"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Stores are those of a pool. Most pools have one. One with Storage.Residual has two: steps write to that
// of the last tokens, in the activation type, from which full blocks are quantized into the other as they
// leave the window. The two number a sequence's tokens alike, and attention merges what both give.
type Stores[B backend.Buffer] struct {
	BE      backend.Backend[B]
	Config  config.Config
	Kept    *Store[B] // where tokens stay, and prefixes are found
	Fresh   *Store[B] // where steps write: the same, but with Storage.Residual
	Fences  residency.Fences
	RoPE    backend.RotaryTable[B]
	scoring sync.Mutex // see LockScores
	owned   []B        // every buffer of the pool
}

// New allocates the stores of a configuration that is filled in. undefined is told of published blocks
// that a device failed to write. With an error nothing is left allocated.
func New[B backend.Buffer](be backend.Backend[B], cfg config.Config, undefined func(block.Block, error)) (*Stores[B], error) {
	p := &Stores[B]{BE: be, Config: cfg, Kept: &Store[B]{}}
	p.Fresh = p.Kept
	if cfg.Storage.Residual > 0 {
		p.Fresh = &Store[B]{}
	}
	err := p.allocate()
	if err == nil { // not before: the device says whether so many blocks are reasonable
		err = p.settleIn(undefined)
	}
	if err != nil {
		p.free()
		return nil, err
	}
	return p, nil
}

// allocate makes the buffers. What was made before a failure is in p.owned.
func (p *Stores[B]) allocate() error {
	c := &p.Config
	stream, err := p.BE.NewStream()
	if err != nil {
		return err
	}
	defer stream.Close()
	m := memory[B]{p.BE, stream, &p.owned}
	masks, err := m.masks(c)
	if err != nil {
		return err
	}
	if err = p.Kept.make(m, *c, masks); err != nil {
		return err
	}
	if p.Windowed() {
		if err = p.Fresh.make(m, c.Recent(), masks); err != nil {
			return err
		}
		p.split()
	}
	if p.RoPE, err = m.rope(c); err != nil {
		return err
	}
	return stream.Sync()
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

// settleIn makes the residency of the stores' blocks.
func (p *Stores[B]) settleIn(undefined func(block.Block, error)) (err error) {
	var tree *prefix.Config
	if p.Config.Memory.Prefix != prefix.Off {
		tree = &prefix.Config{BlockSize: p.Config.Memory.BlockSize, Policy: p.Config.Memory.Prefix}
	}
	if p.Kept.Blocks, err = residency.New(&p.Fences, p.Config.Memory.Blocks, tree, undefined); err != nil {
		return err
	}
	if p.Windowed() {
		p.Fresh.Blocks, err = residency.New(&p.Fences, p.Config.Recent().Memory.Blocks, nil, nil)
	}
	return err
}

// Windowed reports whether sequences lie in two stores.
func (p *Stores[B]) Windowed() bool { return p.Kept != p.Fresh }

// Buffers is how many buffers the pool owns.
func (p *Stores[B]) Buffers() int { return len(p.owned) }

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

// Reclaim gives up what the device has finished with.
func (p *Stores[B]) Reclaim() error {
	err := p.Kept.Reclaim()
	if p.Windowed() {
		err = cmp.Or(err, p.Fresh.Reclaim())
	}
	return err
}

// Close waits for the device and frees everything.
func (p *Stores[B]) Close() error {
	p.Kept.Close()
	p.Fresh.Close() // where it is the same, once more is nothing
	err := p.Fences.Close()
	p.free()
	return err
}

func (p *Stores[B]) free() {
	for _, b := range p.owned {
		_ = p.BE.Free(b) // the buffer is ours and live: a failure means the device is gone
	}
	p.owned = nil
}
