package device

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// gpu is a driver whose calls write down what they did, and fail when they are told to.
type gpu struct {
	Device[*buf, *queue, *mark, refusal]
	mu   sync.Mutex
	log  []string
	fail map[string]error
}

// refusal is the driver's error.
type refusal struct{ why error }

func (r refusal) Error() string { return "refused: " + r.why.Error() }
func (r refusal) Unwrap() error { return r.why }

var caps = backend.Caps{Formats: launch.Formats, HeadDims: launch.HeadDims}

// zero is a driver's device that nothing has opened.
func zero() *gpu { return &gpu{fail: map[string]error{}} }

func open() *gpu {
	g := zero()
	g.Init("test:0", caps)
	return g
}

func (g *gpu) did(what string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.log = append(g.log, what)
	return g.fail[what]
}

func (g *gpu) call(what string) func() error { return func() error { return g.did(what) } }

func (g *gpu) close() error { return g.Close(g.release, g.call("kernels"), g.call("context")) }

type buf struct{ Buffer }

// alloc returns memory that starts at an address.
func (g *gpu) alloc(t testing.TB, at uint64, imported bool) *buf {
	return g.allocOf(t, backend.F32, 10, at, imported)
}

func (g *gpu) allocOf(t testing.TB, dt backend.DType, n int, at uint64, imported bool) *buf {
	size, ok := dt.Size(n)
	require.True(t, ok)
	b := &buf{NewBuffer(dt, n, int(size), launch.Place{At: at}, imported)}
	require.NoError(t, g.Lock("alloc"))
	defer g.Unlock()
	g.AddBuffer(b)
	return b
}

func (g *gpu) release(b *buf) error { return g.did(fmt.Sprint("release ", b.Place().At)) }

func (g *gpu) free(b *buf) error {
	if err := g.Lock("free"); err != nil {
		return err
	}
	defer g.Unlock()
	return g.Forget(b, func(s *queue) error { return g.did("outlive " + s.name) })
}

// queue is a stream whose work is done when busy is closed, or nil.
type queue struct {
	Member
	gpu   *gpu
	name  string
	busy  chan struct{}
	calls launch.Calls

	status uint32
}

func (g *gpu) stream(t testing.TB, name string) *queue {
	s := &queue{gpu: g, name: name}
	require.NoError(t, g.Lock("new stream"))
	defer g.Unlock()
	g.AddStream(s)
	return s
}

func (s *queue) Drain() error {
	if s.busy != nil {
		<-s.busy
	}
	return s.gpu.did("drain " + s.name)
}

func (s *queue) Destroy() error           { return s.gpu.did("destroy " + s.name) }
func (s *queue) Sync() error              { return s.gpu.Sync("sync", s) }
func (s *queue) Wait(backend.Event) error { return nil }
func (s *queue) Handle() backend.Handle   { return backend.Handle{} }
func (s *queue) Close() error             { return s.gpu.CloseStream(s) }

func (s *queue) Record(e backend.Event) error {
	_, err := s.gpu.BeginMark("record", s, e)
	if err == nil {
		s.gpu.End()
	}
	return err
}

func (s *queue) Calls() *launch.Calls { return &s.calls }

func (s *queue) Status() (*uint32, launch.Place, error) {
	return &s.status, launch.Place{At: 1 << 30}, s.gpu.did("status " + s.name)
}

func (s *queue) Run() error {
	for _, c := range s.calls.List() {
		if err := s.gpu.did(c.Kernel.Symbol()); err != nil {
			return err
		}
	}
	return nil
}

func (s *queue) CopyBytes(dst, src launch.Place, size int) error   { return s.gpu.did("copy") }
func (s *queue) CopyBits(dst, src launch.Place, mask uint32) error { return s.gpu.did("copy bits") }
func (s *queue) Scratch(size int) (launch.Place, error)            { return launch.Place{At: 1 << 20}, nil }
func (s *queue) DropScratch(launch.Place) error                    { return nil }

// fill is an operation with one operand that enqueues nothing.
func (g *gpu) fill(s backend.Stream, b *buf) error { return g.Fill(s, b, 0, 0, 0) }

type mark struct {
	Member
	gpu *gpu
}

func (g *gpu) event(t testing.TB) *mark {
	e := &mark{gpu: g}
	require.NoError(t, g.Lock("new event"))
	defer g.Unlock()
	g.AddEvent(e)
	return e
}

func (e *mark) Done() (bool, error) {
	err := e.gpu.BeginEvent("event done", e)
	if err == nil {
		e.gpu.End()
	}
	return err == nil, err
}

func (e *mark) Sync() error {
	err := e.gpu.HoldEvent("event sync", e)
	if err == nil {
		e.Release()
	}
	return err
}

func (e *mark) Close() error   { return e.gpu.CloseEvent(e) }
func (e *mark) Destroy() error { return e.gpu.did("destroy event") }
