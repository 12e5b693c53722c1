package disk

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ferrumkv/ferrumkv/internal/journal"
	"github.com/ferrumkv/ferrumkv/internal/seal"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// Open opens a directory, or makes it. The error is ErrInUse where it is open already, and tier.ErrConfig where it is for other
// blocks, where others may use it, where it is on a network, and for options that make no sense. The caller closes the tier.
func Open(o Options) (*Tier, error) {
	o, err := o.filled()
	if err != nil {
		return nil, err
	}
	t := &Tier{o: o, log: journal.Async(o.Logger), index: newIndex(), writing: map[tier.Key]chan struct{}{}}
	t.codec = codec{fingerprint: o.Namespace.Fingerprint, group: uint16(o.Namespace.Group), payload: o.Payload, bigEndian: nativeBigEndian != o.foreign}
	if o.Secret != nil {
		if t.codec.sealer, err = seal.New(o.Secret); err != nil {
			return nil, err
		}
		t.o.Secret = nil
	}
	t.stride = t.codec.stride()
	if err := t.openFiles(); err != nil {
		t.closeFiles()
		return nil, opening(o.Dir, err)
	}
	t.room.New = func() any { b := make([]byte, 0, o.Payload+seal.TagBytes); return &b }
	t.used, t.full = make(chan struct{}, 1), make(chan struct{}, 1)
	t.done, t.stopped = make(chan struct{}), make(chan struct{})
	t.open = true
	t.opened()
	t.keepFloor()
	go t.tend()
	return t, nil
}

// opening says where an error came from that does not say so by its type.
func opening(dir string, err error) error {
	if errors.As(err, new(tier.ErrConfig)) || errors.As(err, new(ErrInUse)) {
		return err
	}
	return tier.ErrFailed{Name: name, Op: "open " + dir, Err: err}
}

func (t *Tier) openFiles() (err error) {
	sys, dir := t.o.system, t.o.Dir
	if err := sys.Prepare(dir); err != nil {
		return err
	}
	if !t.o.Network {
		kind, err := sys.Network(dir)
		if err != nil {
			return err
		}
		if kind != "" {
			return tier.ErrConfig{Name: name, What: fmt.Sprintf("%s is on %s, which may be a network; choose a local directory, or set Network", dir, kind)}
		}
	}
	if t.lock, err = sys.Open(filepath.Join(dir, "lock")); err != nil {
		return err
	}
	if err := t.lock.Lock(); errors.Is(err, errLocked) || err == nil && !t.lock.There() {
		return ErrInUse{dir}
	} else if err != nil {
		return err
	}
	limit, err := t.o.limit(t.stride)
	if err != nil {
		return err
	}
	t.limit = int(limit)
	fresh, err := t.o.checkMeta(&t.codec)
	if err != nil {
		return err
	}
	if t.table, err = sys.Open(filepath.Join(dir, "table")); err != nil {
		return err
	}
	if t.data, err = sys.Open(filepath.Join(dir, "data")); err != nil {
		return err
	}
	if err := t.load(fresh); err != nil {
		return err
	}
	return sys.SyncDir(dir) // even if an earlier process made the files: it may have been killed before its sync
}
