package kvcache

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/offload"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/disk"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
)

// below is what a pool has below the device.
type below[B backend.Buffer] struct {
	offload *offload.Offload[B] // nil: nothing
	tiers   []tier.Tier         // fastest first
	own     []tier.Tier         // those that the pool opened
	outlive bool                // one of them is found by the next process
}

// openTiers opens the tiers of the configuration and the way to them.
func (p *Pool[B]) openTiers(be backend.Backend[B]) (err error) {
	t := &p.cfg.Tiers
	if !t.Any() {
		return nil
	}
	shape, err := offload.NewShape(p.parts, p.model.Key())
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			if p.below.offload == nil {
				_ = shape.Close()
			}
			_ = p.below.close()
		}
	}()
	if host := t.HostBytes; host != 0 {
		if err := HostTier(be.Info()); err != nil {
			return err
		}
		if host < 0 {
			var pool int64
			if be.Info().HostVisible {
				pool, _ = p.cfg.Bytes()
			}
			host = memory.DefaultBytes(pool)
		}
		if need := shape.Largest(); host < need {
			return ErrConfig{Name: "Tiers.HostBytes", Value: strconv.FormatInt(host, 10), Why: fmt.Sprintf("has no room for a block, which takes %d bytes", need)}
		}
		m, err := memory.Open(memory.Options{Bytes: host})
		if err != nil {
			return err
		}
		p.below.own = append(p.below.own, m)
	}
	if d := &t.Disk; d.Dir != "" {
		if err := disk.Prepare(d.Dir); err != nil {
			return err
		}
		n := disk.Namespace{Fingerprint: shape.Name, About: map[string]string{
			"digest": fmt.Sprintf("%x", p.cfg.Model.Digest), "layers": fmt.Sprint(p.cfg.Model.Layers),
			"keys": p.cfg.Storage.K.String(), "values": p.cfg.Storage.V.String(), "block tokens": fmt.Sprint(p.cfg.EntryTokens()),
		}}
		on, err := disk.Open(disk.Options{Dir: disk.Path(d.Dir, n), Namespace: n, Payload: shape.Largest(), Bytes: d.Bytes, Floor: d.Floor,
			Admission: d.Admission, WriteBudget: d.WriteBudget, Durable: d.Durable, Secret: d.Secret, Network: d.Network})
		if err != nil {
			return err
		}
		p.below.own = append(p.below.own, on)
	}
	p.below.tiers = append(append(p.below.tiers, p.below.own...), t.More...)
	for _, tr := range p.below.tiers {
		p.below.outlive = p.below.outlive || tr.Info().Outlives
	}
	p.below.offload, err = offload.New(be, &p.mu, p.parts.Blocks, shape, p.below.tiers)
	return err
}

// HostTier is why a device's pools have no tier of host memory, an ErrUnsupported; nil: they may have one.
func HostTier(device backend.Info) error {
	if device.HostVisible && device.Kernels == "" {
		return unsupported("the device's memory is the host's: blocks would be copied from it to itself; leave Tiers.HostBytes unset, and have more Memory.Blocks")
	}
	return nil
}

// checkScope is ErrConfig where blocks of a scope would be taken for those of other weights by the next process.
func (p *Pool[B]) checkScope(s prefix.Scope) error {
	if !p.below.outlive {
		return nil
	}
	if err := s.Persistable(); err != nil {
		return ErrConfig{Name: "Adapter.Version", Value: "", Why: err.(prefix.ErrArgument).Why}
	}
	return nil
}

// closeWait is how long Close waits for what is on its way down.
const closeWait = 10 * time.Second

// close lets go of everything. The pool's lock is not held. What calls of others look at without the lock stays as it is.
func (b *below[B]) close() (err error) {
	if o := b.offload; o != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeWait)
		defer cancel()
		_ = o.Flush(ctx) // a tier that hangs does not hang the program
		err = o.Close()
	}
	for _, t := range b.own {
		err = errors.Join(err, t.Close())
	}
	return err
}

// Prefilled tells the pool what the runner computed: so many tokens of a prompt after a context of others, and how long that took.
// By that the pool knows when loading is faster: until it is told, it loads whatever tiers have. With steps of several prompts it is told the
// part of each.
func (p *Pool[B]) Prefilled(context, tokens int, took time.Duration) {
	if o := p.below.offload; o != nil {
		o.Planner().Prefilled(context, tokens, took)
	}
}

// Flush waits until the blocks that are written by now are in tiers, or ctx ends. Close waits a while for that by itself.
func (p *Pool[B]) Flush(ctx context.Context) (err error) {
	defer naming("Pool.Flush", &err)
	if err := p.shut(); err != nil {
		return err
	}
	if p.below.offload == nil {
		return nil
	}
	return p.below.offload.Flush(ctx)
}
