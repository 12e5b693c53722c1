package main

// channelSpans writes the function that finds what each channel of rows reaches over.
func channelSpans(g *generator) {
	g.function("channelSpansNEON", "(low *float32, high *float32, x *float32, dim int, n int, rows int) int",
		"sets low and high to the lowest and the highest of n channels, a multiple of 16 and at least that, of\n"+
			"// rows that are dim apart, and is the largest of the values' bits without signs.")
	v, lowest, highest, most := vecs(0, 4), vecs(4, 4), vecs(8, 4), vec(12)
	low, high, x, row, n, rows := g.arg("low"), g.arg("high"), g.arg("x"), g.arg("dim"), g.arg("n"), g.arg("rows")
	from, left := g.reg(), g.reg()
	magnitude := g.set(13, constant{0x7fffffff_7fffffff, 0x7fffffff_7fffffff})[0]
	g.clear([]vec{most})
	g.ins("LSL", "$2", row, row)
	g.loop(func() {
		g.ins("MOVD", x, from)
		g.ins("MOVD", rows, left)
		g.getFour(x, lowest)
		g.getFour(x, highest)
		g.loop(func() {
			g.getFour(from, v)
			g.ins("ADD", row, from)
			for i, x := range v {
				g.fmin(lowest[i], lowest[i], x)
				g.fmax(highest[i], highest[i], x)
				g.ins("VAND", magnitude.b(), x.b(), x.b())
				g.umax(most, most, x)
			}
			g.ins("SUBS", "$1", left)
		})
		g.putFour(lowest, low)
		g.putFour(highest, high)
		g.ins("ADD", "$64", x)
		g.ins("SUBS", "$16", n)
	})
	g.umaxv(most, most)
	g.ins("VMOV", most.s1(0), x)
	g.ins("MOVD", x, g.frame("ret"))
	g.ins("RET")
}

// channelCodes writes the function that stores a row whose elements have scales of their own.
func channelCodes(g *generator) {
	g.function("channelCodesNEON", "(codes *byte, x *float32, steps *float32, zeros *float32, n int)",
		"sets codes of 4 bits to those of n values, a multiple of 16 and at least that: the nearest integers to\n"+
			"// each in its steps, less its zero, from 0 to 15.")
	v, step, zero := vecs(0, 4), vecs(4, 4), vecs(8, 4)
	codes, x, steps, zeros, n := g.arg("codes"), g.arg("x"), g.arg("steps"), g.arg("zeros"), g.arg("n")
	c := g.set(16, constant{}, ofFloat(15))
	g.loop(func() {
		for i, from := range []reg{x, steps, zeros} {
			g.getFour(from, [][]vec{v, step, zero}[i])
			g.ins("ADD", "$64", from)
		}
		for i, x := range v {
			g.code(x, step[i], zero[i], c[0], c[1])
		}
		g.bytes(v)
		g.putNibbles(v, codes)
		g.ins("SUBS", "$16", n)
	})
	g.ins("RET")
}

// getFour loads four vectors that lie one after another.
func (g *generator) getFour(from reg, v []vec) {
	g.ins("FLDPQ", at(from, 0), "("+v[0].f()+", "+v[1].f()+")")
	g.ins("FLDPQ", at(from, 32), "("+v[2].f()+", "+v[3].f()+")")
}

// putFour stores four vectors one after another, and goes on behind them.
func (g *generator) putFour(v []vec, to reg) {
	g.ins("FSTPQ.P", "("+v[0].f()+", "+v[1].f()+")", at(to, 32))
	g.ins("FSTPQ.P", "("+v[2].f()+", "+v[3].f()+")", at(to, 32))
}
