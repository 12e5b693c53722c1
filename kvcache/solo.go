package kvcache

import (
	"context"
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// solo is a pool of one layer and one sequence, and the steps of that sequence.
type solo[B backend.Buffer] struct {
	seq     *Sequence[B]
	step    *Batch[B]
	queries int // of the last step, whose plan is still that of the sequence; 0: none
}

func openSolo[B backend.Buffer](be backend.Backend[B], cfg Config) (solo[B], error) {
	pool, err := NewPool(be, cfg)
	if err != nil {
		return solo[B]{}, err
	}
	seq, _, err := pool.Open(context.Background(), nil)
	if err != nil {
		return solo[B]{}, errors.Join(err, pool.Close())
	}
	return solo[B]{seq: seq, step: pool.NewBatch()}, nil
}

// run does one step of n tokens.
func (c *solo[B]) run(s backend.Stream, n int, write bool, enqueue func(*Batch[B]) error) error {
	b := c.step
	c.queries = 0
	err := b.Reset()
	if err == nil {
		err = b.add(c.seq, nil, n, write)
	}
	if err == nil {
		err = b.Plan(s)
	}
	if err == nil {
		err = enqueue(b)
	}
	if err == nil {
		err = b.Commit()
	}
	if err != nil {
		return errors.Join(err, b.Reset())
	}
	c.queries = n
	return nil
}

// planned reports whether the last step's plan serves n queries on a stream.
func (c *solo[B]) planned(s backend.Stream, n int) bool {
	return c.queries == n && c.step.stream == s
}

// again enqueues work of the last step behind its commit.
func (c *solo[B]) again(s backend.Stream, enqueue func(*Batch[B]) error) error {
	if err := enqueue(c.step); err != nil {
		return err
	}
	p := c.seq.pool
	p.lock()
	defer p.unlock()
	if err := c.seq.fenceBehind(s); err != nil {
		return err
	}
	c.step.used(c.seq.fence)
	return nil
}

// grown is a contiguous one of another capacity with the same tokens.
func (c *solo[B]) grown(s backend.Stream, capacity int) (solo[B], error) {
	cfg := c.seq.pool.cfg
	cfg.Capacity = capacity
	next, err := openSolo(c.seq.pool.be, cfg)
	if err != nil || c.seq.len == 0 {
		return next, err
	}
	if err := next.adopt(s, c.seq); err != nil {
		return solo[B]{}, errors.Join(err, next.seq.pool.Close())
	}
	return next, nil
}

// adopt copies the tokens of a sequence of another contiguous pool into this empty one.
func (c *solo[B]) adopt(s backend.Stream, from *Sequence[B]) error {
	seq, p := c.seq, c.seq.pool
	p.lock()
	defer p.unlock()
	if err := from.fence.Order(s); err != nil {
		return err
	}
	blocks, err := seq.take(seq.kept.blocks, 1)
	if err != nil {
		return err
	}
	seq.kept.blocks = blocks
	p.kept.logical++
	if err := copyTokens(s, p, from); err != nil {
		return fmt.Errorf("kvcache: grow: %w", err)
	}
	seq.len, seq.places = from.len, from.places.clone()
	return seq.touched(s)
}

// copyTokens copies the tokens of a sequence from its pool's only block into this pool's.
func copyTokens[B backend.Buffer](s backend.Stream, p *Pool[B], of *Sequence[B]) error {
	to, from := &p.kept.layers[0], &of.pool.kept.layers[0]
	rows := func(dst, src B, width int) error { // of width elements, of each head
		for h := range p.cfg.KVHeads {
			if err := p.be.Copy(s, dst, h*p.cfg.slots()*width, src, h*of.pool.cfg.slots()*width, of.len*width); err != nil {
				return err
			}
		}
		return nil
	}
	for _, plane := range [...]struct{ dst, src backend.Plane[B] }{{to.view.K, from.view.K}, {to.view.V, from.view.V}} {
		if err := rows(plane.dst.Data, plane.src.Data, plane.dst.Dim); err != nil {
			return err
		}
		if groups := plane.dst.Data.DType().ScaleWords(plane.dst.Dim); groups > 0 { // 0: there are none, or those of heads
			if err := rows(plane.dst.Scales.Buf, plane.src.Scales.Buf, groups); err != nil {
				return err
			}
		}
	}
	if to.scores.Set {
		return rows(to.scores.Buf, from.scores.Buf, 1)
	}
	return nil
}
