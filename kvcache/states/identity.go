package states

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// Identity is all that the bytes of a state depend on besides its tokens. A field may hold any text, and matches only the same text; the empty
// string is no wildcard.
type Identity struct {
	Model    string // digest of the weights, not the name of a file
	Engine   string // name of the engine, such as "llama.cpp"
	Version  string // version of the engine, or of its format of states
	Settings string // settings that change the bytes: types of K and V, context length, rope scaling
	Adapter  string // digests and scales of adapters
	Salt     string // owner of the state, such as a tenant; states of different salts share nothing, and neither shows what the other has
}

// fields are those of an identity by name, in the order in which a difference is told.
func (i *Identity) fields() [6]struct{ name, value string } {
	return [...]struct{ name, value string }{
		{"model", i.Model}, {"engine", i.Engine}, {"version", i.Version}, {"settings", i.Settings}, {"adapter", i.Adapter}, {"salt", i.Salt},
	}
}

// Key is what a state is stored and found under. States whose keys differ in any field, or in any token, are different states.
type Key struct {
	Identity
	Name   string   // name of the conversation, for runners that have names; "" for none. Nearest ignores it
	Tokens []uint32 // ids of the tokens that the state stands for; nil if they are not known, and then Nearest does not find the state
}

// ID identifies a state. It is a sum of the state's key, so it is the same in every directory with the same secret, or without one.
type ID [sha256.Size]byte

// String returns the ID in hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// sum is that of a chunk, and in hexadecimal digits its name.
type sum [sha256.Size]byte

func (s sum) String() string { return hex.EncodeToString(s[:]) }

// namer makes names of files: sums that nobody without the secret can compute, where there is one.
type namer struct{ secret []byte }

func (n namer) key(of, salt string) []byte {
	h := hmac.New(sha256.New, n.secret)
	h.Write([]byte("ferrumkv states 1 " + of + "\x00" + salt))
	return h.Sum(nil)
}

// id is that of a key.
func (n namer) id(k *Key) (id ID) {
	h := hmac.New(sha256.New, n.key("ids", ""))
	h.Write(k.append(nil))
	h.Sum(id[:0])
	return id
}

// check tells one secret from another.
func (n namer) check() string { return hex.EncodeToString(n.key("check", "")) }

// summer returns the function that names the chunks of a salt. It is for one goroutine.
func (n namer) summer(salt string) func([]byte) sum {
	h := hmac.New(sha256.New, n.key("chunks", salt))
	return func(b []byte) (s sum) {
		h.Reset()
		h.Write(b)
		h.Sum(s[:0])
		return s
	}
}
