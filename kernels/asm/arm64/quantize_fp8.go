package main

// fp8 is one of the two 8-bit floats (see backend/quant).
type fp8 struct {
	name     string
	fraction int // bits of it
	bias     int // of the exponent
	max      float64
}

// encodeFP8 writes the function that stores a type of 8-bit floats: normal ones are the upper bits of a
// float32, rounded, with another bias, and small ones are integers.
func encodeFP8(g *generator, t fp8) {
	g.function("encodeFP8"+t.name+"NEON", "(codes *byte, x *float32, scale float32, n int) int",
		"sets codes to those of n values, a multiple of 16 and at least that, divided by scale, and is the\n"+
			"// largest of the values' bits without signs.")
	word := func(w int) constant { return constant{uint64(w)<<32 | uint64(w), uint64(w)<<32 | uint64(w)} }
	drop := 23 - t.fraction
	v, scale, most, sign, a, small, below := vecs(0, 4), vec(4), vec(5), vec(6), vec(7), vec(8), vec(9)
	nan := small // when that is done with
	codes, x, n := g.arg("codes"), g.arg("x"), g.arg("n")
	g.broadcast("scale", scale)
	g.clear([]vec{most})
	c := g.set(16, word(0x7fffffff), word(0x7f800000), ofFloat(t.max), word((127+t.bias-1+t.fraction)<<23), word(1), word(1<<(drop-1)-1),
		word((127-t.bias)<<t.fraction), word((127+1-t.bias)<<23), word(0x80), word(0x7f))
	magnitude, infinity, largest, steps, one, half := c[0], c[1], c[2], c[3], c[4], c[5]
	bias, smallest, minus, noNumber := c[6], c[7], c[8], c[9]
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
			g.umin(a, quotient, largest)
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
