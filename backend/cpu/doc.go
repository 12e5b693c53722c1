// Package cpu is the device that is always there: host memory, a bounded pool
// of workers, and every operation of the contract in Go, for any head dim and
// for f32, f16 and bf16 in every combination.
//
// Memory is mapped outside the Go heap, so a cache of many gigabytes costs the
// garbage collector nothing and Free returns it to the system. Operations run at
// once, on the goroutine that calls and on the workers, so a stream is ordered
// by itself. What they read from their buffers (slots, tables, lengths) is
// range-checked before anything is written: a call that fails has changed nothing.
//
// Results do not depend on scheduling. Attention gives the same bits for any
// layout, block size and batching of the same tokens, as long as a context is not
// split; PlanAttend splits only where there are fewer units of work than workers.
package cpu
