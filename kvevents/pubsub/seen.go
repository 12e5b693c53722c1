// A batch that comes again, by a replay or live, is known by its number and a hash.

package pubsub

import "hash/maphash"

const seenBatches = 1024

// seen knows the last batches that were returned by their hashes, to tell a batch that comes again from another one of the same number.
type seen struct {
	seed     maphash.Seed // by which no publisher can make two batches of the same hash
	from, to uint64       // sequence numbers
	hashes   [seenBatches]uint64
}

func newSeen() seen { return seen{seed: maphash.MakeSeed()} }

func (s *seen) forget() { s.from, s.to = 0, 0 }

// add has a batch that follows the last, unless that was forgotten.
func (s *seen) add(sequence uint64, payload []byte) {
	if s.from == s.to {
		s.from = sequence
	}
	s.hashes[sequence%seenBatches] = maphash.Bytes(s.seed, payload)
	s.to = sequence + 1
	if s.to-s.from > seenBatches {
		s.from = s.to - seenBatches
	}
}

func (s *seen) same(sequence uint64, payload []byte) bool {
	return sequence >= s.from && sequence < s.to && s.hashes[sequence%seenBatches] == maphash.Bytes(s.seed, payload)
}
