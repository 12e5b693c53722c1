package states

import (
	"path/filepath"
	"sync"
)

// packer writes chunks into packs. What it has written is there when it has finished.
type packer struct {
	s       *Store
	sync    bool
	from    *pack               // it takes the chunks of, or nil
	reserve func(n int64) error // counts bytes that are about to be written
	mu      sync.Mutex          // what is below
	draft   *draft              // nil: none was begun
	number  uint64              // of it, once it has one
	entries []entry             // of it
	known   map[sum]bool        // likewise
	bytes   int64               // likewise, of chunks and entries
	counted int64               // that were reserved for it
	failure error               // of append
}

// atOnce is the most bytes that are reserved at once, where there is much room: to look takes time.
const atOnce = 1 << 20

// append stores what a pack has of a chunk that the caller has taken, but where the draft has it. After an error all calls have that error: the draft may
// have a part of a chunk, or be closed.
func (p *packer) append(e entry, b []byte) (written bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure != nil || p.known[e.Sum] {
		return false, p.failure
	}
	p.failure = p.add(e, b)
	return p.failure == nil, p.failure
}

func (p *packer) add(e entry, b []byte) error {
	e.stored = len(b)
	more := place{stored: e.stored}.cost()
	if p.draft != nil && p.s.whole(p.bytes+more) > p.s.packBytes {
		if err := p.finish(); err != nil {
			return err
		}
	}
	if n := p.s.whole(p.bytes+more) - p.counted; n > 0 {
		if more := min(p.bytes, atOnce) / blockBytes * blockBytes; more > n && p.s.ahead(more) {
			n = more
		} else if err := p.reserve(n); err != nil {
			return err
		}
		p.counted += n
	}
	if p.draft == nil {
		if err := p.begin(); err != nil {
			return err
		}
	}
	if err := p.s.o.disk.write(p.draft.file, b); err != nil {
		return err
	}
	p.entries, p.known[e.Sum], p.bytes = append(p.entries, e), true, p.bytes+more
	return nil
}

func (p *packer) begin() (err error) {
	p.draft, err = p.s.o.disk.draft(p.s.packPath(0)) // until it has a number
	p.known = map[sum]bool{}
	if p.from != nil {
		p.number = p.s.nextPack()
	}
	return err
}

// nextPack is a number for a pack. Of two packs that have a chunk that of the higher number counts, so that one with what was verified has its number
// last, when it is finished, and one with copies of what may be damaged, and mended meanwhile, first.
func (s *Store) nextPack() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.packNumber++
	return s.packNumber
}

// close finishes what was begun.
func (p *packer) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.finish()
}

// finish makes the draft a pack, and the places in it those of its chunks, where they have none or this one takes theirs. The caller has p.mu.
func (p *packer) finish() error {
	if p.draft == nil || p.failure != nil {
		return p.failure
	}
	s := p.s
	if p.from == nil {
		p.number = s.nextPack()
	}
	p.draft.path = s.packPath(p.number)
	b, err := encodeIndex(p.entries, p.draft.path, s.sealer)
	if err == nil {
		err = p.draft.end(b, p.sync)
	}
	if err == nil {
		err = p.draft.finish()
	}
	if err != nil {
		return err
	}
	to, most := &pack{path: p.draft.path, number: p.number, size: p.s.whole(p.bytes)}, p.counted
	p.draft, p.counted, p.bytes = nil, 0, 0
	if p.sync {
		err = s.o.disk.sync(filepath.Dir(to.path))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= most - to.size
	s.packs[to] = true
	for at, i := int64(0), 0; i < len(p.entries) && err == nil; i++ {
		e := p.entries[i]
		if h := s.chunks[e.Sum]; h != nil && (h.pack == p.from || e.heals) {
			s.move(h, place{to, at, e.stored})
		}
		at += int64(e.stored)
	}
	p.entries = nil
	s.retire(to)
	return err
}

// abandon removes what was not finished.
func (p *packer) abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.s.mu.Lock()
	p.s.scrap(p.draft, p.counted)
	p.s.mu.Unlock()
	p.draft, p.entries, p.counted, p.bytes = nil, nil, 0, 0
}
