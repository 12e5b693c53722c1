package kvcache

import (
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Fingerprint is what the content of a pool's blocks depends on besides tokens and scope:
// with its Root a process that has no pool computes the keys that a pool's events name (see
// Pool.Watch). Configurations with the same Content and the same size of blocks have the
// same fingerprint, on every machine.
func (c Config) Fingerprint() (prefix.Fingerprint, error) {
	c, err := c.Resolve()
	if err != nil {
		return prefix.Fingerprint{}, err
	}
	return c.fingerprint(), nil
}

// fingerprint is Fingerprint of a configuration that is filled in.
func (c Config) fingerprint() prefix.Fingerprint {
	return prefix.Fingerprint{Content: c.content().Sum(), BlockTokens: c.slots(), Group: prefix.AllLayers}
}

// Persistable is nil where keys and values may outlive the process under their keys. Without
// a digest of the weights they may not: those of another model would be taken for them, which
// within a pool cannot be. An adapter's part is prefix.Scope.Persistable.
func (c Config) Persistable() error {
	if len(c.Model) == 0 {
		return ErrConfig{Name: "Model", Why: "need a digest of the weights for keys and values that outlive the process, or those of other weights would be taken for them; SHA-256 of the file of weights will do, of this device's part where several have one each"}
	}
	return nil
}
