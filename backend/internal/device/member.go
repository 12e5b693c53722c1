package device

import (
	"fmt"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// Member is embedded in a driver's streams and events: what they have of the device
// that they belong to.
type Member struct {
	owner  any    // the Device
	closed bool   // guarded by the Device
	status status // of a stream; used by who uses the stream

	// waiting is held for reading while the host waits for the device, so that nothing
	// that is waited for is destroyed.
	waiting sync.RWMutex
}

// Release ends a wait of the host that Hold or HoldEvent began.
func (m *Member) Release() { m.waiting.RUnlock() }

// alone calls do once nobody waits any more.
func (m *Member) alone(do func() error) error {
	m.waiting.Lock()
	defer m.waiting.Unlock()
	return do()
}

func (m *Member) member() *Member { return m }

// member is a pointer to a struct that embeds Member.
type member interface {
	comparable
	member() *Member
	// Destroy gives back what it has on the device. Nobody else uses it any more.
	Destroy() error
}

// stream is a member that work is enqueued on.
type stream interface {
	member
	backend.Stream
	launch.Mover
	// Calls is where the calls of the operation are put that is being enqueued.
	Calls() *launch.Calls
	// Run enqueues them. All of their kernels are found before the first is launched.
	Run() error
	// Drain waits for everything enqueued.
	Drain() error
	// Status returns a word of memory and where the device sees it, for as long as the
	// stream lives. It is asked once.
	Status() (*uint32, launch.Place, error)
}

// set is the live streams, or events, of a device.
type set[T member] struct {
	kind string
	live map[T]struct{}
}

// find returns x as a live member of the set of owner, whose name is that of the device.
func (s *set[T]) find(owner any, name, op string, x any) (T, error) {
	var none T
	own, ok := x.(T)
	switch {
	case x == nil || ok && own == none:
		return none, backend.ErrArgument{Op: op, What: s.kind + ": none given"}
	case !ok || own.member().owner != owner:
		return none, fmt.Errorf("%s: %s: %s %w", name, op, s.kind, backend.ErrOtherDevice)
	case own.member().closed:
		return none, fmt.Errorf("%s: %s: %s %w", name, op, s.kind, backend.ErrClosed)
	}
	return own, nil
}

func (s *set[T]) add(owner any, m T) {
	m.member().owner = owner
	s.live[m] = struct{}{}
}

func (s *set[T]) remove(m T) {
	m.member().closed = true
	delete(s.live, m)
}
