// Each connection to a Publisher has goroutines of its own: one that stalls costs others nothing.

package pubsub

import (
	"errors"
	"net"
	"os"
	"time"

	"github.com/ferrumkv/ferrumkv/kvevents/internal/zmtp"
)

// peerBytes is the most that a peer can send as one message.
const peerBytes = 4096

// peer is a connection to a Publisher.
type peer struct {
	p    *Publisher
	raw  net.Conn
	conn *zmtp.Conn
	wake chan struct{} // the log has grown, or begun anew
	seq  [8]byte
	subscription
}

// accept serves the connections of a listener.
func (p *Publisher) accept(l net.Listener, most int, count *int, kind string, serve func(*peer)) {
	defer p.running.Done()
	for {
		raw, err := l.Accept()
		if err != nil {
			select {
			case <-p.done:
				return
			case <-time.After(50 * time.Millisecond): // such as too many open files
			}
			continue
		}
		peer := &peer{p: p, raw: raw, wake: make(chan struct{}, 1)}
		if !p.admit(peer, count, most) {
			raw.Close()
			continue
		}
		go func() {
			defer p.running.Done()
			defer p.leave(peer, count)
			o := zmtp.Options{Type: kind, Bytes: peerBytes, Buffer: 1024, Handshake: p.o.handshake, Stall: p.o.stall}
			if peer.conn, err = zmtp.Handshake(raw, o); err == nil {
				serve(peer)
			}
		}()
	}
}

// admit counts a peer, which then runs, unless there are too many.
func (p *Publisher) admit(peer *peer, count *int, most int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop {
		return false
	}
	if *count >= most {
		p.count.Refused++
		return false
	}
	*count++
	p.peers[peer] = struct{}{}
	p.running.Add(1)
	return true
}

func (p *Publisher) leave(peer *peer, count *int) {
	peer.raw.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	*count--
	delete(p.peers, peer)
}

// wake has the subscribers look at the log.
func (p *Publisher) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for peer := range p.peers {
		select {
		case peer.wake <- struct{}{}:
		default:
		}
	}
}

// failed counts a write that failed.
func (p *peer) failed(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		p.p.mu.Lock()
		defer p.p.mu.Unlock()
		p.p.count.CutOff++
	}
}
