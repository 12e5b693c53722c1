// Package below opens the tiers of a pool's configuration, and the way from its blocks to them.
package below

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/offload"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/disk"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
)

// Below is what a pool has below the device. The zero value is nothing.
type Below[B backend.Buffer] struct {
	Offload *offload.Offload[B] // nil: nothing
	Tiers   []tier.Tier         // fastest first
	Infos   []tier.Info         // of each: asked once, as it does not change
	Outlive bool                // one of them is found by the next process
	own     []tier.Tier         // those that Open opened
	answers []*answer           // of each
}

// Open opens what the configuration names, for the blocks of parts; guard is the pool's lock.
func Open[B backend.Buffer](be backend.Backend[B], guard sync.Locker, parts *store.Parts[B], cfg *config.Config, model prefix.Fingerprint) (b Below[B], err error) {
	t := &cfg.Tiers
	if !t.Any() {
		return b, nil
	}
	shape, err := offload.NewShape(parts, model.Key())
	if err != nil {
		return b, err
	}
	defer func() {
		if err != nil {
			_ = shape.Close()
			_ = b.Close()
		}
	}()
	if host := t.HostBytes; host != 0 {
		if err := HostTier(be.Info()); err != nil {
			return b, err
		}
		if host < 0 {
			var pool int64
			if be.Info().HostVisible {
				pool, _ = cfg.Bytes()
			}
			host = memory.DefaultBytes(pool)
		}
		if need := shape.Largest(); host < need {
			return b, backend.ErrConfig{Name: "Tiers.HostBytes", Value: strconv.FormatInt(host, 10), Why: fmt.Sprintf("has no room for a block, which takes %d bytes", need)}
		}
		m, err := memory.Open(memory.Options{Bytes: host})
		if err != nil {
			return b, err
		}
		b.own = append(b.own, m)
	}
	if d := &t.Disk; d.Dir != "" {
		if err := disk.Prepare(d.Dir); err != nil {
			return b, err
		}
		n := disk.Namespace{Fingerprint: shape.Name, About: map[string]string{
			"digest": fmt.Sprintf("%x", cfg.Model.Digest), "layers": fmt.Sprint(cfg.Model.Layers),
			"keys": cfg.Storage.K.String(), "values": cfg.Storage.V.String(), "block tokens": fmt.Sprint(cfg.EntryTokens()),
		}}
		on, err := disk.Open(disk.Options{Dir: disk.Path(d.Dir, n), Namespace: n, Payload: shape.Largest(), Bytes: d.Bytes, Floor: d.Floor,
			Admission: d.Admission, WriteBudget: d.WriteBudget, Durable: d.Durable, Secret: d.Secret, Network: d.Network})
		if err != nil {
			return b, err
		}
		b.own = append(b.own, on)
	}
	b.Tiers = append(append(b.Tiers, b.own...), t.More...)
	for _, tr := range b.Tiers {
		info := tr.Info()
		b.Infos, b.answers = append(b.Infos, info), append(b.answers, &answer{})
		b.Outlive = b.Outlive || info.Outlives
	}
	b.Offload, err = offload.New(be, guard, parts.Blocks, shape, b.Tiers)
	return b, err
}

// HostTier is why a device's pools have no tier of host memory, an ErrUnsupported; nil: they may have one.
func HostTier(device backend.Info) error {
	if device.HostVisible && device.Kernels == "" {
		return backend.ErrUnsupported{Package: "kvcache", Why: "the device's memory is the host's: blocks would be copied from it to itself; leave Tiers.HostBytes unset, and have more Memory.Blocks"}
	}
	return nil
}

// CloseWait is how long Close waits for what is on its way down, and then for its own tiers to close.
var CloseWait = 10 * time.Second

// Close lets go of everything. The pool's lock is not held. What calls of others look at without the lock stays as it is.
func (b *Below[B]) Close() (err error) {
	if o := b.Offload; o != nil {
		ctx, cancel := context.WithTimeout(context.Background(), CloseWait)
		defer cancel()
		_ = o.Flush(ctx) // a tier that hangs does not hang the program
		err = o.Close()
	}
	return errors.Join(err, closeAll(b.own))
}
