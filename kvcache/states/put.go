package states

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
)

// Put stores a state under a key, and replaces the one that is stored there. It stores all parts or, after an error, none; then the previous state is
// still there, unless it was evicted for room. Put reads the parts to their ends, one after the other, and copies the tokens. Parts that resemble
// those of other states of the same salt take little room and time.
//
// Put returns ErrArgument if an argument is invalid, ErrFull if there is no room, and otherwise the error of a part's reader, of the context or of the
// disk. If only the last sync of a Durable store fails, the state is stored, but a crash of the machine may undo that.
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
	err := s.putParts(ctx, st, parts)
	var info Info
	var before *state
	if err == nil {
		info, before, err = s.commit(st, o)
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(st)
		return Info{}, failed("put", err)
	}
	if s.copies != nil && o.fetched == nil {
		s.copies.offer(info.ID)
	}
	if s.o.Durable {
		err = s.o.disk.sync(filepath.Join(s.dir, "states"))
	}
	if before != nil { // whose chunks were there until now, since its manifest could have come back
		s.mu.Lock()
		s.unread(before)
		s.mu.Unlock()
	}
	if err != nil {
		return info, failed("put", err)
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
	if n > largestRecord/2 {
		return argument("put", "key and names have %d bytes, at most %d", n, largestRecord/2)
	}
	return nil
}

// putParts stores the chunks of the parts.
func (s *Store) putParts(ctx context.Context, st *state, parts []Source) error {
	k := newKeeper(s, st)
	read := false
	defer func() {
		if !read { // a reader panics, and a caller that recovers finds the store as it was
			_ = k.fail(errPanic)
			_ = k.wait()
			s.mu.Lock()
			s.drop(st)
			s.mu.Unlock()
		}
	}()
	for i, p := range parts {
		st.Parts = append(st.Parts, PartInfo{Name: p.Name})
		if err := k.put(ctx, i, p.Content); err != nil {
			break // which wait returns
		}
	}
	read = true
	return k.wait()
}

var errPanic = errors.New("a reader panics")

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

// commit writes the manifest, which makes the state the one of its key, and returns what it is then, and which one it has replaced, as one that is
// being read.
func (s *Store) commit(st *state, o PutOptions) (_ Info, before *state, _ error) {
	s.mu.Lock()
	st.Stored = s.o.now()
	s.mu.Unlock()
	st.Used = st.Stored
	if o.TTL > 0 {
		if st.Expires = st.Stored.Add(o.TTL); st.Expires.After(lastTime) {
			st.Expires = lastTime
		}
	} else if o.fetched != nil {
		st.Expires = o.fetched.Expires
	}
	f, err := s.draftManifest(st, s.reserve)
	if err != nil {
		return Info{}, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.overtaken(o, st.ID) {
		s.scrap(f, st.size)
		return Info{}, nil, errOvertaken
	}
	if err := f.finish(); err != nil {
		s.scrap(f, st.size)
		return Info{}, nil, err
	}
	s.touch(st.ID, st.Used)
	if before = s.states[st.ID]; before != nil {
		before.readers++
		s.remove(before)
	}
	s.states[st.ID] = st
	s.index.add(st)
	s.willExpire(st)
	s.stats.Put++
	return st.Info, before, nil
}

// draftManifest writes what a state is now, in room that a function counts. The draft has its name when the caller, who has the lock then, finishes it, or
// is scrapped.
func (s *Store) draftManifest(st *state, reserve func(n int64) error) (*draft, error) {
	b, err := st.encode(s.sealer)
	if err != nil {
		return nil, err
	}
	if len(b) > largestRecord {
		return nil, argument("put", "a manifest of %d bytes, at most %d", len(b), largestRecord)
	}
	st.size = onDisk(int64(len(b)))
	if err := reserve(st.size); err != nil {
		return nil, err
	}
	f, err := s.o.disk.draft(s.manifestPath(st.ID))
	if err == nil {
		err = f.end(b, s.o.Durable)
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.scrap(f, st.size)
		return nil, err
	}
	return f, nil
}
