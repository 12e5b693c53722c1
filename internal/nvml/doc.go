// Package nvml has the state of NVIDIA hardware as the driver's management library
// tells it: temperature, memory errors, power, and why clocks are held back, none of
// which the CUDA driver knows.
//
// The library is read by a program of its own, cmd/ferrumkv-nvml, which [Read] starts:
// a program that does not ask for these figures neither compiles nor links the bindings.
// RATIONALE.md has what they cost. Where the program is missing there are no readings,
// and nothing else is the worse for it.
package nvml
