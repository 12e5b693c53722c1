package prefix

import (
	"crypto/sha256"
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/internal/keytext"
)

// Scope says who may share. The same tokens in two scopes never meet.
type Scope struct {
	// Salt separates tenants. nil is no salt; it, an empty salt and "0" are three
	// different ones. Blocks are counted, limited and protected by salt.
	Salt []byte
	// Adapter is the fine-tuning that the keys and values were computed with; nil:
	// none.
	Adapter *Adapter
}

// Adapter names a LoRA or another change of the weights. Weights that are loaded
// again under the same name are another version.
type Adapter struct{ ID, Version string }

// Persistable is nil where what was computed in the scope may outlive the process, by its
// keys. An adapter without a version may not: ErrArgument. The model's part is
// kvcache.Config.Persistable.
func (s Scope) Persistable() error {
	if s.Adapter == nil || s.Adapter.Version != "" {
		return nil
	}
	return ErrArgument{Op: "persist", Why: fmt.Sprintf("adapter %q has no version, and other weights under its name would be taken for it; set Adapter.Version, to a digest of its weights say", s.Adapter.ID)}
}

// Root is where the paths of a scope begin. It is a value that stands for itself:
// making one changes no tree.
type Root struct {
	Key      Key    // of the fingerprint and the scope, parent of the first block's key
	tenant   Key    // of the salt, zero without one: for a process's own books
	unsalted uint64 // of the rest: to tell a foreign salt from a foreign model
}

// Root is the root of a scope of the blocks.
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
