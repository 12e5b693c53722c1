package states

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strconv"
)

// load reads what is there. Nothing is removed before everything was read: one that cannot be read now may be another time.
func (s *Store) load() error {
	stored, err := s.listPacks()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, "states"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(s.dir, "states", e.Name())
		if isUnfinished(e.Name(), isSum) {
			s.dead = append(s.dead, dead{path, 0})
			continue
		}
		if !isSum(e.Name()) {
			continue
		}
		st, err := s.readManifest(path, e)
		if err != nil {
			return err
		}
		if st == nil || !st.whole(stored) {
			s.stats.Damaged++
			s.dead = append(s.dead, dead{path, 0})
			continue
		}
		s.admit(st, stored)
	}
	for p := range s.packs {
		s.retire(p)
	}
	for _, d := range s.dead {
		if err := s.o.disk.remove(d.path); err != nil {
			return err
		}
		s.used -= d.bytes
	}
	s.dead = nil
	if err := s.expire(); err != nil {
		return err
	}
	if err := s.reserve(0); err != nil && !errors.Is(err, ErrFull{}) {
		return err
	}
	s.tidy(resting)
	return nil
}

// there is a chunk of a pack.
type there struct {
	place
	bytes int
}

// listPacks reads the indexes of packs. Those that are not what was written are dead.
func (s *Store) listPacks() (map[sum]there, error) {
	stored := map[sum]there{}
	entries, err := os.ReadDir(filepath.Join(s.dir, "packs")) // in their order, so that of two places of a chunk the later one stays
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(s.dir, "packs", e.Name())
		if e.Type().IsRegular() && isUnfinished(e.Name(), isPack) {
			s.dead = append(s.dead, dead{path, 0})
		}
		if e.IsDir() || !isPack(e.Name()) {
			continue
		}
		p := &pack{path: path}
		p.number, _ = strconv.ParseUint(e.Name()[:16], 16, 64)
		s.packNumber = max(s.packNumber, p.number)
		f, index, size, err := s.openPack(path)
		if errors.As(err, new(errTorn)) {
			s.dead = append(s.dead, dead{path, 0})
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		p.size = onDisk(size)
		s.used += p.size
		s.packs[p] = true
		at := int64(0)
		for _, c := range index {
			stored[c.Sum] = there{place{p, at, c.stored}, c.Bytes}
			at += int64(c.stored)
		}
	}
	return stored, nil
}

// parseSum is the sum of a name that isSum accepts.
func parseSum(name string) (s sum) {
	_, _ = hex.Decode(s[:], []byte(name))
	return s
}

// readManifest reads the one in a file; nil: it is not what was written.
func (s *Store) readManifest(path string, e os.DirEntry) (*state, error) {
	b, err := readFile(path, largestRecord)
	if errors.Is(err, errLength) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	st, err := decodeManifest(b, ID(parseSum(e.Name())), s.sealer, s.names, s.o.Bytes, s.o.sizes.max)
	if err != nil {
		return nil, nil
	}
	info, err := e.Info()
	if err != nil {
		return nil, err
	}
	st.Used = info.ModTime()
	return st, nil
}

// whole reports whether each chunk is there.
func (s *state) whole(stored map[sum]there) bool {
	whole := true
	s.each(func(c chunk) { whole = whole && stored[c.Sum].bytes == c.Bytes })
	return whole
}

// admit makes a state that was read one of the store's.
func (s *Store) admit(st *state, stored map[sum]there) {
	s.states[st.ID] = st
	s.index.add(st)
	s.used += st.size
	st.each(func(c chunk) {
		if h := s.take(c.Sum); h.pack == nil {
			s.move(h, stored[c.Sum].place)
		}
	})
}
