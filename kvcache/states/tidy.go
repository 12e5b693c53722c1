package states

// A pack is rewritten without what is dead in it where that gives back a part in so many of it.
const (
	resting  = 2       // after a call
	pressing = 4       // before a state goes for others' room
	every    = 1 << 62 // where none may go any more: all that is more than a block
)

// dead is a file that is to be removed, and what it takes until it is.
type dead struct {
	path  string
	bytes int64
}

// tidy removes what is dead, and rewrites packs of which a share is, but for those that were tried, to which it adds. It reports whether it got any
// bytes back, if only those of a rewriting that failed. The caller has s.making and not the lock: others find and read meanwhile.
func (s *Store) tidy(share int64, tried map[*pack]bool) bool {
	for got := false; ; {
		if s.sweep() {
			got = true
		}
		p := s.wasteful(share, tried)
		if p == nil {
			return got
		}
		tried[p] = true
		_ = s.rewrite(p) // where it fails, all is as it was
	}
}

// isUntidy reports whether there is something for tidy; again: since the last time.
func (s *Store) isUntidy(again bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.untidy || !again && len(s.dead) > 0
}

// sweep removes what is dead. What cannot be removed is tried the next time, and counted until then.
func (s *Store) sweep() (got bool) {
	s.mu.Lock()
	all := s.dead
	s.dead, s.untidy = nil, false
	s.mu.Unlock()
	for _, d := range all {
		err := s.o.disk.remove(d.path)
		s.mu.Lock()
		if err != nil {
			s.dead = append(s.dead, d)
		} else {
			s.used -= d.bytes
			got = got || d.bytes > 0
		}
		s.mu.Unlock()
	}
	return got
}

// scrap removes a draft, or none, for which bytes were counted. The caller has the lock.
func (s *Store) scrap(f *draft, bytes int64) {
	if f == nil {
		s.used -= bytes
		return
	}
	_ = f.file.Close() // it may have been
	s.dead, s.untidy = append(s.dead, dead{f.name, bytes}), true
}

// wasteful is the pack of which most would be got back, and a share at least; nil: there is none.
func (s *Store) wasteful(share int64, but map[*pack]bool) (out *pack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := int64(0)
	for p := range s.worn {
		if gain := s.gain(p); gain > most && gain >= p.size/share && !p.stuck && !but[p] {
			out, most = p, gain
		}
	}
	return out
}

func (s *Store) stick(p *pack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.stuck = true
}

// rewrite moves what is used of a pack into another one, after which it is dead. What it moves is on the medium before the old one can go, and read where
// it was until then. What cannot be read there is left, and the whole pack with it.
func (s *Store) rewrite(p *pack) error {
	s.mu.Lock()
	size := s.whole(p.live)
	s.mu.Unlock()
	if err := s.spare(size); err != nil { // all of it, so that none is written for nothing
		return err
	}
	s.mu.Lock()
	s.used -= size // as it is written it is counted again
	s.mu.Unlock()
	f, entries, _, err := s.openPack(p.path)
	if err != nil {
		s.stick(p)
		return err
	}
	defer f.Close()
	to := &packer{s: s, sync: true, from: p, reserve: s.spare}
	at, b := int64(0), []byte(nil)
	for _, e := range entries {
		s.mu.Lock()
		h := s.chunks[e.Sum]
		used := h != nil && h.pack == p && h.at == at
		s.mu.Unlock()
		if used {
			if cap(b) < e.stored {
				b = make([]byte, e.stored)
			}
			b = b[:e.stored]
			if err = readAt(f, b, at); err != nil {
				s.stick(p)
				break
			}
			if _, err = to.append(e, b); err != nil {
				break
			}
		}
		at += int64(e.stored)
	}
	if err == nil {
		err = to.close()
	}
	if err != nil {
		to.abandon()
	}
	return err
}
