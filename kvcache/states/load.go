package states

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ferrumkv/ferrumkv/internal/files"
)

// load reads what is there. Nothing is removed before everything was read: one that cannot be read now may be another time.
func (s *Store) load() error {
	stored, leftover, err := s.listChunks()
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
			leftover = append(leftover, path)
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
			leftover = append(leftover, path)
			continue
		}
		s.admit(st, stored)
	}
	for name := range stored {
		if s.chunks[name] == nil {
			leftover = append(leftover, s.chunkPath(name))
		}
	}
	for _, path := range leftover {
		if err := s.o.disk.remove(path); err != nil {
			return err
		}
	}
	if err := s.expire(); err != nil {
		return err
	}
	var full ErrFull
	if err := s.reserve(0); err != nil && !errors.As(err, &full) {
		return err
	}
	return nil
}

// listChunks finds the files of chunks, with what they take, and those that are none, since their writing did not end or they are too long.
func (s *Store) listChunks() (stored map[sum]int64, leftover []string, err error) {
	stored = map[sum]int64{}
	for i := range 16 {
		folder := filepath.Join(s.dir, "chunks", fmt.Sprintf("%x", i))
		if _, err := os.Lstat(folder); os.IsNotExist(err) {
			continue
		}
		if err := files.Prepare(folder); err != nil { // which is nobody else's
			return nil, nil, err
		}
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, nil, err
		}
		mine := func(name string) bool { return isSum(name) && name[:1] == filepath.Base(folder) }
		for _, e := range entries {
			name := e.Name()
			switch {
			case !e.Type().IsRegular():
			case isUnfinished(name, mine):
				leftover = append(leftover, filepath.Join(folder, name))
			case mine(name):
				info, err := e.Info()
				if err != nil {
					return nil, nil, err
				}
				if info.Size() > s.largestChunk() {
					leftover = append(leftover, filepath.Join(folder, name))
					continue
				}
				stored[parseSum(name)] = onDisk(int(info.Size()))
			}
		}
	}
	return stored, leftover, nil
}

// largestChunk is how many bytes the file of a chunk has at most.
func (s *Store) largestChunk() int64 { return int64(s.o.sizes.max + chunkHead + sealedBytes) }

// parseSum is the sum of a name that isSum accepts.
func parseSum(name string) (s sum) {
	_, _ = hex.Decode(s[:], []byte(name))
	return s
}

// readManifest reads the one in a file; nil: it is not what was written.
func (s *Store) readManifest(path string, e os.DirEntry) (*state, error) {
	b, err := readFile(path, nil, largestManifest)
	if errors.Is(err, errTooLong) {
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

// whole reports whether there is a file for each chunk.
func (s *state) whole(stored map[sum]int64) bool {
	whole := true
	s.each(func(c chunk) { whole = whole && stored[c.Sum] > 0 })
	return whole
}

// admit makes a state that was read one of the store's.
func (s *Store) admit(st *state, stored map[sum]int64) {
	s.states[st.ID] = st
	s.index.add(st)
	s.used += st.size
	st.each(func(c chunk) {
		if h := s.take(c.Sum); h.bytes == 0 {
			h.bytes = stored[c.Sum]
			s.used += h.bytes
		}
	})
}
