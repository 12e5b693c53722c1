package device

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// Kernels is the kernels that were found on a device so far, by what names them. It is
// safe for concurrent use. The zero Kernels is empty.
type Kernels[N comparable, K any] struct {
	mu    sync.Mutex               // of those who load
	known atomic.Pointer[map[N]*K] // replaced, never changed: read without a lock
}

// Find returns the kernel of a name. Once it was found, finding it again allocates
// nothing. Until then load makes it, one at a time; an error is not remembered.
func (k *Kernels[N, K]) Find(name N, load func(N) (*K, error)) (*K, error) {
	if found := k.get(name); found != nil {
		return found, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if found := k.get(name); found != nil {
		return found, nil
	}
	found, err := load(name)
	if err != nil {
		return nil, err
	}
	more := map[N]*K{}
	if known := k.known.Load(); known != nil {
		maps.Copy(more, *known)
	}
	more[name] = found
	k.known.Store(&more)
	return found, nil
}

func (k *Kernels[N, K]) get(name N) *K {
	if known := k.known.Load(); known != nil {
		return (*known)[name]
	}
	return nil
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

// Drop forgets all kernels and calls end, unless it is nil, with each of them. Nobody
// loads any more.
func (k *Kernels[N, K]) Drop(end func(*K)) {
	known := k.known.Swap(nil)
	if known == nil || end == nil {
		return
	}
	for _, kernel := range *known {
		end(kernel)
	}
}
