package states

// Stats says what a store contains now, and counts what it has done since it was opened.
type Stats struct {
	States, Pinned int
	Chunks         int
	Bytes          int64  // bytes that manifests and packs take, in blocks of 4 KiB, including dead bytes in packs
	Content        int64  // bytes of all states, as if nothing were shared
	Budget, Floor  int64  // bytes; defaults of Options are filled in
	Put, Got       uint64 // states stored by Put, and read by Get
	Missed         uint64 // lookups of states that were not there
	Evicted        uint64 // states removed for room
	Expired        uint64 // states removed because their lifetime was over
	Damaged        uint64 // states given up because they could not be read as they were put, including those found by Open
	Written        int64  // bytes of chunks that Put wrote, before compression
	Shared         int64  // bytes of chunks that Put found stored already
	Copied         uint64 // states copied to Options.Copies
	NotCopied      uint64 // states that were put but not copied, because copying failed or too many others waited
	Fetched        uint64 // states brought here from Options.Copies; they also count in Put
}

// Stats returns the current statistics. It does not remove states whose lifetime is over, as other calls do, and counts them until another call does.
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
