package device

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// Kernels is the kernels that were found on a device so far, by what names them. It is
// safe for concurrent use. The zero Kernels is empty.
type Kernels[N comparable, K any] struct {
	// Group is what a kernel is loaded with: those of one group one at a time, others beside each
	// other. nil: all are one group.
	Group func(N) string

	known atomic.Pointer[map[N]*K] // replaced, never changed: read without a lock

	mu      sync.Mutex // guards what follows, and changes of known; nobody loads with it
	groups  map[string]*sync.Mutex
	dropped bool
	loads   sync.WaitGroup // those that have begun; none does once dropped
}

// Known returns the kernel of a name, nil until Find has found it. It allocates nothing and waits
// for nobody.
func (k *Kernels[N, K]) Known(name N) *K {
	if known := k.known.Load(); known != nil {
		return (*known)[name]
	}
	return nil
}

// Find returns the kernel of a name. Once it was found, finding it again is Known. Until then load
// makes it, which may take minutes; an error is not remembered. ErrClosed after Drop.
func (k *Kernels[N, K]) Find(name N, load func(N) (*K, error)) (*K, error) {
	if found := k.Known(name); found != nil {
		return found, nil
	}
	group, err := k.begin(name)
	if err != nil {
		return nil, err
	}
	defer k.loads.Done()
	group.Lock()
	defer group.Unlock()
	if found := k.Known(name); found != nil {
		return found, nil
	}
	if err := k.open(); err != nil { // while others of the group loaded
		return nil, err
	}
	found, err := load(name)
	if err != nil {
		return nil, err
	}
	k.add(name, found)
	return found, nil
}

// begin counts a load, and returns the lock of its group.
func (k *Kernels[N, K]) begin(name N) (*sync.Mutex, error) {
	var group string
	if k.Group != nil {
		group = k.Group(name)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dropped {
		return nil, errDropped()
	}
	if k.groups == nil {
		k.groups = map[string]*sync.Mutex{}
	}
	if k.groups[group] == nil {
		k.groups[group] = new(sync.Mutex)
	}
	k.loads.Add(1)
	return k.groups[group], nil
}

func (k *Kernels[N, K]) open() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dropped {
		return errDropped()
	}
	return nil
}

func errDropped() error { return fmt.Errorf("kernels %w", backend.ErrClosed) }

func (k *Kernels[N, K]) add(name N, found *K) {
	k.mu.Lock()
	defer k.mu.Unlock()
	more := map[N]*K{}
	if known := k.known.Load(); known != nil {
		maps.Copy(more, *known)
	}
	more[name] = found
	k.known.Store(&more)
}

// Drop refuses loads from here on, waits for those that are under way, forgets all kernels and calls
// end, unless it is nil, with each of them.
func (k *Kernels[N, K]) Drop(end func(*K)) {
	k.mu.Lock()
	k.dropped = true
	k.mu.Unlock()
	k.loads.Wait()
	known := k.known.Swap(nil)
	if known == nil || end == nil {
		return
	}
	for _, kernel := range *known {
		end(kernel)
	}
}

// FindAll finds the kernels of an operation's calls: all of them, before one is launched.
func FindAll[K any](calls []launch.Call, find func(*launch.Call) (*K, error)) (kernels [launch.MaxCalls]*K, err error) {
	for i := range calls {
		if kernels[i], err = find(&calls[i]); err != nil {
			break
		}
	}
	return kernels, err
}

// Missing is an error of a driver whose kernel is yet to be loaded, before an operation has done
// anything: a load may take minutes, and an operation holds locks. The Device ends the operation,
// calls Load, and begins it anew.
type Missing struct{ Load func() error }

func (*Missing) Error() string { return "a kernel is yet to be loaded" }

// Load calls load, which makes kernels ready, with no lock of the device.
func (d *Device[B, S, E, R]) Load(op string, load func() error) error {
	for {
		if err := d.Use(op); err != nil {
			return err
		}
		d.End()
		err := load()
		if !errors.Is(err, backend.ErrClosed) {
			return d.Failed(op, err)
		}
	}
}

// load is what to do about the error of an operation, which has ended: nil is to do it again, since what
// was missing is there now.
func (d *Device[B, S, E, R]) load(op string, err error) error {
	missing, ok := err.(*Missing)
	if !ok {
		return err
	}
	err = missing.Load()
	if errors.Is(err, backend.ErrClosed) {
		return nil // the operation says which device is
	}
	return d.Failed(op, err)
}
