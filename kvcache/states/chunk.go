package states

import (
	"crypto/subtle"
	"encoding/binary"
	"fmt"

	"github.com/ferrumkv/ferrumkv/internal/seal"
)

// chunk is a piece of a part.
type chunk struct {
	Sum   sum
	Bytes int
}

// A chunk's file is a frame, or a nonce and a frame that is sealed.
//
//	"fkvc"  version 1  coding  0  0  bytes of the chunk (4)  bytes of the payload (4)  payload
const (
	chunkMagic  = "fkvc"
	chunkHead   = 16
	sealedBytes = seal.NonceBytes + seal.TagBytes
	inTheClear  = 0
	compressed  = 1
	worthwhile  = 32 // a chunk is compressed where a part in so many is saved
)

var le = binary.LittleEndian

// coder makes files of chunks, and reads them. It is for one goroutine.
type coder struct {
	compressor Compressor
	sealer     *seal.Sealer
	sum        func([]byte) sum // of the salt
	file, room []byte
}

// encode is the file of a chunk, until the next call.
func (c *coder) encode(s sum, plain []byte) ([]byte, error) {
	payload, coding := plain, byte(inTheClear)
	if c.compressor != nil {
		var err error
		if c.room, err = c.compressor.Compress(c.room[:0], plain); err != nil {
			return nil, err
		}
		if len(c.room) <= len(plain)-len(plain)/worthwhile-1 {
			payload, coding = c.room, compressed
		}
	}
	out := c.file[:0]
	if c.sealer != nil {
		out = append(out, make([]byte, seal.NonceBytes)...)
	}
	head := len(out)
	out = append(out, chunkMagic...)
	out = append(out, schema, coding, 0, 0)
	out = le.AppendUint32(out, uint32(len(plain)))
	out = le.AppendUint32(out, uint32(len(payload)))
	out = append(out, payload...)
	if c.sealer != nil {
		out = append(out, make([]byte, seal.TagBytes)...)
		frame := out[head : len(out)-seal.TagBytes]
		if _, err := c.sealer.Seal(frame[:0], (*[seal.NonceBytes]byte)(out), frame, about("chunk", s[:])); err != nil {
			return nil, err
		}
	}
	c.file = out
	return out, nil
}

// about is what is authenticated with a file that is sealed: what it is, and its name.
func about(what string, name []byte) []byte {
	return append([]byte("ferrumkv states "+what+" 1 "), name...)
}

// decode makes dst, which has the chunk's bytes, what a file has, or says why it is not that chunk. file is overwritten. compared: the caller has
// the bytes that the chunk must have, and compares them, so that they are not summed.
func (c *coder) decode(want chunk, file, dst []byte, compared bool) (why string) {
	if c.sealer != nil {
		if len(file) < sealedBytes+chunkHead {
			return fmt.Sprintf("has %d bytes", len(file))
		}
		rest := file[seal.NonceBytes:]
		var err error
		if file, err = c.sealer.Open(rest[:0], (*[seal.NonceBytes]byte)(file), rest, about("chunk", want.Sum[:])); err != nil {
			return "was not sealed as it is"
		}
	}
	if len(file) < chunkHead {
		return fmt.Sprintf("has %d bytes", len(file))
	}
	if string(file[:4]) != chunkMagic || file[4] != schema || file[6]|file[7] != 0 {
		return "is not a chunk of version 1"
	}
	coding, plain, payload := file[5], le.Uint32(file[8:]), file[chunkHead:]
	if int64(plain) != int64(want.Bytes) || int64(le.Uint32(file[12:])) != int64(len(payload)) {
		return fmt.Sprintf("has %d bytes in %d, and must have %d", plain, len(payload), want.Bytes)
	}
	switch {
	case coding == inTheClear && len(payload) == len(dst):
		copy(dst, payload)
	case coding == compressed && c.compressor == nil:
		return whyCompressed
	case coding == compressed:
		out, err := c.compressor.Decompress(dst[:0:len(dst)], payload)
		if err != nil {
			return "cannot be decompressed: " + err.Error()
		}
		if len(out) != len(dst) || &out[0] != &dst[0] {
			return fmt.Sprintf("has %d bytes after decompression, and must have %d", len(out), len(dst))
		}
	default:
		return fmt.Sprintf("has coding %d and %d bytes", coding, len(payload))
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
