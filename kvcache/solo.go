package kvcache

import (
	"errors"

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
	seq, _, err := pool.Open(nil, OpenOptions{})
	if err != nil {
		return solo[B]{}, both(err, pool.Close())
	}
	return solo[B]{seq: seq, step: pool.NewBatch()}, nil
}

// run does one step of n tokens: it appends rows, or else attends.
func (c *solo[B]) run(s backend.Stream, n int, write bool, io *LayerIO[B]) error {
	b := c.step
	c.queries = 0
	err := b.Reset()
	if err == nil {
		err = b.add(c.seq, addition{n: n, again: !write})
	}
	if err == nil {
		err = b.Plan(s)
	}
	if err == nil {
		if write {
			err = b.Append(0, *io)
		} else {
			err = b.attend(0, io)
		}
	}
	if err == nil {
		err = b.Commit()
	}
	if err == nil && c.seq.pool.parts.All[0].Residual() {
		_, err = c.seq.Layers(s) // brings the tables to the device
	}
	if err != nil {
		return both(err, b.Reset())
	}
	c.queries = n
	return nil
}

// planned reports whether the last step's plan serves n queries on a stream.
func (c *solo[B]) planned(s backend.Stream, n int) bool {
	return c.queries == n && c.step.step.Stream == s
}

// again attends with the plan of the last step, after its commit.
func (c *solo[B]) again(s backend.Stream, io *LayerIO[B]) error {
	p := c.seq.pool
	if err := c.step.attend(0, io); err != nil {
		return err
	}
	if err := c.step.step.Leave(); err != nil { // with scores that came after the commit
		return p.observe(err)
	}
	p.lock()
	defer p.unlock()
	if err := c.seq.runs.FenceAfter(s); err != nil {
		return err
	}
	c.step.step.Used(c.seq.runs.In[0].Fence)
	return nil
}

// grown is a contiguous one of another capacity with the same tokens.
func (c *solo[B]) grown(s backend.Stream, capacity int) (solo[B], error) {
	cfg := c.seq.pool.cfg
	cfg.Memory.Capacity = capacity
	next, err := openSolo(c.seq.pool.parts.BE, cfg)
	if err != nil || c.seq.Len() == 0 {
		return next, err
	}
	if err := next.adopt(s, c.seq); err != nil {
		return solo[B]{}, both(err, next.seq.pool.Close())
	}
	return next, nil
}

// adopt copies the tokens of a sequence of another contiguous pool into this empty one.
func (c *solo[B]) adopt(s backend.Stream, from *Sequence[B]) error {
	seq, p := c.seq, c.seq.pool
	p.lock()
	defer p.unlock()
	if err := from.runs.Order(s); err != nil {
		return err
	}
	run := &seq.runs.In[0]
	blocks, err := run.Take(nil, 1)
	if err != nil {
		return err
	}
	run.Reuse(blocks, 0, from.Len()) // where the copy fails the caller closes the pool
	if err := copyTokens(s, p, from); err != nil {
		return err
	}
	seq.text.Positions = from.text.Positions.Clone()
	return seq.runs.Touched(s)
}

// copyTokens copies the tokens of a sequence from its pool's only block into this pool's.
func copyTokens[B backend.Buffer](s backend.Stream, p *Pool[B], of *Sequence[B]) error {
	to, from := &p.parts.All[0].Kept.Layers[0], &of.pool.parts.All[0].Kept.Layers[0]
	rows := func(dst, src B, first, width int) error { // of width elements, of each head, from element first on
		for h := range p.cfg.Model.KVHeads {
			if err := p.parts.BE.Copy(s, dst, first+h*p.cfg.BlockTokens()*width, src, first+h*of.pool.cfg.BlockTokens()*width, of.Len()*width); err != nil {
				return err
			}
		}
		return nil
	}
	for i, plane := range [...]struct{ dst, src backend.Plane[B] }{{to.View.K, from.View.K}, {to.View.V, from.View.V}} {
		if i > 0 && to.View.Latent {
			break // values are in the keys
		}
		if err := rows(plane.dst.Data, plane.src.Data, 0, plane.dst.Dim); err != nil {
			return err
		}
		dt := plane.dst.Data.DType()
		if words := dt.ScaleWords(plane.dst.Dim); words > 0 { // 0: there are none, or those of heads
			if err := rows(plane.dst.Scales.Buf, plane.src.Scales.Buf, dt.HeadWords(p.cfg.Model.KVHeads), words); err != nil {
				return err
			}
		}
	}
	if to.Scores.Set {
		return rows(to.Scores.Buf, from.Scores.Buf, 0, 1)
	}
	return nil
}

// both is an error, and that of giving back what it leaves.
func both(err, other error) error {
	if other == nil {
		return err
	}
	return errors.Join(err, other)
}
