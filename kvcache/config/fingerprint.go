package config

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Fingerprint identifies what the content of a pool's blocks depends on besides tokens and scope.
// With its Root a process without a pool can compute the block keys that are in a pool's events
// (see Pool.Watch). Configurations with the same Content and the same block size have the same
// fingerprint, on every machine.
func (c Config) Fingerprint() (prefix.Fingerprint, error) {
	c, err := c.Resolve()
	if err != nil {
		return prefix.Fingerprint{}, err
	}
	return c.fingerprint(), nil
}

// fingerprint is Fingerprint of a configuration that is filled in.
func (c Config) fingerprint() prefix.Fingerprint {
	return prefix.Fingerprint{Content: c.content().Sum(), BlockTokens: c.BlockTokens(), Group: prefix.AllLayers}
}

// Persistable returns nil if blocks may be stored, under their keys, for longer than the process
// lives. That needs Model.Digest: else blocks of another model could be found under the same
// keys. prefix.Scope.Persistable checks the same for an adapter.
func (c Config) Persistable() error {
	if len(c.Model.Digest) == 0 {
		return backend.ErrConfig{Name: "Model.Digest", Why: "need a digest of the weights for keys and values that outlive the process, or those of other weights would be taken for them; SHA-256 of the file of weights will do, of this device's part where several have one each"}
	}
	return nil
}
