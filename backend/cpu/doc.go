// Package cpu is the device that is always there: host memory, a bounded pool
// of workers, and every operation of the contract, for any head dim, for activations
// of f32, f16 and bf16, and for keys and values of those and of every quantized type,
// in every combination.
//
// The inner loops are assembly for head dims that are a multiple of 16, with AVX-512, with
// AVX2 or with NEON, whichever is the fastest that the processor has, and Go for the rest
// (kernels.go has the list). A plain build has all of them, with cgo or without; the tag
// noasm leaves the assembly out, and Options.Kernels or FERRUM_CPU_KERNELS choose. The
// files *_amd64.s and *_arm64.s are written by the module kernels/asm.
//
// Memory is mapped outside the Go heap, so a cache of many gigabytes costs the
// garbage collector nothing and Free returns it to the system. Operations run at
// once, on the calling goroutine and on the workers, so a stream is always in order.
// Slots, tables and lengths are range-checked before anything is written, and values to
// be quantized are checked to be finite: a call that fails has changed nothing.
//
// Quantized keys and values are read as they are stored: attention decodes a run of
// rows at a time, in registers where there is assembly for the type.
//
// Results do not depend on scheduling. Attention gives the same bits for any
// layout, block size and batching of the same queries, as long as a context is not
// split; PlanAttend splits only what is more than half of a worker's share, and, where it
// is given tables, what is read once because sequences begin in the same blocks.
// Kernels that multiply matrices where a prompt has the rows for it add in another
// order than those for a few rows, so that the last bits of a token's result may
// also depend on how its prompt was cut into steps. Options.Reproducible is for
// bits that depend on neither, and says on what they do.
package cpu
