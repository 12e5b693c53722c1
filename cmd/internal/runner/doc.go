// Package runner runs language models on the host, with every key, value and state
// in a cache of this library: the architectures that families lists. It is the reference of how a model
// runner links the library, and small enough to be read as an example.
//
// Load reads a model: family.go and architectures.go have what architectures differ in, block.go what the cache holds of
// their layers. New makes a Runner of it, which owns a cache pool on a device; Generate decodes prompts as one batch. The
// calls into the cache are in block.go (a layer), forward.go (one step) and generate.go (the life of a sequence).
//
// Activations are float32 on the host. Matrices stay in the type that the file has (package product), which changes no bit
// of a logit: they are float32 when they are multiplied, and no type is rounded for that.
package runner
