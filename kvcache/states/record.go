package states

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/internal/seal"
)

// A record, which is a manifest or the index of a pack, is a head of 8 bytes and a body, with the SHA-256 of both at its end, or sealed instead:
//
//	magic (4)  version 2  sealed (0 or 1)  0  0  |  body  sum (32)    or    nonce (24)  sealed body and tag
const (
	schema        = 2
	recordHead    = 8
	largestRecord = 256 << 20
	sealedBytes   = seal.NonceBytes + seal.TagBytes
)

var le = binary.LittleEndian

// about is what is authenticated with what is sealed: what it is, and its name.
func about(what string, name []byte) []byte {
	return append([]byte("ferrumkv states "+what+" 2 "), name...)
}

// record makes one of a body, which a function appends.
func record(magic string, sealer *seal.Sealer, about []byte, body func([]byte) []byte) ([]byte, error) {
	b := append([]byte(magic), schema, 0, 0, 0)
	if sealer == nil {
		b = body(b)
		sum := sha256.Sum256(b)
		return append(b, sum[:]...), nil
	}
	b[5] = 1
	at := len(b) + seal.NonceBytes
	b = body(append(b, make([]byte, seal.NonceBytes)...))
	b = append(b, make([]byte, seal.TagBytes)...)
	plain := b[at : len(b)-seal.TagBytes]
	_, err := sealer.Seal(plain[:0], (*[seal.NonceBytes]byte)(b[recordHead:]), plain, append(about, b[:recordHead]...))
	return b, err
}

var errWritten = errors.New("it is not what was written")

// openRecord returns the body of a record, which it overwrites.
func openRecord(magic string, b []byte, sealer *seal.Sealer, about []byte) ([]byte, error) {
	if len(b) < recordHead+sha256.Size || string(b[:4]) != magic {
		return nil, errWritten
	}
	if b[4] != schema || b[5] > 1 || b[6]|b[7] != 0 {
		return nil, fmt.Errorf("version %d and flags %d, and not version %d", b[4], b[5], schema)
	}
	if (b[5] == 1) != (sealer != nil) {
		return nil, fmt.Errorf("sealed is %v in it", b[5] == 1)
	}
	if sealer == nil {
		end := len(b) - sha256.Size
		if sum := sha256.Sum256(b[:end]); subtle.ConstantTimeCompare(sum[:], b[end:]) == 0 {
			return nil, errWritten
		}
		return b[recordHead:end], nil
	}
	rest := b[recordHead:]
	if len(rest) < sealedBytes {
		return nil, errWritten
	}
	sealed := rest[seal.NonceBytes:]
	body, err := sealer.Open(sealed[:0], (*[seal.NonceBytes]byte)(rest), sealed, append(about, b[:recordHead]...))
	if err != nil {
		return nil, errWritten
	}
	return body, nil
}

// reader takes fields from the front of bytes. After one that is not there it is wrong, and returns zeros.
type reader struct {
	rest  []byte
	wrong bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.rest) {
		r.wrong, r.rest = true, nil
		return make([]byte, min(n, chunkEntry))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

// count is the length of a list whose elements have so many bytes at least, for which there is so much.
func (r *reader) count(each int) int {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > uint64(len(r.rest)-size)/uint64(each) {
		r.wrong, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return int(n)
}

func (r *reader) text() string { return string(r.take(r.count(1))) }
func (r *reader) word() uint64 { return le.Uint64(r.take(8)) }
