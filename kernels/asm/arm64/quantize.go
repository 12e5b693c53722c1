package main

// quantize writes what stores rows with scales, a group at a time: its span, from which Go makes
// the scale, and its codes.
func quantize(g *generator) {
	span(g)
	codesOf(g, 8)
	codesOf(g, 4)
	encodeFP8(g, minifloat{"E4M3", 3, 7, 448})
	encodeFP8(g, minifloat{"E5M2", 2, 15, 57344})
	codesOfE2M1(g)
	channelSpans(g)
	channelCodes(g)
}

func span(g *generator) {
	g.function("spanNEON", "(x *float32, n int, low *float32, high *float32) int",
		"finds the lowest and the highest of n values, a multiple of 16 and at least that, and is the largest\n"+
			"// of their bits without signs.")
	v, lowest, highest, most, sign := vecs(0, 4), vec(4), vec(5), vec(6), vec(7)
	x, n, low, high := g.arg("x"), g.arg("n"), g.arg("low"), g.arg("high")
	g.set(sign, constant{0x7fffffff_7fffffff, 0x7fffffff_7fffffff})
	g.clear([]vec{most})
	g.ins("FMOVQ", at(x, 0), lowest.f())
	g.ins("VMOV", lowest.b(), highest.b())
	g.loop(func() {
		g.ins("FLDPQ.P", at(x, 32), "("+v[0].f()+", "+v[1].f()+")")
		g.ins("FLDPQ.P", at(x, 32), "("+v[2].f()+", "+v[3].f()+")")
		for _, x := range v {
			g.fmin(lowest, lowest, x)
			g.fmax(highest, highest, x)
			g.ins("VAND", sign.b(), x.b(), x.b())
			g.umax(most, most, x)
		}
		g.ins("SUBS", "$16", n)
	})
	g.fminv(lowest, lowest)
	g.fmaxv(highest, highest)
	g.umaxv(most, most)
	g.ins("FMOVS", lowest.f(), at(low, 0))
	g.ins("FMOVS", highest.f(), at(high, 0))
	g.ins("VMOV", most.s1(0), x)
	g.ins("MOVD", x, g.frame("ret"))
	g.ins("RET")
}

// codesOf writes the function for codes of a number of bits.
func codesOf(g *generator, bits int) {
	name := map[int]string{8: "codes8NEON", 4: "codes4NEON"}[bits]
	g.function(name, "(codes *byte, x *float32, n int, step float32, zero float32, lowest float32, highest float32)",
		"sets codes to those of n values, a multiple of 16 and at least that: the nearest integers to them in\n"+
			"// steps, less zero, from lowest to highest.")
	v, step, zero, lowest, highest := vecs(0, 4), vec(16), vec(17), vec(18), vec(19)
	codes, x, n := g.arg("codes"), g.arg("x"), g.arg("n")
	g.broadcast("step", step)
	g.broadcast("zero", zero)
	g.broadcast("lowest", lowest)
	g.broadcast("highest", highest)
	g.loop(func() {
		g.ins("FLDPQ.P", at(x, 32), "("+v[0].f()+", "+v[1].f()+")")
		g.ins("FLDPQ.P", at(x, 32), "("+v[2].f()+", "+v[3].f()+")")
		for _, x := range v {
			g.code(x, step, zero, lowest, highest)
		}
		g.bytes(v)
		if bits == 8 {
			g.ins("FMOVQ.P", v[0].f(), at(codes, 16))
		} else {
			g.putNibbles(v, codes)
		}
		g.ins("SUBS", "$16", n)
	})
	g.ins("RET")
}

// bytes moves the low bytes of the words of four vectors into the first one.
func (g *generator) bytes(v []vec) {
	for i := 0; i < 4; i += 2 { // the low halves of words, and then the low bytes of those
		g.ins("VUZP1", v[i+1].h(), v[i].h(), v[i].h())
	}
	g.ins("VUZP1", v[2].b(), v[0].b(), v[0].b())
}

// code makes the nearest integers of values in steps, less zero, from lowest to highest.
func (g *generator) code(x, step, zero, lowest, highest vec) {
	g.fdiv(x, x, step)
	g.fsub(x, x, zero)
	g.fmax(x, x, lowest)
	g.fmin(x, x, highest)
	g.fcvtns(x, x)
}

// putNibbles stores the low halves of the sixteen bytes of a vector, two a byte; the next vector is
// spoilt.
func (g *generator) putNibbles(v []vec, to reg) {
	g.ins("VUZP2", v[0].b(), v[0].b(), v[1].b())
	g.ins("VUZP1", v[0].b(), v[0].b(), v[0].b())
	g.ins("VSHL", "$4", v[1].b(), v[1].b())
	g.ins("VORR", v[1].b(), v[0].b(), v[0].b())
	g.ins("FMOVD.P", v[0].f(), at(to, 8))
}
