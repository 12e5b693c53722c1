// Package zstd compresses the chunks of snapshots (snapshot.Options.Compressor), with zstd (RFC 8878). It is a room of its own so that
// programs that compress nothing do not link a compressor.
package zstd

import (
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Compressor compresses with zstd, fast rather than well. Streams that are written and read at once may have the same one.
type Compressor struct{}

// Both are used by one at a time, and have memory of their own.
var encoders, decoders sync.Pool

// Compress appends a frame with what plain has to dst.
func (Compressor) Compress(dst, plain []byte) ([]byte, error) {
	e, ok := encoders.Get().(*zstd.Encoder)
	if !ok {
		// Rows of numbers repeat little. What they save, they save in exponents that are more frequent than others, not in what lies far
		// back, so that a small window, which is memory, is enough.
		var err error
		if e, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithAllLitEntropyCompression(true), zstd.WithEncoderCRC(false),
			zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true)); err != nil {
			return dst, err
		}
	}
	defer encoders.Put(e)
	return e.EncodeAll(plain, dst), nil
}

// Decompress appends what a frame has to dst, or frames one behind another. More than dst has room for is an error, and no memory is taken
// for it.
func (Compressor) Decompress(dst, frame []byte) ([]byte, error) {
	d, ok := decoders.Get().(*zstd.Decoder)
	if !ok {
		var err error
		if d, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true)); err != nil {
			return dst, err
		}
	}
	defer decoders.Put(d)
	return d.DecodeAll(frame, dst)
}
