package main

// minifloat is one of the small floats (see backend/quant).
type minifloat struct {
	name     string
	fraction int // bits of it
	bias     int // of the exponent
	max      float64
}

// encodeFP8 writes the function that stores a type of 8-bit floats: normal ones are the upper bits of a
// float32, rounded, with another bias, and small ones are integers.
func encodeFP8(g *generator, t minifloat) {
	g.function("encodeFP8"+t.name+"NEON", "(codes *byte, x *float32, scale float32, n int) int",
		"sets codes to those of n values, a multiple of 16 and at least that, divided by scale, and is the\n"+
			"// largest of the values' bits without signs.")
	v, scale, most, sign, a, small, below := vecs(0, 4), vec(4), vec(5), vec(6), vec(7), vec(8), vec(9)
	nan := small // when that is done with
	codes, x, n := g.arg("codes"), g.arg("x"), g.arg("n")
	g.broadcast("scale", scale)
	g.clear([]vec{most})
	near := g.nearest(t, 16)
	c := g.set(22, ofWord(0x7fffffff), ofWord(0x7f800000), ofWord(0x80), ofWord(0x7f))
	magnitude, infinity, minus, noNumber := c[0], c[1], c[2], c[3]
	const quotient = vec(10)
	g.loop(func() {
		g.ins("FLDPQ.P", at(x, 32), "("+v[0].f()+", "+v[1].f()+")")
		g.ins("FLDPQ.P", at(x, 32), "("+v[2].f()+", "+v[3].f()+")")
		for _, code := range v {
			g.ins("VAND", magnitude.b(), code.b(), a.b())
			g.umax(most, most, a)
			g.ins("VEOR", scale.b(), code.b(), sign.b())
			g.ins("VUSHR", "$24", sign.s(), sign.s())
			g.ins("VAND", minus.b(), sign.b(), sign.b())
			g.fdiv(quotient, code, scale)
			g.ins("VAND", magnitude.b(), quotient.b(), quotient.b())
			near(quotient, a, small, below, code)
			g.ins("VORR", sign.b(), code.b(), code.b())
			g.cmhi(nan, quotient, infinity)
			g.bit(code, noNumber, nan)
		}
		g.bytes(v)
		g.ins("FMOVQ.P", v[0].f(), at(codes, 16))
		g.ins("SUBS", "$16", n)
	})
	g.umaxv(most, most)
	g.ins("VMOV", most.s1(0), x)
	g.ins("MOVD", x, g.frame("ret"))
	g.ins("RET")
}

// nearest sets constants into registers from one on, six of them, and is what sets code to that nearest to
// a magnitude, ties to even. a, small and below are its own.
func (g *generator) nearest(t minifloat, from vec) func(magnitude, a, small, below, code vec) {
	drop := 23 - t.fraction
	c := g.set(from, ofFloat(t.max), ofWord((127+t.bias-1+t.fraction)<<23), ofWord(1), ofWord(1<<(drop-1)-1), ofWord((127-t.bias)<<t.fraction), ofWord((127+1-t.bias)<<23))
	largest, steps, one, half, bias, smallest := c[0], c[1], c[2], c[3], c[4], c[5]
	return func(magnitude, a, small, below, code vec) {
		g.umin(a, magnitude, largest)
		g.fmul(small, a, steps)
		g.fcvtns(small, small)
		g.ins("VUSHR", imm(drop), a.s(), code.s())
		g.ins("VAND", one.b(), code.b(), code.b())
		g.ins("VADD", half.s(), code.s(), code.s())
		g.ins("VADD", a.s(), code.s(), code.s())
		g.ins("VUSHR", imm(drop), code.s(), code.s())
		g.ins("VSUB", bias.s(), code.s(), code.s())
		g.ins("VSUB", smallest.s(), a.s(), below.s())
		g.sshr(below, below, 31)
		g.bit(code, small, below)
	}
}
