// Package library reads the state of NVIDIA devices from the driver's management library, for cmd/ferrumkv-nvml. Its bindings,
// go-nvml, are heavy to compile and warn, so go.mod ignores this folder: no pattern with ... compiles it. Build it by its path.
package library
