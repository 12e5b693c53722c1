// Package ferrumkv is the key-value cache of LLM inference, opened with one call: a device, a pool of blocks on it, and
// the steps of a model runner whose queries, keys and values are slices of float32.
//
//	kv, err := ferrumkv.Open("", kvcache.Config{Model: kvcache.Model{Layers: 32, QHeads: 32, KVHeads: 8, HeadDim: 128}})
//	step, err := kv.NewStep()
//	seq, match, err := kv.Pool.Open(prompt, kvcache.OpenOptions{})
//	err = step.Add(seq, prompt[match.Cached:]) // then Plan
//	err = step.Attend(layer, ferrumkv.Rows{Q: q, K: k, V: v, Out: out}) // in each layer, then Commit
//
// It is a short way into packages kvcache and backend and hides nothing of them: Cache.Device, Cache.Pool and Step.Batch
// are theirs. A runner with rows in device memory of its own, in other types than float32, or with fewer devices in its
// program, uses those packages by themselves. Importing this one takes in every device (backend/all).
package ferrumkv

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	_ "github.com/ferrumkv/ferrumkv/backend/all" // every device that the platform can have
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// Sequence is one growing list of tokens in a cache, from Cache.Pool.Open to its Release.
type Sequence = kvcache.Sequence[backend.AnyBuffer]

// Cache is an open device with a pool on it. It is safe for concurrent use; a Step is used by one goroutine at a time.
type Cache struct {
	Device backend.Backend[backend.AnyBuffer]
	Pool   *kvcache.Pool[backend.AnyBuffer]

	config kvcache.Config // of the pool, filled in
	host   bool           // the device computes on slices where they lie
}

// Open opens a device by its name, "cpu", "cuda:0" or "metal:0", or the best there is where the name is empty, and makes
// the pool that cfg describes. The activation type is F32: Model.Act is that, or unset. Errors are those of
// backend.Open and kvcache.NewPool.
func Open(device string, cfg kvcache.Config) (*Cache, error) {
	if cfg.Model.Act == backend.Invalid {
		cfg.Model.Act = backend.F32
	}
	if cfg.Model.Act != backend.F32 {
		return nil, kvcache.ErrConfig{Package: "ferrumkv", Name: "Model.Act", Value: cfg.Model.Act.String(), Why: "must be f32, the type of Rows; use kvcache.NewPool for others"}
	}
	open := func() (backend.Backend[backend.AnyBuffer], error) { return backend.Open(device) }
	if device == "" {
		open = backend.Default
	}
	be, err := open()
	if err != nil {
		return nil, err
	}
	pool, err := kvcache.NewPool(be, cfg)
	if err != nil {
		return nil, errors.Join(err, be.Close())
	}
	c := &Cache{Device: be, Pool: pool, config: pool.Config()}
	if b, err := be.Import(backend.HostHandle(make([]float32, 4)), backend.F32, 4); err == nil {
		c.host = be.Free(b) == nil
	}
	return c, nil
}

// NewStep returns an empty step with a stream of its own. A program makes one and uses it again for every step, or one
// for each goroutine that runs steps.
func (c *Cache) NewStep() (*Step, error) {
	if c.Device == nil {
		return nil, fmt.Errorf("ferrumkv: Cache.NewStep: %w", backend.ErrClosed)
	}
	stream, err := c.Device.NewStream()
	if err != nil {
		return nil, fmt.Errorf("ferrumkv: Cache.NewStep: %w", err)
	}
	return &Step{Batch: c.Pool.NewBatch(), Stream: stream, cache: c}, nil
}

// Close closes the pool and the device, and waits for their work. Sequences and steps become unusable: their calls, also
// those that other goroutines are in, return backend.ErrClosed.
func (c *Cache) Close() error {
	if c.Device == nil {
		return fmt.Errorf("ferrumkv: Cache.Close: %w", backend.ErrClosed)
	}
	err := c.Pool.Close()
	if errors.Is(err, backend.ErrClosed) { // by the program
		err = nil
	}
	return errors.Join(err, c.Device.Close())
}

// naming is an error of a call of this package, without the name of the call of package kvcache that it made.
func naming(call string, err error) error {
	if err == nil {
		return nil
	}
	if cause := errors.Unwrap(err); cause != nil {
		err = cause
	}
	return fmt.Errorf("ferrumkv: %s: %w", call, err)
}
