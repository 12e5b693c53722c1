package states

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
)

// Put stores a state under a key, in place of the one that is there: all of its parts or, after an error, none, and then the state of before is
// still there, unless it had to go for room. The parts are read one after the other to their ends, and the tokens are copied. Parts that are like
// those of states of the same salt take little room and time. The error is ErrFull where there is no room, the one of a part's reader, or that
// of the disk; where the last sync of a Durable store fails, the state is there, and a crash of the machine may take it back.
func (s *Store) Put(ctx context.Context, k Key, o PutOptions, parts ...Source) (Info, error) {
	if err := checkPut(&k, o, parts); err != nil {
		return Info{}, err
	}
	if err := s.enter(); err != nil {
		return Info{}, err
	}
	defer s.leave()
	k.Tokens = append([]uint32(nil), k.Tokens...) // nil: none
	st := &state{Info: Info{ID: s.names.id(&k), Key: k, Pinned: o.Pin}}
	err := s.expireNow()
	if err == nil {
		err = s.putParts(ctx, st, parts)
	}
	if err == nil && s.o.Durable {
		err = s.syncFolders(st)
	}
	var info Info
	if err == nil {
		info, err = s.commit(st, o)
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(st)
		return Info{}, failed("put", err)
	}
	if s.o.Durable {
		if err := s.o.disk.sync(filepath.Join(s.dir, "states")); err != nil {
			return info, failed("put", err)
		}
	}
	return info, nil
}

func checkPut(k *Key, o PutOptions, parts []Source) error {
	if len(parts) == 0 || len(parts) > mostParts {
		return argument("put", "%d parts, must be from 1 to %d", len(parts), mostParts)
	}
	if o.TTL < 0 {
		return argument("put", "a lifetime of %v is negative", o.TTL)
	}
	n := 4*len(k.Tokens) + len(k.Name)
	for _, f := range k.fields() {
		n += len(f.value)
	}
	for i, p := range parts {
		if p.Content == nil {
			return argument("put", "part %q has no content", p.Name)
		}
		if slices.ContainsFunc(parts[:i], func(q Source) bool { return q.Name == p.Name }) {
			return argument("put", "two parts are named %q", p.Name)
		}
		n += len(p.Name)
	}
	if n > largestManifest/2 {
		return argument("put", "key and names have %d bytes, at most %d", n, largestManifest/2)
	}
	return nil
}

// putParts reads the parts, cuts them, and takes their chunks.
func (s *Store) putParts(ctx context.Context, st *state, parts []Source) error {
	k := newKeeper(s, st.Key.Salt)
	err := s.cutParts(ctx, k, st, parts)
	return cmp.Or(err, k.wait(st))
}

func (s *Store) cutParts(ctx context.Context, k *keeper, st *state, parts []Source) error {
	most := s.o.sizes.max
	buf := make([]byte, 4*most)
	for i, p := range parts {
		st.Parts = append(st.Parts, PartInfo{Name: p.Name})
		have, ended := 0, false
		for at, place := 0, 0; ; place++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !ended && have-at < most {
				have, at = copy(buf, buf[at:have]), 0
				n, err := fill(p.Content, buf[have:])
				have += n
				if ended = err == io.EOF; !ended && err != nil {
					return err
				}
			}
			if at == have {
				break
			}
			n := s.o.sizes.cut(buf[at:have])
			if st.Bytes += int64(n); st.Bytes > s.o.Bytes {
				return ErrFull{Need: st.Bytes, Budget: s.o.Bytes}
			}
			if err := k.put(i, place, buf[at:at+n]); err != nil {
				return err
			}
			st.Parts[i].Bytes, at = st.Parts[i].Bytes+int64(n), at+n
		}
	}
	return nil
}

// fill reads until the room is full. The error is the reader's, io.EOF among them.
func fill(r io.Reader, room []byte) (n int, err error) {
	for empty := 0; n < len(room) && err == nil && empty < 100; {
		var more int
		more, err = r.Read(room[n:])
		n += more
		if empty++; more > 0 {
			empty = 0
		}
	}
	if err == nil && n < len(room) {
		err = io.ErrNoProgress
	}
	return n, err
}

// commit writes the manifest, which makes the state the one of its key, and returns what it is then.
func (s *Store) commit(st *state, o PutOptions) (Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.expire(); err != nil {
		return Info{}, err
	}
	st.Stored = s.o.now()
	st.Used = st.Stored
	if o.TTL > 0 {
		st.Expires = st.Stored.Add(o.TTL)
	}
	if err := s.writeManifest(st); err != nil {
		return Info{}, err
	}
	if before := s.states[st.ID]; before != nil {
		s.remove(before)
	}
	s.states[st.ID] = st
	s.index.add(st)
	s.stats.Put++
	return st.Info, nil
}

// writeManifest writes it with what a state is now. The caller has the lock.
func (s *Store) writeManifest(st *state) error {
	b, err := st.encode(s.sealer)
	if err != nil {
		return err
	}
	if len(b) > largestManifest {
		return argument("put", "a manifest of %d bytes, at most %d", len(b), largestManifest)
	}
	n := onDisk(len(b))
	if err := s.reserve(n); err != nil {
		return err
	}
	if err := s.o.disk.write(s.manifestPath(st.ID), b, s.o.Durable); err != nil {
		s.used -= n
		return err
	}
	st.size = n
	s.touch(st.ID, st.Used)
	return nil
}

// syncFolders has the disk keep the names of a state's chunks.
func (s *Store) syncFolders(st *state) error {
	done := map[string]bool{}
	err := s.o.disk.sync(filepath.Join(s.dir, "chunks"))
	st.each(func(c chunk) {
		if dir := filepath.Dir(s.chunkPath(c.Sum)); !done[dir] {
			done[dir] = true
			err = errors.Join(err, s.o.disk.sync(dir))
		}
	})
	return err
}
