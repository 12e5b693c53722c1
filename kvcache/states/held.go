package states

import (
	"bytes"
	"errors"
	"io/fs"

	"github.com/ferrumkv/ferrumkv/internal/files"
)

// held is a chunk that states have, or a Put on its way. It goes with the last of them.
type held struct {
	uses int
	place
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

// drop gives up a state's uses of chunks. The caller has the lock.
func (s *Store) drop(st *state) {
	st.each(func(c chunk) {
		h := s.chunks[c.Sum]
		if h.uses--; h.uses > 0 {
			return
		}
		delete(s.chunks, c.Sum)
		s.move(h, place{})
	})
}

// move gives a chunk another place, or none. The caller has the lock.
func (s *Store) move(h *held, to place) {
	from := h.pack
	if from != nil {
		from.live -= h.cost()
	}
	if h.place = to; to.pack != nil {
		to.pack.live += to.cost()
	}
	if from != nil {
		s.retire(from)
	}
}

// retire has a pack removed of which nothing is used, and looked at again where something is not used any more. The caller has the lock.
func (s *Store) retire(p *pack) {
	s.untidy = true
	if !s.packs[p] {
		return
	}
	if p.live == 0 {
		delete(s.packs, p)
		delete(s.worn, p)
		s.dead = append(s.dead, dead{p.path, p.size})
	} else if s.gain(p) > 0 {
		s.worn[p] = true
	}
}

// gain is what would be got back of a pack.
func (s *Store) gain(p *pack) int64 { return p.size - s.whole(p.live) }

// keep takes a chunk, and stores it if it is not there whole. After an error it has not taken it.
func (s *Store) keep(w *coder, to *packer, plain, room []byte) (c chunk, err error) {
	c = chunk{w.sum(plain), len(plain)}
	s.mu.Lock()
	h := s.take(c.Sum)
	there := h.pack != nil
	s.mu.Unlock()
	if there && s.read(w, c, h, room[:len(plain)], true) == nil && bytes.Equal(plain, room[:len(plain)]) {
		s.mu.Lock()
		s.stats.Shared += int64(len(plain))
		s.mu.Unlock()
		return c, nil
	}
	var written bool
	b, err := w.encode(c.Sum, plain)
	if err == nil {
		written, err = to.append(entry{chunk: c, heals: there}, b)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.drop(&state{chunks: [][]chunk{{c}}})
		return c, err
	}
	if written {
		s.stats.Written += int64(len(plain))
	} else {
		s.stats.Shared += int64(len(plain))
	}
	return c, nil
}

// read makes dst, which has the chunk's bytes, what is stored; compared as for coder.read. errLost is a chunk that is not there as it was
// stored; other errors may pass.
func (s *Store) read(w *coder, c chunk, h *held, dst []byte, compared bool) error {
	for {
		s.mu.Lock()
		p := h.place
		s.mu.Unlock()
		why, err := w.read(c, p, dst, compared)
		var refused files.ErrRefused
		switch {
		case errors.Is(err, fs.ErrNotExist):
			why = "is missing"
		case errors.Is(err, errLength):
			why = "is behind the end of its pack"
		case errors.As(err, &refused): // such as by its mode, which was changed and can be changed back
			return ErrConfig{"packs", refused.What}
		case err != nil:
			return err
		case why == "":
			return nil
		case why == whyCompressed:
			return ErrConfig{"Compressor", "chunk " + c.Sum.String() + " " + why}
		}
		s.mu.Lock()
		moved := h.place != p // meanwhile, and what is there now is something else
		s.mu.Unlock()
		if !moved {
			return errLost{c, why}
		}
	}
}

// errLost is a chunk that is not there as it was stored.
type errLost struct {
	chunk chunk
	what  string
}

func (e errLost) Error() string { return "chunk " + e.chunk.Sum.String() + " " + e.what }
