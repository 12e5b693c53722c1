package main

// cpu is a run of the CPU's benchmarks.
type cpu struct {
	*run
	kernels []string // the fastest first
	threads []string // as they were measured, the fewest first
}

func newCPU(r *run) cpu { return cpu{r, r.values("kernels"), r.values("threads")} }

func (r cpu) tables() map[string]func() string {
	return map[string]func() string{
		"machine": r.machine, "aims": func() string { return aims(r.wanted()) }, "limits": r.limits, "decode": r.decode, "mass": r.mass,
		"shapes": r.shapes, "latents": r.latents, "lone": r.lone, "prefill": r.prefill, "moves": r.moves, "kernels": r.twins, "dispatch": r.dispatch,
	}
}

func (r cpu) beside() map[string]string {
	return map[string]string{"-1.svg": r.roofline(r.threads[0]), "-all.svg": r.roofline(r.threads[len(r.threads)-1])}
}

func (r cpu) empty(string) string { return "" }

// best is the part of a name that says the fastest kernels.
func (r cpu) best() string { return "kernels=" + r.kernels[0] }

// roofline is the plot for a number of threads. It is empty where a limit was not measured.
func (r cpu) roofline(threads string) string {
	read, fma := r.all("limit", "read", "threads="+threads, r.best()), r.all("limit", "fma", "threads="+threads, r.best())
	if read == nil || fma == nil {
		return ""
	}
	title := "Attention on all " + threads + " threads"
	if threads == "1" {
		title = "Attention on one thread"
	}
	var dots []trial
	for _, t := range append(r.plain(false), r.all("prefill")...) {
		if t.is("threads="+threads, r.best()) {
			t.parts = t.parts[:6]
			dots = append(dots, t)
		}
	}
	p := &roofline{title: title, unit: "GFLOP/s", each: 1, bandwidth: read[0].metrics["GB/s"], peak: fma[0].metrics["GFLOP/s"],
		types: []string{"f32", "f16", "bf16", "fp8e4m3", "int8", "int8+int8query", "int4", "int4+int8query"}}
	return p.draw(dots)
}
