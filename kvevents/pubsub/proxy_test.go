// A network that fails.

package pubsub

import (
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvevents/internal/zmtp"
)

// proxy is a network between a subscriber and a publisher, which cuts, stalls and refuses.
type proxy struct {
	l       net.Listener
	mu      sync.Mutex
	changed *sync.Cond
	target  string
	refuses bool
	stalls  bool
	closed  bool
	conns   map[net.Conn]struct{}
	running sync.WaitGroup
}

func newProxy(t testing.TB, target string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{l: l, target: target, conns: map[net.Conn]struct{}{}}
	p.changed = sync.NewCond(&p.mu)
	p.running.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.cut()
		p.running.Wait()
	})
	return p
}

func (p *proxy) endpoint() string { return zmtp.Endpoint(p.l) }

func (p *proxy) accept() {
	for {
		down, err := p.l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target, refuses := p.target, p.refuses || p.closed
		p.mu.Unlock()
		up, err := net.Dial("tcp", target)
		if err != nil || refuses {
			down.Close()
			if err == nil {
				up.Close()
			}
			continue
		}
		p.mu.Lock()
		p.conns[up], p.conns[down] = struct{}{}, struct{}{}
		p.mu.Unlock()
		p.running.Go(func() { p.copy(up, down) })
		p.running.Go(func() { p.copy(down, up) })
	}
}

func (p *proxy) copy(to, from net.Conn) {
	defer func() {
		to.Close()
		from.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, to)
		delete(p.conns, from)
	}()
	buf := make([]byte, 2000)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		for p.stalls && !p.closed {
			p.changed.Wait()
		}
		p.mu.Unlock()
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	p.changed.Broadcast()
}

// set changes how the network is.
func (p *proxy) set(refuses, stalls bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses, p.stalls = refuses, stalls
	p.changed.Broadcast()
}

func (p *proxy) aim(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}
