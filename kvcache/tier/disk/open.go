package disk

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// Open opens a directory, or makes it. The error is ErrInUse where it is open already, and tier.ErrConfig where it is for other
// blocks, where others may use it, where it is on a network, and for options that make no sense. The caller closes the tier.
func Open(o Options) (*Tier, error) {
	o, err := o.filled()
	if err != nil {
		return nil, err
	}
	t := &Tier{o: o, index: newIndex(), writing: map[tier.Key]chan struct{}{}}
	t.codec = codec{fingerprint: o.Namespace.Fingerprint, group: uint16(o.Namespace.Group), payload: o.Payload}
	if o.Secret != nil {
		if t.codec.sealer, err = newSealer(o.Secret); err != nil {
			return nil, err
		}
		t.o.Secret = nil
	}
	t.stride = t.codec.stride()
	if err := t.openFiles(); err != nil {
		t.closeFiles()
		return nil, opening(o.Dir, err)
	}
	t.room.New = func() any { b := make([]byte, 0, o.Payload+tagBytes); return &b }
	t.used, t.full = make(chan struct{}, 1), make(chan struct{}, 1)
	t.done, t.stopped = make(chan struct{}), make(chan struct{})
	t.open = true
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
	if err := t.o.checkMeta(&t.codec); err != nil {
		return err
	}
	if t.table, err = sys.Open(filepath.Join(dir, "table")); err != nil {
		return err
	}
	if t.data, err = sys.Open(filepath.Join(dir, "data")); err != nil {
		return err
	}
	return t.load()
}

// load reads the table, or begins one.
func (t *Tier) load() error {
	size, err := t.table.Size()
	if err != nil {
		return err
	}
	head := make([]byte, min(size, page))
	if _, err := t.table.ReadAt(head, 0); err != nil && size > 0 {
		return err
	}
	torn, wrong := t.codec.checkHeader(head)
	if wrong != "" {
		return tier.ErrConfig{Name: name, What: t.o.Dir + ": " + wrong + "; choose another directory, or remove it"}
	}
	if torn {
		if !allZero(head) { // else the process ended before it was written
			t.stats.Corrupt++
		}
		return t.start()
	}
	data, err := t.data.Size()
	if err != nil {
		return err
	}
	slots := min((data+t.stride-1)/t.stride, int64(t.limit)) // a crash may have kept a part of the last one
	t.index.grow(int(slots))
	if err := t.cut(int(slots)); err != nil {
		return err
	}
	return t.readTable(data)
}

// start makes files without any block. The data is cut off first: what it has belongs to entries that cannot be read.
func (t *Tier) start() error {
	if err := t.data.Truncate(0); err != nil {
		return err
	}
	if err := t.table.Truncate(0); err != nil {
		return err
	}
	head, err := t.codec.header()
	if err != nil {
		return err
	}
	if _, err := t.table.WriteAt(head, 0); err != nil {
		return err
	}
	if err := t.table.Sync(); err != nil {
		return err
	}
	return t.o.system.SyncDir(t.o.Dir)
}

// cut makes the files end after so many slots, if they are longer.
func (t *Tier) cut(slots int) error {
	for _, f := range []struct {
		file file
		size int64
	}{{t.table, page + int64(slots)*entryBytes}, {t.data, int64(slots) * t.stride}} {
		size, err := f.file.Size()
		if err == nil && size > f.size {
			err = f.file.Truncate(f.size)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
