package states

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// Identity is all that the bytes of a state depend on besides its tokens. Any text may be in a field; empty is a text, too.
type Identity struct {
	Model    string // digest of the weights, not the name of a file
	Engine   string // such as "llama.cpp"
	Version  string // of the engine, or of its format of states
	Settings string // that change the bytes: types of K and V, context length, rope scaling
	Adapter  string // digests and scales of adapters
	Salt     string // whose it is: what states of different salts have in common is not shared, and cannot be told
}

// fields are those of an identity by name, in the order in which a difference is told.
func (i *Identity) fields() [6]struct{ name, value string } {
	return [...]struct{ name, value string }{
		{"model", i.Model}, {"engine", i.Engine}, {"version", i.Version}, {"settings", i.Settings}, {"adapter", i.Adapter}, {"salt", i.Salt},
	}
}

// Key is what a state is found by.
type Key struct {
	Identity
	Name   string   // of the conversation, for runners that have names; "": none. Nearest does not look at it
	Tokens []uint32 // ids of the tokens that the state stands for; nil: not known, and Nearest does not find it
}

// ID names a state of a store, of which it is a sum of the key.
type ID [sha256.Size]byte

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
