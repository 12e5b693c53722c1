package prefix

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/internal/keytext"
)

// Scope says who may share blocks. Equal tokens in different scopes share nothing.
type Scope struct {
	// Salt separates tenants (vLLM's cache_salt). nil is no salt; nil, an empty salt and "0" are
	// three different ones. Statistics, quotas and floors are kept for each salt.
	Salt []byte
	// Adapter is the fine-tuning of the weights, such as LoRA; nil: none.
	Adapter *Adapter
}

// Adapter names a LoRA, or another change of the weights. Other weights under the same ID need
// another Version.
type Adapter struct{ ID, Version string }

// Clone is the same scope in memory of its own.
func (s Scope) Clone() Scope {
	s.Salt = bytes.Clone(s.Salt)
	if s.Adapter != nil {
		a := *s.Adapter
		s.Adapter = &a
	}
	return s
}

// Equal reports whether two scopes share blocks.
func (s Scope) Equal(o Scope) bool {
	if (s.Salt == nil) != (o.Salt == nil) || !bytes.Equal(s.Salt, o.Salt) || (s.Adapter == nil) != (o.Adapter == nil) {
		return false
	}
	return s.Adapter == nil || *s.Adapter == *o.Adapter
}

// Persistable is nil when blocks of the scope may be stored under their keys for longer than the
// process lives. ErrArgument for an adapter without a version. For the model see
// kvcache.Config.Persistable.
func (s Scope) Persistable() error {
	if s.Adapter == nil || s.Adapter.Version != "" {
		return nil
	}
	return ErrArgument{Op: "persist", Why: fmt.Sprintf("adapter %q has no version, and other weights under its name would be taken for it; set Adapter.Version, to a digest of its weights say", s.Adapter.ID)}
}

// Root is the start of all paths of a scope. It is a plain value: making one changes no tree.
type Root struct {
	Key      Key    // of fingerprint and scope: the parent of the first block's key
	tenant   Key    // of the salt, zero without one: for a process's own books
	unsalted uint64 // of the rest: to tell a foreign salt from a foreign model
}

// Root is the root of a scope.
func (f Fingerprint) Root(s Scope) Root {
	root := keytext.New("root")
	blocks := f.Key()
	root.Line("blocks", keytext.Bytes(blocks[:]))
	if a := s.Adapter; a != nil {
		root.Line("adapter", keytext.Quote(a.ID), keytext.Quote(a.Version))
	} else {
		root.Line("adapter", keytext.Absent)
	}
	salted := func(salt []byte) Key {
		with := root[:len(root):len(root)]
		with.Line("salt", keytext.Bytes(salt))
		return with.Sum()
	}
	r := Root{Key: salted(nil)}
	r.unsalted = r.Key.word()
	if s.Salt != nil {
		r.Key, r.tenant = salted(s.Salt), sha256.Sum256(s.Salt)
	}
	return r
}
