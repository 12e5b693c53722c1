package snapshot

import "fmt"

// Compressor compresses chunks. The format knows zstd, as package snapshot/zstd has it.
type Compressor interface {
	// Compress appends a frame with what plain has to dst. The same bytes have the same frame.
	Compress(dst, plain []byte) ([]byte, error)
	// Decompress appends what a frame has to dst. An error is that it has more than dst has room for, for which no memory is taken, or is none.
	Decompress(dst, frame []byte) ([]byte, error)
}

// shrinker compresses payloads.
type shrinker struct {
	Compressor
	plain, room []byte
}

// shrink is a payload as it is stored compressed, until the next call; nil: it is stored as it is. That depends on nothing but the payload,
// so that two snapshots have the same bytes for it.
func (s *shrinker) shrink(payload [][]byte) (_ []byte, err error) {
	s.plain = s.plain[:0]
	for _, p := range payload {
		s.plain = append(s.plain, p...)
	}
	n := len(s.plain)
	if n >= 4*samples*sampleBytes { // rows that save nothing are many, and a few places say so
		s.room = s.room[:0]
		for i := range samples {
			at := (n - sampleBytes) / (samples - 1) * i
			s.room = append(s.room, s.plain[at:at+sampleBytes]...)
		}
		tried := len(s.room)
		if s.room, err = s.Compress(s.room, s.room); err != nil || !saves(len(s.room)-tried, tried) {
			return nil, err
		}
	}
	if s.room, err = s.Compress(le.AppendUint32(s.room[:0], uint32(n)), s.plain); err != nil {
		return nil, err
	}
	if frame := len(s.room) - 4; !saves(len(s.room), n) || n > mostShrunk*frame {
		return nil, nil
	}
	return s.room, nil
}

// saves reports whether so many bytes are worth to be stored for others.
func saves(bytes, plain int) bool { return bytes <= plain-plain/worthwhile-1 }

// expand is what was compressed, until the next call, or why it is not that. Memory is what the payload says that it has, which is no
// more than a multiple of its bytes.
func (s *shrinker) expand(payload []byte) (_ []byte, why string) {
	if len(payload) < 4 {
		return nil, "it ends within a field"
	}
	n, frame := le.Uint32(payload), payload[4:]
	if uint64(n) > mostShrunk*uint64(len(frame)) || uint64(n) > maxSection {
		return nil, fmt.Sprintf("%d bytes in a frame of %d", n, len(frame))
	}
	if uint64(cap(s.plain)) < uint64(n) {
		s.plain = make([]byte, 0, n)
	}
	plain, err := s.Decompress(s.plain[:0:n], frame)
	if err != nil {
		return nil, err.Error()
	}
	if len(plain) != int(n) {
		return nil, fmt.Sprintf("%d bytes in a frame that says %d", len(plain), n)
	}
	return plain, ""
}
