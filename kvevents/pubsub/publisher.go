// A Publisher is a log, a ledger and its peers. Nothing that it does waits for a peer.

package pubsub

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/ferrumkv/ferrumkv/kvevents/internal/zmtp"
)

const (
	mostTopic   = 1024
	mostPayload = 32 << 20
)

// Publisher publishes events to any number of subscribers. Its methods may be called by several goroutines at once.
type Publisher struct {
	o              PublisherOptions
	events, replay net.Listener
	log            log
	done           chan struct{}
	running        sync.WaitGroup

	publishing sync.Mutex // one batch after another
	ledger     *ledger
	scratch    []byte
	time       float64 // of the last batch
	mostCount  int     // of this epoch's log
	mostBytes  int64

	mu    sync.Mutex // never held for long
	peers map[*peer]struct{}
	count Stats // without what the log and the ledger know
	stop  bool
}

// Listen opens a Publisher. Its first batch is AllBlocksCleared.
func Listen(o PublisherOptions) (*Publisher, error) {
	o, err := o.filled()
	if err != nil {
		return nil, err
	}
	p := &Publisher{o: o, ledger: newLedger(), done: make(chan struct{}), peers: map[*peer]struct{}{}}
	p.begin()
	if p.events, err = bind("Events", o.Events); err != nil {
		return nil, err
	}
	if p.replay, err = bind("Replay", o.Replay); err != nil {
		p.events.Close()
		return nil, err
	}
	p.running.Add(2)
	go p.accept(p.events, o.Subscribers, &p.count.Subscribers, zmtp.Pub, (*peer).subscriber)
	go p.accept(p.replay, o.Replays, &p.count.Replays, zmtp.Router, (*peer).replays)
	return p, nil
}

// bind listens at the endpoint of an option.
func bind(option, endpoint string) (net.Listener, error) {
	l, err := zmtp.Listen(endpoint)
	switch {
	case errors.As(err, new(zmtp.ErrEndpoint)):
		return nil, argument(option, "%v", err)
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("pubsub: %s: %w; end the process that uses %s, or choose another port: 0 is any that is free", option, err, endpoint)
	case err != nil:
		return nil, fmt.Errorf("pubsub: %s: %w", option, err)
	}
	return l, nil
}

// Endpoints returns where the Publisher listens, with the ports that the system chose where the options had port 0.
func (p *Publisher) Endpoints() (events, replay string) {
	if p.done == nil {
		return "", ""
	}
	return zmtp.Endpoint(p.events), zmtp.Endpoint(p.replay)
}

// Close ends all connections and waits for the goroutines. What has not been sent is not sent.
func (p *Publisher) Close() error {
	if p.done == nil {
		return ErrClosed
	}
	p.mu.Lock()
	if p.stop {
		p.mu.Unlock()
		p.running.Wait()
		return nil
	}
	p.stop = true
	close(p.done)
	for peer := range p.peers {
		peer.raw.Close()
	}
	p.mu.Unlock()
	p.events.Close()
	p.replay.Close()
	p.running.Wait()
	return nil
}

// Stats is what a Publisher has now, and what has happened.
type Stats struct {
	Epoch       uint64 // counts from 1
	Sequence    uint64 // of the next batch
	Blocks      int    // stored now
	LogBytes    int64  // of the batches of this epoch
	Subscribers int    // connections
	Replays     int    // connections
	Refused     uint64 // connections that were too many
	CutOff      uint64 // connections that took nothing for 30 seconds
}

// Stats returns what the Publisher has and did.
func (p *Publisher) Stats() Stats {
	if p.done == nil {
		return Stats{}
	}
	p.publishing.Lock()
	blocks := p.ledger.n
	p.publishing.Unlock()
	p.mu.Lock()
	s := p.count
	p.mu.Unlock()
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	s.Blocks, s.Epoch, s.Sequence, s.LogBytes = blocks, p.log.epoch, uint64(len(p.log.payloads)), p.log.bytes
	return s
}
