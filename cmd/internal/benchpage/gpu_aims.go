package main

import "math"

// wanted is the aims. Where an aim is about a cache of some size, that is the bytes of keys and
// values that a step reads.
func (r gpu) wanted() []aim {
	half := []string{"f16", "bf16"}
	limited := func(parts ...string) []float64 { return metric("of-limit", r.all(parts...)) }
	var big, small, short, prompts []float64
	for _, group := range []string{"group=4", "group=8"} {
		big = append(big, metric("of-limit", with(r.sized(128, math.Inf(1), half...), group))...)
		small = append(small, metric("of-limit", with(r.sized(32, 128, half...), group))...)
	}
	for _, context := range []string{"context=1024", "context=2048", "context=4096"} {
		short = append(short, metric("ns/op", r.all("decode", "f16", "batch=1", context))...)
	}
	for i := range short {
		short[i] /= 1e3
	}
	for _, dt := range half {
		prompts = append(prompts, metric("TFLOP/s", r.all("prefill", dt, "context=8192", "queries=8192"))...)
	}
	f16 := map[int]string{partTypes: "f16"}
	plain := map[int]string{partWhat: "decode"}
	large := math.Inf(1)
	return []aim{
		{what: "append of 4096 tokens, f16: of the copy limit", least: 0.85, reached: limited("append", "f16-f16", "tokens=4096")},
		{what: "gather", least: 0.85, reached: limited("gather")},
		{what: "rotate", least: 0.85, reached: limited("rotate")},
		{what: "copy blocks", least: 0.88, reached: limited("copy-blocks")},
		{what: "blocks of 2 MiB to pinned memory of the host and back: of one copy's rate", least: 0.85, reached: append(limited("pack"), limited("unpack")...)},
		{what: "decode, f16 and bf16, 4 and 8 heads a group, from 128 MB on: of the read limit", least: 0.85, reached: big},
		{what: "the same, as far as hoped", least: 0.90, reached: big},
		{what: "decode likewise, 32 to 128 MB", least: 0.65, reached: small},
		{what: "one sequence of up to 4096 tokens, f16, with its merge", most: 15, format: "%.1f µs", reached: short},
		{what: "decode, blocks of 16: times the speed of contiguous", least: 0.95, reached: r.speeds(r.all("decode", "paged16"), map[int]string{partLayout: "contiguous"})},
		{what: "decode, int8 and fp8e4m3: times the speed of f16", least: 1.6, reached: r.speeds(r.sized(0, large, "int8", "fp8e4m3"), f16)},
		{what: "decode, int4: times the speed of f16", least: 2.3, reached: r.speeds(r.sized(0, large, "int4"), f16)},
		{what: "verify of 4 tokens: times the time of decode", most: 1.3, reached: r.ratios(r.all("verify"), map[int]string{partWhat: "decode", partQueries: "queries=1"})},
		{what: "64 sequences with 8192 common tokens, cascade: times the speed of flat", least: 5, reached: r.speeds(r.all("cascade"), map[int]string{partWhat: "flat"})},
		{what: "causal prompt of 8192 tokens", least: 300, format: "%.0f TFLOP/s", reached: prompts},
		{what: "attention mass: times the time of decode", most: 1.10, reached: r.ratios(r.all("mass"), plain)},
		{what: "merge of split contexts: part of the time of decode", most: 0.03, format: "%.3f", reached: r.ratios(r.all("decode-merge"), plain)},
	}
}

// with is the trials that have a part.
func with(trials []trial, part string) (out []trial) {
	for _, t := range trials {
		if t.is(part) {
			out = append(out, t)
		}
	}
	return out
}
