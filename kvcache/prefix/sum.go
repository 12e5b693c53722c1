package prefix

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
)

// A sum of one or two blocks of SHA-256 takes a third less where the message is padded already: then it stands in the state that
// package crypto/sha256 gives out, and no copy of the hash has to be finalized.
const (
	sumAt      = 4 // after "sha\x03"
	stateSize  = sumAt + sha256.Size + sha256.BlockSize + 8
	maxPadding = sha256.BlockSize + 8 // and the one bit
)

// inState says that the sum is where it is looked for in a state: a later crypto/sha256 may write others.
var inState = func() bool {
	h, want := sha256.New(), sha256.Sum256([]byte("abc"))
	h.Write(padded(append(make([]byte, 0, sha256.BlockSize), "abc"...), len("abc")))
	appender, ok := h.(encoding.BinaryAppender)
	if !ok {
		return false
	}
	state, err := appender.AppendBinary(nil)
	return err == nil && len(state) == stateSize && bytes.Equal(state[sumAt:][:sha256.Size], want[:])
}()

// padded is a message of size bytes, or its last bytes, and what FIPS 180-4 pads it with. There must be room for that.
func padded(message []byte, size int) []byte {
	const end = sha256.BlockSize - 8 // of the zeros
	message = append(message, 0x80)
	zeros := message[len(message):][:uint(end-1-size)%sha256.BlockSize]
	clear(zeros)
	return binary.BigEndian.AppendUint64(message[:len(message)+len(zeros)], 8*uint64(size))
}
