package prefix

// Fingerprint is everything about a model and its cache that the content of a block
// depends on besides its tokens. Caches with different fingerprints have no key in
// common.
type Fingerprint struct {
	Model             []byte // digest of the weights; nil: not known
	Layers            int
	KVHeads           int
	HeadDim, VHeadDim int
	K, V              string // storage formats
	BlockSize         int
	RoPE              []byte // parameters of the rotary embedding, in a canonical form; nil: none
	Masks             []byte // what else decides how a layer sees its past; nil: nothing
}

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

// Root is where the paths of a scope begin. It is a value that stands for itself:
// making one changes no tree.
type Root struct {
	Key      Key    // of the model and the scope, parent of the first block's key
	tenant   Key    // of the salt
	unsalted uint64 // of the rest: to tell a foreign salt from a foreign model
}

// Root is the root of a scope of the model.
func (f Fingerprint) Root(s Scope) Root {
	model := newDigest("ferrumkv model 1")
	model.optional(f.Model)
	for _, n := range [...]int{f.Layers, f.KVHeads, f.HeadDim, f.VHeadDim, f.BlockSize} {
		model.number(n)
	}
	model.bytes([]byte(f.K))
	model.bytes([]byte(f.V))
	model.optional(f.RoPE)
	model.optional(f.Masks)
	if a := s.Adapter; a != nil {
		model.bytes([]byte(a.ID))
		model.bytes([]byte(a.Version))
	} else {
		model.absent()
	}
	unsalted := model.sum()
	tenant := newDigest("ferrumkv salt 1")
	tenant.optional(s.Salt)
	r := Root{tenant: tenant.sum(), unsalted: unsalted.word()}
	root := newDigest("ferrumkv root 1")
	root.bytes(unsalted[:])
	root.bytes(r.tenant[:])
	r.Key = root.sum()
	return r
}
