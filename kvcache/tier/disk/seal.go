package disk

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
)

const (
	secretBytes = 32
	nonceBytes  = 24
	tagBytes    = 16
)

// sealer encrypts with the owner's key: XAES-256-GCM (C2SP), AES-256-GCM under a key that is derived from the owner's and the
// first half of a random nonce of 192 bits.
//
// No nonce is used twice, for they are drawn, and a nonce of this length may be drawn 2⁸⁰ times before two are likely to be the
// same. A nonce made from slot and generation would need no room, but it would be wrong here: a crash may take back the
// generation in the table and leave the payload that was encrypted under it, and a directory that was copied or restored goes
// on from the same generation twice. Both would use a nonce for two payloads, which gives away the difference of
// the two and lets others forge more. For the same reason a nonce of 96 bits by itself would not do: it may be drawn 2³² times,
// which entries alone use up. Slot, generation and key are authenticated instead, so that nothing passes in another one's place.
type sealer struct {
	block  cipher.Block // of the owner's key
	subkey [16]byte     // K1 of CMAC
}

func newSealer(secret []byte) (*sealer, error) {
	b, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	s := &sealer{block: b}
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
func (s *sealer) derived(nonce []byte) (cipher.AEAD, error) {
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

// seal appends what plain is encrypted to, and its tag, to dst; the nonce is drawn.
func (s *sealer) seal(dst []byte, nonce *[nonceBytes]byte, plain, about []byte) ([]byte, error) {
	rand.Read(nonce[:]) // never fails
	return s.sealed(dst, nonce, plain, about)
}

// sealed is seal with a given nonce.
func (s *sealer) sealed(dst []byte, nonce *[nonceBytes]byte, plain, about []byte) ([]byte, error) {
	aead, err := s.derived(nonce[:])
	if err != nil {
		return nil, err
	}
	return aead.Seal(dst, nonce[12:], plain, about), nil
}

// open appends what was sealed to dst.
func (s *sealer) open(dst []byte, nonce *[nonceBytes]byte, sealed, about []byte) ([]byte, error) {
	aead, err := s.derived(nonce[:])
	if err != nil {
		return nil, err
	}
	return aead.Open(dst, nonce[12:], sealed, about)
}
