package states

import (
	"bytes"
	"errors"
	"io/fs"

	"github.com/ferrumkv/ferrumkv/internal/files"
)

// held is a chunk that states have, or a Put on its way. It is removed with the last of them.
type held struct {
	uses  int
	bytes int64 // that its file takes; 0: it was not written yet
}

// take notes one more use of a chunk. The caller has the lock.
func (s *Store) take(name sum) *held {
	h := s.chunks[name]
	if h == nil {
		h = &held{}
		s.chunks[name] = h
	}
	h.uses++
	return h
}

// drop gives up a state's uses of chunks. A file that cannot be removed now is when the directory is opened next. The caller has the lock.
func (s *Store) drop(st *state) {
	st.each(func(c chunk) {
		h := s.chunks[c.Sum]
		if h.uses--; h.uses > 0 {
			return
		}
		delete(s.chunks, c.Sum)
		if h.bytes > 0 {
			s.used -= h.bytes
			_ = s.o.disk.remove(s.chunkPath(c.Sum))
		}
	})
}

// keep takes a chunk, and stores it if it is not there whole. After an error it has not taken it.
func (s *Store) keep(w *coder, plain, room []byte) (c chunk, err error) {
	c = chunk{w.sum(plain), len(plain)}
	s.mu.Lock()
	h := s.take(c.Sum)
	there := h.bytes > 0
	s.mu.Unlock()
	if there && s.read(w, c, room[:len(plain)], true) == nil && bytes.Equal(plain, room[:len(plain)]) {
		s.mu.Lock()
		s.stats.Shared += int64(len(plain))
		s.mu.Unlock()
		return c, nil
	}
	if err = s.store(w, c, h, plain); err != nil {
		s.mu.Lock()
		s.drop(&state{chunks: [][]chunk{{c}}})
		s.mu.Unlock()
	}
	return c, err
}

// store writes the file of a chunk. Two that store the same one write the same, each whole.
func (s *Store) store(w *coder, c chunk, h *held, plain []byte) error {
	b, err := w.encode(c.Sum, plain)
	if err != nil {
		return err
	}
	n, path := onDisk(len(b)), s.chunkPath(c.Sum)
	s.mu.Lock()
	err = s.reserve(n)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err = makeFolder(path); err == nil {
		err = s.o.disk.write(path, b, s.o.Durable)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.used -= n
		return err
	}
	s.used -= h.bytes // of the file that this one has replaced
	h.bytes = n
	s.stats.Written += int64(len(plain))
	return nil
}

// read makes dst, which has the chunk's bytes, what is stored; compared as for coder.decode. errLost is a chunk that is not there as it was
// stored; other errors may pass.
func (s *Store) read(w *coder, c chunk, dst []byte, compared bool) error {
	b, err := readFile(s.chunkPath(c.Sum), w.file, s.largestChunk())
	w.file = b[:cap(b)]
	var refused files.ErrRefused
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errLost{c, "is missing"}
	case errors.Is(err, errTooLong):
		return errLost{c, "has another length"}
	case errors.As(err, &refused):
		return errLost{c, "is no file of the store: " + refused.What}
	case err != nil:
		return err
	}
	switch why := w.decode(c, b, dst, compared); why {
	case "":
		return nil
	case whyCompressed:
		return ErrConfig{"Compressor", "chunk " + c.Sum.String() + " " + why}
	default:
		return errLost{c, why}
	}
}

// errLost is a chunk that is not there as it was stored.
type errLost struct {
	chunk chunk
	what  string
}

func (e errLost) Error() string { return "chunk " + e.chunk.Sum.String() + " " + e.what }
