// Package bench measures the kernels of a device and compares them with what the device can do
// at most: with the speed at which its memory is read, for attention over a cache; with that of
// copying, for what moves memory; with that of multiplying, for prompts. It is what ferrumkv
// bench, make bench-cpu and the benchmarks of the backends for GPUs run.
//
// The operands of an operation are made in one way for all devices (step, and the functions that
// return a move), and so are the probes of bandwidth (hostProbes, deviceProbes). No call finds
// its keys and values in a cache: calls go on through a large piece of memory, each where the
// last one ended (arena), or take turns on layers that exceed what a device caches (ring).
//
// Three measurements are made of that.
//
// BenchmarkCPU measures every kernel of the processor. Others use a machine, and its clock and its
// memory are faster at one moment than at the next. So everything takes turns: a round is one
// measurement of every trial, in random order, each between two measurements of its limit. What
// is reported is the median over the rounds of a trial's time, and of its fraction of the limit
// beside it. Comparisons of two trials, the speed of int8 against f16 say, are medians of the
// ratio within a round. Measurements during which others had much of the processors (see
// foreign) are left out while there are enough others. Its benchmark measures all rounds when
// it begins, and its sub-benchmarks only report: go test runs one benchmark at a time, to its
// end, which is the opposite of taking turns. With -short, sizes shrink and there are few
// rounds: to see that all of it runs. The part of -bench after BenchmarkCPU chooses trials:
// -bench CPU/decode/f16. It and all that it alone needs are files of tests: the package imports no
// device, so that what measures a GPU does not change with the processor's kernels.
//
// GPU measures every kernel of a GPU, by its own clock, with the limits of the same run.
//
// Cache measures some kernels of any device on shapes that the caller chooses.
//
// cmd/internal/benchpage makes documents of what the first two print. Lines of "key: value"
// before their results describe the machine, as benchstat understands it.
package bench
