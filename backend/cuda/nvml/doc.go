// Package nvml reads the state of NVIDIA hardware from the driver's management
// library, which knows what the CUDA driver does not tell: free memory before a
// context exists, temperature, memory errors, power, and why clocks are held back.
//
// The library is opened at run time. Where it is missing there are no readings,
// and nothing else is the worse for it.
//
// The bindings, go-nvml, need symbols that are bound when they are first called. A
// program that is linked with -z now, as some hardened toolchains do, does not start
// with them: link it with -ldflags=-extldflags=-Wl,-z,lazy. With musl, which knows
// no late binding, leave CUDA out by the tag nocuda.
package nvml
