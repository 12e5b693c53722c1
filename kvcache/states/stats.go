package states

// Stats is what a store has, and what it has done since it was opened.
type Stats struct {
	States, Pinned int
	Chunks         int
	Bytes          int64 // that the files take, in blocks of 4 KiB, with what is dead in packs
	Content        int64 // bytes of all states, as if each had its own
	Budget, Floor  int64
	Put, Got       uint64 // states
	Missed         uint64 // of states that were not there
	Evicted        uint64 // states, for room
	Expired        uint64 // states
	Damaged        uint64 // states that were given up since they could not be read as they were put, also when it was opened
	Written        int64  // bytes of chunks, by Put
	Shared         int64  // bytes of chunks that were there
	Copied         uint64 // states, into Options.Copies
	NotCopied      uint64 // states that were put, and whose copying failed, or for which too many others waited
	Fetched        uint64 // states, from Options.Copies; they count as Put, too
}

// Stats returns what the store has now.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Bytes, out.Budget, out.Floor, out.Chunks, out.States = s.used, s.o.Bytes, s.o.Floor, len(s.chunks), len(s.states)
	for _, st := range s.states {
		out.Content += st.Bytes
		if st.Pinned {
			out.Pinned++
		}
	}
	return out
}
