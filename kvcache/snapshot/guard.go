package snapshot

import (
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/seal"
)

// guard seals and opens the sections of a stream.
type guard struct {
	sealer *seal.Sealer
	id     [idBytes]byte // of the stream; zeros in its first section, which says it
	said   []byte        // room of about
}

// guard is that of a stream; nil: it is in the clear.
func (o *Options) guard() (*guard, error) {
	if o.Secret == nil {
		return nil, nil
	}
	if n := len(o.Secret); n != seal.SecretBytes {
		return nil, backend.ErrConfig{Package: "snapshot", Name: "Secret", Value: fmt.Sprintf("%d bytes", n), Why: fmt.Sprintf("must have %d random bytes", seal.SecretBytes)}
	}
	s, err := seal.New(o.Secret)
	return &guard{sealer: s}, err
}

// newID draws that of a stream.
func newID() (id [idBytes]byte) {
	rand.Read(id[:]) // never fails
	return id
}

// about is what is authenticated with a payload, until the next call: of which stream it is, where, and what its head says.
func (g *guard) about(number int, head *[sectionBytes]byte) []byte {
	h := header()
	g.said = append(append(g.said[:0], h[:summedHeader]...), g.id[:]...)
	g.said = append(le.AppendUint32(g.said, uint32(number)), head[:openHead]...)
	return g.said
}

// seal makes dst the sealed payload of a section: a nonce, and what the pieces of it are sealed to.
func (g *guard) seal(dst []byte, number int, head *[sectionBytes]byte, payload [][]byte) ([]byte, error) {
	n := sealBytes
	for _, p := range payload {
		n += len(p)
	}
	dst = slices.Grow(dst[:0], n)[:seal.NonceBytes]
	for _, p := range payload {
		dst = append(dst, p...)
	}
	plain := dst[seal.NonceBytes:]
	_, err := g.sealer.Seal(plain[:0], (*[seal.NonceBytes]byte)(dst), plain, g.about(number, head))
	return dst[:n], err
}

// open opens a payload in its place; false: it was not sealed as this section of this stream.
func (g *guard) open(number int, head *[sectionBytes]byte, payload []byte) ([]byte, bool) {
	if len(payload) < sealBytes {
		return nil, false
	}
	rest := payload[seal.NonceBytes:]
	plain, err := g.sealer.Open(rest[:0], (*[seal.NonceBytes]byte)(payload), rest, g.about(number, head))
	return plain, err == nil
}
