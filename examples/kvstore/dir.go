package kvstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Dir is a directory with snapshots: a list of chunks for each name, and the chunks, once each. Its stores may be used by as many
// goroutines as there are stores. No disk tier (kvcache/tier/disk) is below it: that has slots of one size, and may give up
// what it has, as a cache does.
type Dir struct {
	path  string
	lock  *os.File
	sizes sizes
	disk  disk

	mu      sync.Mutex
	closed  bool
	lists   map[string]*list  // what is committed, by name
	damaged map[string]error  // lists that cannot be read, by file. What they name is not known, so no chunk goes meanwhile
	open    map[string]*Store // by name
	chunks  map[sum]*held
	written int64
}

// Stats is what a directory has.
type Stats struct {
	Names, Chunks int
	Bytes         int64 // of the chunks
	Written       int64 // bytes of chunks since it was opened
}

// Open opens a directory for one process; ErrInUse is one that is open. It is made if it is not there, and what is made is for its
// owner alone (0700, files 0600), since a snapshot is as secret as what was said. What a crash left behind is removed.
func Open(path string) (*Dir, error) { return open(path, usual, machine) }

func open(path string, s sizes, on disk) (_ *Dir, err error) {
	d := &Dir{
		path: path, sizes: s, disk: on, lists: map[string]*list{}, damaged: map[string]error{},
		open: map[string]*Store{}, chunks: map[sum]*held{},
	}
	if err := d.make(); err != nil {
		return nil, fmt.Errorf("kvstore: %w", err)
	}
	if err := regular(filepath.Join(path, "lock")); err != nil {
		return nil, err
	}
	if d.lock, err = os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("kvstore: %w", err)
	}
	err = lock(d.lock)
	if errors.Is(err, errLocked) {
		err = ErrInUse{Dir: path}
	}
	if err == nil {
		if err = d.readLists(); err == nil {
			err = d.sweep()
		}
	}
	if err != nil {
		return nil, errors.Join(err, d.lock.Close())
	}
	return d, nil
}

// Open opens the store of a name, which has what was last committed there. ErrInUse is one that is open.
func (d *Dir) Open(ctx context.Context, name string) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, failed(name, "open", err)
	}
	if name == "" || !utf8.ValidString(name) {
		return nil, argument("Open", "%q is no name: any text in UTF-8 is one, if it is not empty", name)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.lock == nil {
		return nil, failed(name, "open", backend.ErrClosed)
	}
	if d.open[name] != nil {
		return nil, ErrInUse{d.path, name}
	}
	s := &Store{dir: d, name: name, committed: d.lists[name]}
	if err := d.damaged[fileOf(name)]; err != nil {
		s.damage = ErrCorrupt{name, "its list of chunks", err}
	}
	d.open[name] = s
	return s, nil
}

// Factory makes stores for an engine that has one conversation of that name and several stores for it, and says of none which it is: the first
// is the store of the name, the others have "/2", "/3" behind it, each the first that is not open. An engine that asks in the same order
// finds in them what it committed; one that takes new stores for empty replaces that.
func (d *Dir) Factory(name string) func(context.Context) (*Store, error) {
	return func(ctx context.Context) (*Store, error) {
		s, err := d.Open(ctx, name)
		for n := 2; errors.As(err, &ErrInUse{}); n++ {
			s, err = d.Open(ctx, fmt.Sprintf("%s/%d", name, n))
		}
		return s, err
	}
}

// Names are those under which something is committed, in order.
func (d *Dir) Names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.lists))
}

// Stats is what is there now.
func (d *Dir) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Stats{Names: len(d.lists), Written: d.written}
	for _, h := range d.chunks {
		if h.stored {
			s.Chunks++
			s.Bytes += int64(h.bytes)
		}
	}
	return s
}

// Close lets another process open the directory. With ErrInUse a store is still open, and so is the directory.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.open {
		return ErrInUse{d.path, name}
	}
	if d.closed || d.lock == nil {
		return nil
	}
	d.closed = true
	return d.lock.Close()
}
