// Package below opens the tiers of a pool's configuration, and the way from its blocks to them.
package below

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/journal"
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
	Infos   []tier.Info         // of each: asked once, because it does not change
	outlive bool                // one of them is found by the next process
	Ignored []config.Ignored    // variables whose tiers could not be opened
	own     []tier.Tier         // those that Open opened
	chosen  *chosen             // the disk, if a variable set it and nothing else outlives the process
	answers []*answer           // of each
	log     *slog.Logger
}

// Open opens the tiers of the configuration, for the blocks of parts; guard is the pool's lock, and log never waits (journal.Async). One that cannot be opened is an error if the
// program set it, and left out if a variable did.
func Open[B backend.Buffer](be backend.Backend[B], guard sync.Locker, parts *store.Parts[B], cfg *config.Config, model prefix.Fingerprint, log *slog.Logger) (Below[B], error) {
	if !cfg.Tiers.Any() {
		return Below[B]{}, nil
	}
	from := variables(cfg)
	b, err := open(be, guard, parts, cfg, model, from, log)
	if err == nil || len(cfg.Tiers.More) > 0 || cfg.Tiers.HostBytes != 0 && from[config.EnvHostBytes] == "" || cfg.Tiers.Disk.Dir != "" && from[config.EnvDiskDir] == "" {
		return b, err
	}
	b = Below[B]{}
	for _, variable := range []string{config.EnvHostBytes, config.EnvDiskDir} {
		b.ignore(from, variable, err)
	}
	return b, nil
}

// variables are the values of those that set tiers.
func variables(cfg *config.Config) map[string]string {
	from := map[string]string{}
	for _, s := range cfg.Settings() {
		if s.Source == config.FromEnvironment && (s.Variable == config.EnvHostBytes || s.Variable == config.EnvDiskDir) {
			from[s.Variable] = s.Value
		}
	}
	return from
}

// ignore leaves out the tier of a variable; false: it is the program's.
func (b *Below[B]) ignore(from map[string]string, variable string, why error) bool {
	value, is := from[variable]
	if is {
		b.Ignored = append(b.Ignored, config.Ignored{Variable: variable, Value: value, Why: why.Error()})
	}
	return is
}

func open[B backend.Buffer](be backend.Backend[B], guard sync.Locker, parts *store.Parts[B], cfg *config.Config, model prefix.Fingerprint, from map[string]string, log *slog.Logger) (b Below[B], err error) {
	t := &cfg.Tiers
	shape, err := offload.NewShape(parts, model.Key())
	if err != nil {
		return b, err
	}
	defer func() {
		if err != nil || b.Offload == nil {
			_ = shape.Close()
			_ = b.Close()
		}
	}()
	if t.HostBytes != 0 {
		if m, err := openHost(be, cfg, shape.Largest(), log); err == nil {
			b.own = append(b.own, m)
		} else if !b.ignore(from, config.EnvHostBytes, err) {
			return b, err
		}
	}
	if t.Disk.Dir != "" {
		on, err := openDisk(cfg, shape.Name, shape.Largest(), log)
		if err != nil && !b.ignore(from, config.EnvDiskDir, err) {
			return b, err
		}
		if err == nil && from[config.EnvDiskDir] != "" && !slices.ContainsFunc(t.More, func(m tier.Tier) bool { return m.Info().Outlives }) {
			b.chosen = &chosen{Tier: on}
			on = b.chosen
		}
		if err == nil {
			b.own = append(b.own, on)
		}
	}
	b.Tiers = append(b.Tiers, b.own...)
	for _, m := range t.More {
		if t.Secret != nil {
			if m, err = newSealed(m, t.Secret); err != nil {
				return b, err
			}
		}
		b.Tiers = append(b.Tiers, m)
	}
	if len(b.Tiers) == 0 {
		return b, nil
	}
	for _, tr := range b.Tiers {
		info := tr.Info()
		b.Infos, b.answers = append(b.Infos, info), append(b.answers, &answer{})
		b.outlive = b.outlive || info.Outlives
	}
	b.log = log
	b.Offload, err = offload.New(be, guard, parts.Blocks, shape, b.Tiers, len(b.own), log)
	return b, err
}

func openHost[B backend.Buffer](be backend.Backend[B], cfg *config.Config, block int64, log *slog.Logger) (tier.Tier, error) {
	if err := HostTier(be.Info()); err != nil {
		return nil, err
	}
	host := cfg.Tiers.HostBytes
	if host < 0 {
		var pool int64
		if be.Info().HostVisible {
			pool, _ = cfg.Bytes()
		}
		host = memory.DefaultBytes(pool)
	}
	if host < block {
		return nil, backend.ErrConfig{Name: "Tiers.HostBytes", Value: strconv.FormatInt(host, 10), Why: fmt.Sprintf("has no room for a block, which takes %d bytes", block)}
	}
	return memory.Open(memory.Options{Bytes: host, Logger: log})
}

func openDisk(cfg *config.Config, name tier.Key, block int64, log *slog.Logger) (tier.Tier, error) {
	d := &cfg.Tiers.Disk
	if err := disk.Prepare(d.Dir); err != nil {
		return nil, err
	}
	n := disk.Namespace{Fingerprint: name, About: map[string]string{
		"digest": fmt.Sprintf("%x", cfg.Model.Digest), "layers": fmt.Sprint(cfg.Model.Layers),
		"keys": cfg.Storage.K.String(), "values": cfg.Storage.V.String(), "block tokens": fmt.Sprint(cfg.EntryTokens()),
	}}
	return disk.Open(disk.Options{Dir: disk.Path(d.Dir, n), Namespace: n, Payload: block, Bytes: d.Bytes, Floor: d.Floor,
		Admission: d.Admission, WriteBudget: d.WriteBudget, Durable: d.Durable, Secret: cfg.Tiers.Secret, Network: d.Network, Logger: log})
}

// HostTier is why a device's pools have no tier of host memory, an ErrUnsupported; nil: they may have one.
func HostTier(device backend.Info) error {
	if device.HostVisible && device.Kernels == "" {
		return backend.ErrUnsupported{Package: "kvcache", Why: "the device's memory is the host's: blocks would be copied from it to itself; leave Tiers.HostBytes unset, and have more Memory.Blocks"}
	}
	return nil
}

// CloseWait is how long Close waits for pending stores, and then for its own tiers to close.
var CloseWait = 10 * time.Second

// Close lets go of everything. The pool's lock is not held. What calls of others look at without the lock stays as it is.
func (b *Below[B]) Close() (err error) {
	if o := b.Offload; o != nil {
		ctx, cancel := context.WithTimeout(context.Background(), CloseWait)
		defer cancel()
		if late := o.Flush(ctx); late != nil { // a tier that hangs does not hang the program
			b.log.LogAttrs(context.Background(), slog.LevelWarn, "kvcache: a pool was closed before its tiers had all that was written", journal.Cause(late))
		}
		err = o.Close()
	}
	return errors.Join(err, closeAll(b.own))
}
