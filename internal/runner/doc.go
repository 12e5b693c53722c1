// Package runner runs models of the Llama architecture on the host, with every
// key and value in a cache of this library. It is the reference of how a model
// runner links the library, and small enough to be read as an example.
//
// Load reads a model; New makes a Runner of it, which owns a cache pool on a
// device; Generate decodes prompts as one batch. The calls into the cache are in
// forward.go (one step) and generate.go (the life of a sequence).
//
// The weights are float32 on the host, whatever the file stores, and so are the
// matrix products: the package shows a cache, not how to run a model fast.
package runner
