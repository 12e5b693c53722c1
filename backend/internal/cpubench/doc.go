// Package cpubench measures the kernels of the CPU and compares them with what the machine
// can do at most: with the speed at which its memory is read, for attention over a cache;
// with that of copying, for what moves memory; with that of multiplying, for prompts. The
// limits are found by probes in assembly (see kernels/asm), in the same process.
//
// Others use a machine, and its clock and its memory are faster at one moment than at the
// next. So everything takes turns: a round is one measurement of every trial, in random
// order, each between two measurements of its limit. What is reported is the median over the
// rounds of a trial's time, and of its fraction of the limit beside it. Comparisons of two
// trials, the speed of int8 against f16 say, are medians of the ratio within a round.
// Measurements during which others had much of the processors (see foreign) are left out
// while there are enough others.
//
// No call finds its keys and values in a cache: calls go on through one large piece of
// memory, each where the last one ended (see arena), whatever they read it as.
//
// go test -bench runs one benchmark at a time, to its end, which is the opposite of taking
// turns. Therefore BenchmarkCPU measures all rounds when it begins, and its sub-benchmarks
// only report: they run once, whatever -benchtime says, and their times and metrics are what
// the rounds found. Lines of "key: value" before them describe the machine, as benchstat
// understands it. The folder page makes docs/benchmarks/cpu.md of the output.
//
// With -short, sizes shrink and there are few rounds: to see that all of it runs. The part of
// -bench behind BenchmarkCPU chooses trials: -bench CPU/decode/f16.
package cpubench
