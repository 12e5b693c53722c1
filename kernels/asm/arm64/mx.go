package main

// Rows of 4-bit floats whose groups share a power of two (see quant.EncodeMX): a byte of the scales is
// a group's, and a row's begin with a word.

// The values of E2M1's codes: as bfloat16, the low bytes and the high ones, and in half steps.
var (
	lowBytes  = constant{0xc0_80_40_00_c0_80_00_00, 0xc0_80_40_00_c0_80_00_00}
	highBytes = constant{0x40_40_40_40_3f_3f_3f_00, 0xc0_c0_c0_c0_bf_bf_bf_80}
	halfSteps = constant{0x0c_08_06_04_03_02_01_00, 0xf4_f8_fa_fc_fd_fe_ff_00}
)

func decodeMX(g *generator) {
	g.function("decodeE2M1NEON", "(dst *float32, codes *byte, words *uint32, rows int, dim int, group int, ahead *byte)",
		"sets dst to the values of rows, with the exponents of their groups, of group elements but for a shorter last one. dim and group\n"+
			"// are multiples of 16. It fetches as many bytes from ahead on as the rows have.")
	dst, codes, exponents, rows, dim := g.arg("dst"), g.arg("codes"), g.arg("words"), g.arg("rows"), g.arg("dim")
	group, ahead, left, n, e := g.arg("group"), g.arg("ahead"), g.reg(), g.reg(), g.reg()
	const packed, low, high, scale = vec(4), vec(5), vec(6), vec(7)
	tables, v := g.set(16, lowBytes, highBytes), vecs(0, 4)
	g.loop(func() {
		g.ins("MOVD", dim, left)
		g.loop(func() {
			g.groupOf(left, group, n)
			g.ins("MOVBU.P", at(exponents, 1), e)
			g.power(e)
			g.ins("VDUP", e, scale.s())
			g.loop(func() {
				g.fetch(ahead, 8)
				nibbles(g, codes, packed, high)
				g.ins("VTBL", packed.b(), tables[0].table(), low.b())
				g.ins("VTBL", packed.b(), tables[1].table(), high.b())
				g.ins("VZIP1", high.b(), low.b(), v[0].b())
				g.ins("VZIP2", high.b(), low.b(), v[2].b())
				for _, half := range []vec{v[0], v[2]} {
					g.shll2(half+1, half)
					g.shll(half, half)
				}
				for _, x := range v {
					g.fmul(x, x, scale)
				}
				put(g, v, dst)
				g.ins("SUBS", "$16", n)
			})
			g.ins("CMP", "$0", left)
		})
		g.ins("ADD", "$3", exponents)
		g.ins("AND", "$~3", exponents)
		g.ins("SUBS", "$1", rows)
	})
	g.ins("RET")
}

// power turns a byte into the bits of what quant.ScaleMX makes of it: those of 0 and 255 get the
// highest bit of a fraction, too.
func (g *generator) power(e reg) {
	g.ins("ADD", "$1", e, scratch)
	g.ins("AND", "$254", scratch)
	g.ins("SUB", "$1", scratch)
	g.ins("LSR", "$63", scratch)
	g.ins("LSL", "$22", scratch)
	g.ins("ORR", e.shifted(23), scratch, e)
}

func codesOfE2M1(g *generator) {
	g.function("codesE2M1NEON", "(codes *byte, x *float32, n int, by float32)",
		"sets codes to those of n values times a number, a multiple of 16 and at least that.")
	v, by, sign, magnitude, a, small, below := vecs(0, 4), vec(4), vec(5), vec(6), vec(7), vec(8), vec(9)
	codes, x, n := g.arg("codes"), g.arg("x"), g.arg("n")
	g.broadcast("by", by)
	near := g.nearest(minifloat{"E2M1", 1, 1, 6}, 16)
	c := g.set(22, ofWord(0x7fffffff), ofWord(8))
	g.loop(func() {
		g.ins("FLDPQ.P", at(x, 32), "("+v[0].f()+", "+v[1].f()+")")
		g.ins("FLDPQ.P", at(x, 32), "("+v[2].f()+", "+v[3].f()+")")
		for _, code := range v {
			g.ins("VUSHR", "$28", code.s(), sign.s())
			g.ins("VAND", c[1].b(), sign.b(), sign.b())
			g.fmul(magnitude, code, by)
			g.ins("VAND", c[0].b(), magnitude.b(), magnitude.b())
			near(magnitude, a, small, below, code)
			g.ins("VORR", sign.b(), code.b(), code.b())
		}
		g.bytes(v)
		g.putNibbles(v, codes)
		g.ins("SUBS", "$16", n)
	})
	g.ins("RET")
}
