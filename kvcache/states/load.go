package states

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// load reads what is there. Nothing is removed before everything was read: one that cannot be read now may be another time.
func (s *Store) load() error {
	found, err := s.findPacks()
	if err != nil {
		return err
	}
	for _, path := range found.waste {
		s.dead = append(s.dead, dead{path, 0})
	}
	for _, p := range found.packs {
		s.packs[p] = true
		s.used += p.size
	}
	s.packNumber = found.last
	entries, err := os.ReadDir(filepath.Join(s.dir, "states"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(s.dir, "states", e.Name())
		if e.Type().IsRegular() && isUnfinished(e.Name(), isSum) {
			s.dead = append(s.dead, dead{path, 0})
			continue
		}
		if e.IsDir() || !isSum(e.Name()) {
			continue
		}
		st, err := s.readManifest(path, e)
		if err != nil {
			return err
		}
		if st == nil || !st.whole(found.stored) {
			s.stats.Damaged++
			s.dead = append(s.dead, dead{path, 0})
			continue
		}
		if st.Bytes > s.o.Bytes && !st.Pinned { // of another budget
			s.stats.Evicted++
			s.dead = append(s.dead, dead{path, 0})
			continue
		}
		s.admit(st, found.stored)
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
	s.expire()
	if err := s.reserve(0); err != nil && !errors.Is(err, ErrFull{}) {
		return err
	}
	s.tidy(resting, map[*pack]bool{})
	return nil
}

// there is a chunk of a pack.
type there struct {
	place
	bytes int
}

// found is the packs of a directory.
type found struct {
	stored map[sum]there
	packs  []*pack
	last   uint64   // number
	waste  []string // paths of drafts, and of packs that are not what was written
}

// findPacks reads the indexes of packs, and changes nothing.
func (s *Store) findPacks() (found, error) {
	out := found{stored: map[sum]there{}}
	entries, err := os.ReadDir(filepath.Join(s.dir, "packs")) // in their order, so that of two places of a chunk the later one stays
	if err != nil {
		return out, err
	}
	for _, e := range entries {
		path := filepath.Join(s.dir, "packs", e.Name())
		if e.Type().IsRegular() && isUnfinished(e.Name(), isPack) {
			out.waste = append(out.waste, path)
		}
		if e.IsDir() || !isPack(e.Name()) {
			continue
		}
		p := &pack{path: path}
		p.number, _ = strconv.ParseUint(e.Name()[:16], 16, 64)
		out.last = max(out.last, p.number)
		f, index, size, err := s.openPack(path)
		if errors.As(err, new(errTorn)) {
			out.waste = append(out.waste, path)
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // it went meanwhile
		}
		if err != nil {
			return out, err
		}
		if err := f.Close(); err != nil {
			return out, err
		}
		p.size = onDisk(size)
		out.packs = append(out.packs, p)
		at := int64(0)
		for _, c := range index {
			out.stored[c.Sum] = there{place{p, at, c.stored}, c.Bytes}
			at += int64(c.stored)
		}
	}
	return out, nil
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
	st, err := decodeManifest(b, ID(parseSum(e.Name())), s.sealer, s.names, s.o.sizes.max)
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
	s.willExpire(st)
	s.used += st.size
	st.each(func(c chunk) {
		if h := s.take(c.Sum); h.pack == nil {
			s.move(h, stored[c.Sum].place)
		}
	})
}
