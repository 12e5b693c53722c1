// Package seal encrypts what is written to places that others may read or change.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
)

// Bytes of a secret, of a nonce, and of the tag behind what was sealed.
const (
	SecretBytes = 32
	NonceBytes  = 24
	TagBytes    = 16
)

// Sealer encrypts with the owner's key: XAES-256-GCM (C2SP), AES-256-GCM under a key that is derived from the owner's and the
// first half of a random nonce of 192 bits. It is safe for concurrent use.
//
// No nonce is used twice, for they are drawn, and a nonce of this length may be drawn 2⁸⁰ times before two are likely to be the
// same. A nonce of 96 bits by itself would not do: it may be drawn 2³² times, which the entries of a disk alone use up. Nor would one
// that is made from a place and a counter: files that were copied or restored go on from the same counter twice. What says whose
// the bytes are and where is authenticated with them instead (about), so that nothing passes in another one's place.
type Sealer struct {
	block  cipher.Block // of the owner's key
	subkey [16]byte     // K1 of CMAC
}

// New returns a Sealer with a secret of SecretBytes, which it does not keep.
func New(secret []byte) (*Sealer, error) {
	if len(secret) != SecretBytes {
		return nil, fmt.Errorf("seal: a secret of %d bytes, must have %d", len(secret), SecretBytes)
	}
	b, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	s := &Sealer{block: b}
	b.Encrypt(s.subkey[:], s.subkey[:])
	var carry byte
	for i := len(s.subkey) - 1; i >= 0; i-- {
		next := s.subkey[i] >> 7
		s.subkey[i] = s.subkey[i]<<1 | carry
		carry = next
	}
	s.subkey[15] ^= carry * 0x87
	return s, nil
}

// derived is AES-256-GCM under the key of a nonce's first half: two CMACs of one block, counters 1 and 2.
func (s *Sealer) derived(nonce []byte) (cipher.AEAD, error) {
	var key [32]byte
	for i := range 2 {
		half := key[16*i : 16*i+16]
		copy(half, []byte{0, byte(i + 1), 'X', 0})
		copy(half[4:], nonce[:12])
		subtle.XORBytes(half, half, s.subkey[:])
		s.block.Encrypt(half, half)
	}
	b, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(b)
}

// Seal appends what plain is encrypted to, and its tag, to dst, and draws the nonce. dst may be plain[:0], and must not overlap it
// in another way.
func (s *Sealer) Seal(dst []byte, nonce *[NonceBytes]byte, plain, about []byte) ([]byte, error) {
	rand.Read(nonce[:]) // never fails
	return s.sealed(dst, nonce, plain, about)
}

// sealed is Seal with a given nonce.
func (s *Sealer) sealed(dst []byte, nonce *[NonceBytes]byte, plain, about []byte) ([]byte, error) {
	aead, err := s.derived(nonce[:])
	if err != nil {
		return nil, err
	}
	return aead.Seal(dst, nonce[12:], plain, about), nil
}

// Open appends what was sealed, about the same, to dst. dst may be sealed[:0], and must not overlap it in another way; after an error
// nothing of its room is what was sealed.
func (s *Sealer) Open(dst []byte, nonce *[NonceBytes]byte, sealed, about []byte) ([]byte, error) {
	aead, err := s.derived(nonce[:])
	if err != nil {
		return nil, err
	}
	return aead.Open(dst, nonce[12:], sealed, about)
}
