package store

import (
	"errors"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
)

// carrier moves the pieces of all stores to host memory and back, on a stream of its own.
type carrier[B backend.Buffer] struct {
	using  sync.Mutex // the stream, without the pool's lock
	stream backend.Stream
	pieces map[*Store[B]]*Pieces
}

// carry is the pool's carrier, made at the first use. The pool's lock is held.
func (p *Parts[B]) carry() (_ *carrier[B], err error) {
	if p.carrier != nil {
		return p.carrier, nil
	}
	c := &carrier[B]{pieces: map[*Store[B]]*Pieces{}}
	defer func() {
		if err != nil {
			_ = c.close()
		}
	}()
	if c.stream, err = p.BE.NewStream(); err != nil {
		return nil, err
	}
	for _, st := range p.All {
		for _, of := range st.Stores {
			pieces, err := st.Pieces(of)
			if err != nil {
				return nil, err
			}
			c.pieces[of] = pieces
		}
	}
	p.carrier = c
	return c, nil
}

func (c *carrier[B]) close() (err error) {
	for _, p := range c.pieces {
		err = errors.Join(err, p.Close())
	}
	if c.stream != nil {
		err = errors.Join(err, c.stream.Close())
	}
	return err
}

// move is pieces with their numbers, on their way to host memory or from there.
type move struct {
	of      *Pieces
	numbers []uint32
}

func (m *move) bytes() int64 { return int64(len(m.numbers)) * int64(m.of.Bytes) }

// move packs or unpacks one after another, and waits for it. The pool's lock is not held.
func (c *carrier[B]) move(all []move, memory backend.HostMemory, copy func(backend.BlockSet, backend.Stream, []uint32, backend.HostMemory, int64) error) error {
	c.using.Lock()
	defer c.using.Unlock()
	at := int64(0)
	for _, m := range all {
		if len(m.numbers) == 0 {
			continue
		}
		if err := copy(m.of.Set, c.stream, m.numbers, memory, at); err != nil {
			return errors.Join(err, c.stream.Sync()) // part of it may be on its way
		}
		at += m.bytes()
	}
	return c.stream.Sync()
}
