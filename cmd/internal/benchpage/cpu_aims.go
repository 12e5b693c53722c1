package main

// wanted is the aims, for the fastest kernels where the parts do not name others.
func (r cpu) wanted() []aim {
	one, all := "threads="+r.threads[0], "threads="+r.threads[len(r.threads)-1]
	of := func(unit, op string, types []string, parts ...string) (values []float64) {
		for _, dt := range types {
			values = append(values, metric(unit, r.all(append([]string{op, dt, r.best()}, parts...)...))...)
		}
		return values
	}
	half := []string{"f16", "bf16"}
	return []aim{
		{what: "f16 and bf16, contiguous, one thread: of the read limit", least: 0.90, reached: of("of-limit", "decode", half, "contiguous", one)},
		{what: "the same, all threads", least: 0.90, reached: of("of-limit", "decode", half, "contiguous", all)},
		{what: "f16, blocks of 16, one thread", least: 0.80, reached: of("of-limit", "decode", half[:1], "paged16", one)},
		{what: "the same, all threads", least: 0.85, reached: of("of-limit", "decode", half[:1], "paged16", all)},
		{what: "f32, contiguous", least: 0.80, reached: of("of-limit", "decode", []string{"f32"}, "contiguous")},
		{what: "int8, one thread: times the speed of f16", least: 1.35, reached: of("speed-of-f16", "decode", []string{"int8"}, one)},
		{what: "int8 with queries in int8, one thread", least: 1.8, reached: of("speed-of-f16", "decode", []string{"int8+int8query"}, one)},
		{what: "int4, one thread", least: 1.25, reached: of("speed-of-f16", "decode", []string{"int4"}, one)},
		{what: "int4 with queries in int8, one thread", least: 2, reached: of("speed-of-f16", "decode", []string{"int4+int8query"}, one)},
		{what: "attention mass: times the speed without", least: 1 / 1.15, reached: of("speed-of-plain", "decode", []string{"f16+mass"})},
		{what: "prompts in f32 and f16: of the multiplication limit", least: 0.5, reached: of("of-limit", "prefill", []string{"f32", "f16"})},
		{what: "append f16: of the copy limit", least: 0.8, reached: of("of-limit", "append", []string{"f16-f16"})},
		{what: "copy blocks of f16", least: 0.8, reached: of("of-limit", "copyblocks", []string{"f16"})},
		{what: "AVX2: times the speed of AVX-512", least: 0.75, reached: metric("speed-of-avx512", r.all("kernels=avx2"))},
		{what: "smallest layer, append and attention", format: "%.0f ns", most: 1000, reached: metric("ns/op", r.all("dispatch", "smallest"))},
		{what: "layer shared by all threads, beyond its share", format: "%.0f ns", most: 1000, reached: metric("ns-beyond", r.all("dispatch"))},
	}
}
