package serving

import (
	"encoding/binary"
	"sync"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvevents"
)

// Announce calls publish with what enters and leaves the cache of the device, as vLLM's events, until end is called: whole blocks, those of a salt with the
// salt among the extra keys of the first one.
func (e *Engine) Announce(publish func(...kvevents.Event) error) (end func(), err error) {
	pool := e.runner.Pool()
	cfg := pool.Config()
	model, err := cfg.Fingerprint()
	if err != nil {
		return nil, err
	}
	s, have, err := pool.Watch(eventRoom)
	if err != nil {
		return nil, err
	}
	a := &announcer{engine: e, publish: publish, block: cfg.BlockTokens(), common: model.Root(prefix.Scope{}).Key, stored: map[uint64]bool{}}
	e.salts.Lock()
	e.salts.of, e.salts.root = map[prefix.Key]string{}, func(salt []byte) prefix.Key { return model.Root(prefix.Scope{Salt: salt}).Key }
	e.salts.Unlock()
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		a.all(have)
		for {
			select {
			case event, open := <-s.C:
				if !open { // the pool is closed
					return
				}
				if event.Lost > 0 { // what was lost is unknown: begin anew
					pool.Unwatch(s)
					if s, have, err = pool.Watch(eventRoom); err != nil {
						return
					}
					a.lost()
					a.all(have)
					continue
				}
				a.one(event)
			case <-over:
				pool.Unwatch(s)
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(over); <-done }), nil
}

const (
	eventRoom = 4096
	maxSalts  = 1 << 14
)

// salts are those of prompts, by the root of their blocks, as events name tenants. Blocks of one that is forgotten are not announced.
type salts struct {
	sync.Mutex
	root func(salt []byte) prefix.Key // nil: nobody asks
	of   map[prefix.Key]string
}

// note remembers a salt.
func (s *salts) note(salt []byte) {
	s.Lock()
	defer s.Unlock()
	if s.root == nil || salt == nil {
		return
	}
	if len(s.of) >= maxSalts {
		for old := range s.of { // any
			delete(s.of, old)
			break
		}
	}
	s.of[s.root(salt)] = string(salt)
}

func (s *salts) find(root prefix.Key) (salt string, found bool) {
	s.Lock()
	defer s.Unlock()
	salt, found = s.of[root]
	return salt, found
}

// announcer makes vLLM's events of a pool's.
type announcer struct {
	engine  *Engine
	publish func(...kvevents.Event) error
	block   int
	common  prefix.Key
	stored  map[uint64]bool // that were announced
}

// number is what an event has for a block: 64 bits of its key.
func number(k prefix.Key) uint64 { return binary.BigEndian.Uint64(k[len(k)-8:]) }

func (a *announcer) all(have []prefix.Event) {
	for _, event := range have {
		a.one(event)
	}
}

func (a *announcer) lost() {
	clear(a.stored)
	a.send(&kvevents.Cleared{})
}

func (a *announcer) one(e prefix.Event) {
	switch {
	case e.Group != 0: // of layers that keep a part, whose entries are announced with the others
	case e.Kind == prefix.Cleared:
		a.lost()
	case e.Kind == prefix.Removed:
		a.remove(e)
	case e.Kind == prefix.Stored:
		a.store(e)
	}
}

func (a *announcer) remove(e prefix.Event) {
	out := &kvevents.Removed{Medium: "GPU"}
	for _, k := range e.Keys {
		if n := number(k); a.stored[n] {
			delete(a.stored, n)
			out.Hashes = append(out.Hashes, kvevents.Hash{Number: n})
		}
	}
	if len(out.Hashes) > 0 {
		a.send(out)
	}
}

func (a *announcer) store(e prefix.Event) {
	salt, known := a.engine.salts.find(e.Root)
	whole := len(e.Tokens) / a.block
	first := e.Parent == prefix.Key{}
	if whole == 0 || e.Root != a.common && !known || !first && !a.stored[number(e.Parent)] {
		return
	}
	out := &kvevents.Stored{Tokens: e.Tokens[:whole*a.block], BlockSize: a.block, Medium: "GPU", HasParent: !first}
	if !first {
		out.Parent = kvevents.Hash{Number: number(e.Parent)}
	}
	if first && known {
		out.ExtraKeys = make([][]kvevents.Key, whole)
		out.ExtraKeys[0] = []kvevents.Key{{Text: salt}}
	}
	for _, k := range e.Keys[:whole] {
		a.stored[number(k)] = true
		out.Hashes = append(out.Hashes, kvevents.Hash{Number: number(k)})
	}
	a.send(out)
}

// send publishes an event. One that is refused is one block less that a router knows.
func (a *announcer) send(e kvevents.Event) {
	if err := a.publish(e); err != nil {
		a.engine.log.Debug("event", "error", err)
	}
}
