// Package abi is what the host and the kernels of a GPU agree on, as Go: for every
// kernel the indices of its buffers and its struct of scalars, field for field as the
// compilers of CUDA and Metal lay them out. It is generated from kernels/abi.h, where
// the meaning of each kernel's operands stands.
//
// A launch takes the buffers in the order of the constants and then the bytes of the
// struct (its method Encode), so one path serves all kernels. A backend compares [Version]
// with the version its compiled kernels were built for before it loads them.
//
// The other way round, storage.go says how a kernel is told what a type of the cache is, and
// kernels/storage.h is generated from that.
package abi

//go:generate go run ./gen -header ../../../kernels/abi.h -go abi.go -test header_test.go -storage ../../../kernels/storage.h
