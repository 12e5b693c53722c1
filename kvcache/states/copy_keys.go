// What blocks of copies are named.

package states

import (
	"crypto/hmac"
	"crypto/sha256"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// A state that is copied is blocks of these kinds. A block's key is the HMAC-SHA256 of its kind and of what is in brackets, under a key that is
// made from the salt, and from the secret where there is one; its root is the salt's.
//
//	chunk (sum)              a chunk, never compressed
//	manifest (ID, number)    a piece of the manifest, of as many bytes as the largest chunk; its key is not made from the salt
//	state (ID)               a record; its key is not made from the salt
//	through (mark)           a record of the state copied last whose tokens begin like this, for each whole stride of them
//	end (mark)               a record of the state copied last that ends within the stride after this
//
// A mark is such a sum of the mark before it and a stride of tokens; the first one is that of the identity. What a block has is filled up with
// zeros to a power of two or one and a half: tiers may have room by sizes, of which there are few then, and with a secret sizes tell less. With a secret
// a payload is a nonce and what is sealed about its key.
const (
	stride         = 256      // tokens
	largestCopied  = 64 << 20 // bytes of a manifest: that of a state of 28 GiB
	batchBlocks    = 64       // chunks of the largest size that are moved at once, or more smaller ones
	smallestFilled = 64
	recordMagic    = "fkvr"
	recordBytes    = recordHead + sha256.Size + 8
	kindChunk      = "chunk"
	kindManifest   = "manifest"
	kindState      = "state"
	kindThrough    = "through"
	kindEnd        = "end"
	nobodysSalt    = ""
	sealedAboutKey = "copy"
)

// copyKey makes keys of blocks of a salt. It is for one goroutine.
type copyKey func(kind string, of ...[]byte) tier.Key

func (n namer) copyKey(salt string) copyKey {
	h := hmac.New(sha256.New, n.key("copies", salt))
	return func(kind string, of ...[]byte) (k tier.Key) {
		h.Reset()
		h.Write([]byte(kind + "\x00"))
		for _, b := range of {
			h.Write(b)
		}
		h.Sum(k[:0])
		return k
	}
}

func (k copyKey) root() tier.Key       { return k("root") }
func (k copyKey) chunk(c sum) tier.Key { return k(kindChunk, c[:]) }

func (n namer) stateKey(id ID) tier.Key { return n.copyKey(nobodysSalt)(kindState, id[:]) }

// manifestKeys returns the keys of the pieces of a manifest with the given number of bytes.
func (n namer) manifestKeys(id ID, bytes, piece int) []tier.Key {
	k := n.copyKey(nobodysSalt)
	count := (bytes + piece - 1) / piece
	out := make([]tier.Key, 0, count)
	for i := range count {
		out = append(out, k(kindManifest, id[:], le.AppendUint32(nil, uint32(i))))
	}
	return out
}

// marks are those of an identity, and of each whole stride of tokens after it.
func (k copyKey) marks(i Identity, tokens []uint32) []tier.Key {
	of := Key{Identity: i}
	out := []tier.Key{k("mark", of.append(nil))}
	b := make([]byte, 0, 4*stride)
	for ; len(tokens) >= stride; tokens = tokens[stride:] {
		b = b[:0]
		for _, t := range tokens[:stride] {
			b = le.AppendUint32(b, t)
		}
		before := out[len(out)-1]
		out = append(out, k("mark", before[:], b))
	}
	return out
}
