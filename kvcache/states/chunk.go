package states

import (
	"crypto/subtle"
	"fmt"
	"os"

	"github.com/ferrumkv/ferrumkv/internal/files"
	"github.com/ferrumkv/ferrumkv/internal/seal"
)

// chunk is a piece of a part.
type chunk struct {
	Sum   sum
	Bytes int
}

// worthwhile: a chunk is compressed where a part in so many is saved.
const worthwhile = 32

// coder makes what packs have of chunks, and reads it. It is for one goroutine.
//
// A pack has a chunk as it is, or compressed, which is what has fewer bytes than the chunk; where the store is sealed, sealed, with the nonce
// before it.
type coder struct {
	compressor Compressor
	sealer     *seal.Sealer
	sum        func([]byte) sum // of the salt
	out, room  []byte

	file *os.File // of the pack that was read last, which stays open: the next chunk is in it, most times
	of   *pack
}

// encode is what a pack has of a chunk: until the next call, or plain itself.
func (c *coder) encode(s sum, plain []byte) ([]byte, error) {
	payload := plain
	if c.compressor != nil {
		var err error
		if c.room, err = c.compressor.Compress(c.room[:0], plain); err != nil {
			return nil, err
		}
		if n := len(c.room); n > 0 && n <= len(plain)-len(plain)/worthwhile-1 {
			payload = c.room
		}
	}
	if c.sealer == nil {
		return payload, nil
	}
	out := append(c.out[:0], make([]byte, seal.NonceBytes)...)
	out = append(out, payload...)
	out = append(out, make([]byte, seal.TagBytes)...)
	c.out = out
	frame := out[seal.NonceBytes : len(out)-seal.TagBytes]
	_, err := c.sealer.Seal(frame[:0], (*[seal.NonceBytes]byte)(out), frame, about("chunk", s[:]))
	return out, err
}

// read makes dst, which has the chunk's bytes, what is at a place, or says why that is not the chunk. compared: the caller has the bytes that
// the chunk must have, and compares them, so that they are not summed.
func (c *coder) read(want chunk, p place, dst []byte, compared bool) (why string, err error) {
	if p.pack == nil {
		return "is missing", nil
	}
	if c.of != p.pack {
		c.close()
		if c.file, err = files.Open(p.pack.path, os.O_RDONLY); err != nil {
			return "", err
		}
		c.of = p.pack
	}
	b := dst
	if c.sealer != nil || p.stored != len(dst) {
		if cap(c.out) < p.stored {
			c.out = make([]byte, p.stored)
		}
		b = c.out[:p.stored]
	}
	if err := readAt(c.file, b, p.at); err != nil {
		return "", err
	}
	return c.decode(want, b, dst, compared), nil
}

// close lets go of the pack that was read last.
func (c *coder) close() {
	if c.of != nil {
		_ = c.file.Close()
	}
	c.file, c.of = nil, nil
}

// decode is read of bytes, which it overwrites. They may be dst.
func (c *coder) decode(want chunk, b, dst []byte, compared bool) (why string) {
	if c.sealer != nil {
		if len(b) < sealedBytes {
			return fmt.Sprintf("has %d bytes", len(b))
		}
		rest := b[seal.NonceBytes:]
		var err error
		if b, err = c.sealer.Open(rest[:0], (*[seal.NonceBytes]byte)(b), rest, about("chunk", want.Sum[:])); err != nil {
			return "was not sealed as it is"
		}
	}
	switch {
	case len(b) == len(dst):
		if len(b) > 0 && &b[0] != &dst[0] {
			copy(dst, b)
		}
	case len(b) > len(dst):
		return fmt.Sprintf("has %d bytes, and must have %d", len(b), len(dst))
	case c.compressor == nil:
		return whyCompressed
	default:
		out, err := c.compressor.Decompress(dst[:0:len(dst)], b)
		if err != nil {
			return "cannot be decompressed: " + err.Error()
		}
		if len(out) != len(dst) || &out[0] != &dst[0] {
			return fmt.Sprintf("has %d bytes after decompression, and must have %d", len(out), len(dst))
		}
	}
	if compared {
		return ""
	}
	if got := c.sum(dst); subtle.ConstantTimeCompare(got[:], want.Sum[:]) == 0 {
		return "has other bytes"
	}
	return ""
}

// whyCompressed is a chunk that is no worse for that there is no compressor.
const whyCompressed = "is compressed, and Options.Compressor is nil"
