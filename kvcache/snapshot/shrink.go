package snapshot

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// shrinker compresses payloads.
type shrinker struct {
	encoder     *zstd.Encoder
	plain, room []byte
}

func newShrinker() (*shrinker, error) {
	// Rows of numbers repeat little. What they save, they save in exponents that are more frequent than others, not in what lies far back,
	// so that a small window, which is memory, is enough.
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithAllLitEntropyCompression(true), zstd.WithEncoderCRC(false),
		zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	return &shrinker{encoder: e}, err
}

// shrink is a payload as it is stored compressed, until the next call; nil: it is stored as it is. That depends on nothing but the payload,
// so that two snapshots have the same bytes for it.
func (s *shrinker) shrink(payload [][]byte) []byte {
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
		s.room = s.encoder.EncodeAll(s.room, s.room)
		if !saves(len(s.room)-tried, tried) {
			return nil
		}
	}
	s.room = s.encoder.EncodeAll(s.plain, le.AppendUint32(s.room[:0], uint32(n)))
	if frame := len(s.room) - 4; !saves(len(s.room), n) || n > mostShrunk*frame {
		return nil
	}
	return s.room
}

// saves reports whether so many bytes are worth to be stored for others.
func saves(bytes, plain int) bool { return bytes <= plain-plain/worthwhile-1 }

// expander undoes what a shrinker did.
type expander struct {
	decoder *zstd.Decoder
	plain   []byte
}

// expand is what was compressed, until the next call, or why it is not that. Memory is what the payload says that it has, which is no
// more than a multiple of its bytes.
func (x *expander) expand(payload []byte) (_ []byte, why string) {
	if len(payload) < 4 {
		return nil, "it ends within a field"
	}
	n, frame := le.Uint32(payload), payload[4:]
	if uint64(n) > mostShrunk*uint64(len(frame)) || uint64(n) > maxSection {
		return nil, fmt.Sprintf("%d bytes in a frame of %d", n, len(frame))
	}
	if x.decoder == nil {
		var err error
		if x.decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true)); err != nil {
			return nil, err.Error()
		}
	}
	if uint64(cap(x.plain)) < uint64(n) {
		x.plain = make([]byte, 0, n)
	}
	plain, err := x.decoder.DecodeAll(frame, x.plain[:0:n])
	if err != nil {
		return nil, err.Error()
	}
	if len(plain) != int(n) {
		return nil, fmt.Sprintf("%d bytes in a frame that says %d", len(plain), n)
	}
	return plain, ""
}
