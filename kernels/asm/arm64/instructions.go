package main

// Instructions of NEON that Go's assembler does not know, as words. Operands are in ARM's
// order, the destination first.

// three is an instruction of two sources; shape is the mnemonic with its operands.
func (g *generator) three(code uint32, shape string, d, n, m vec) {
	g.word(code|uint32(m)<<16|uint32(n)<<5|uint32(d), shape, d, n, m)
}

// two is an instruction of one source.
func (g *generator) two(code uint32, shape string, d, n vec) {
	g.word(code|uint32(n)<<5|uint32(d), shape, d, n)
}

// element is an instruction whose second source is element i of a vector of four.
func (g *generator) element(code uint32, shape string, d, n, m vec, i int) {
	index := uint32(i)&1<<21 | uint32(i)>>1<<11
	g.word(code|index|uint32(m)<<16|uint32(n)<<5|uint32(d), shape, d, n, m, i)
}

// shifted is an instruction of one source and a constant that bits 16 to 22 hold as from.
func (g *generator) shifted(code uint32, shape string, d, n vec, from, by int) {
	g.word(code|uint32(from)<<16|uint32(n)<<5|uint32(d), shape, d, n, by)
}

func (g *generator) fadd(d, n, m vec)  { g.three(0x4e20d400, "fadd v%d.4s, v%d.4s, v%d.4s", d, n, m) }
func (g *generator) faddp(d, n, m vec) { g.three(0x6e20d400, "faddp v%d.4s, v%d.4s, v%d.4s", d, n, m) }
func (g *generator) fsub(d, n, m vec)  { g.three(0x4ea0d400, "fsub v%d.4s, v%d.4s, v%d.4s", d, n, m) }
func (g *generator) fmul(d, n, m vec)  { g.three(0x6e20dc00, "fmul v%d.4s, v%d.4s, v%d.4s", d, n, m) }

// fmax and fmin give NaN where a source is NaN.
func (g *generator) fmax(d, n, m vec) { g.three(0x4e20f400, "fmax v%d.4s, v%d.4s, v%d.4s", d, n, m) }
func (g *generator) fmin(d, n, m vec) { g.three(0x4ea0f400, "fmin v%d.4s, v%d.4s, v%d.4s", d, n, m) }
func (g *generator) fminv(d, n vec)   { g.two(0x6eb0f800, "fminv s%d, v%d.4s", d, n) }
func (g *generator) fdiv(d, n, m vec) { g.three(0x6e20fc00, "fdiv v%d.4s, v%d.4s, v%d.4s", d, n, m) }
func (g *generator) fmaxv(d, n vec)   { g.two(0x6e30f800, "fmaxv s%d, v%d.4s", d, n) }

// fmulBy and fmlaBy multiply by one element; fmlaBy adds to d.
func (g *generator) fmulBy(d, n, m vec, i int) {
	g.element(0x4f809000, "fmul v%d.4s, v%d.4s, v%d.s[%d]", d, n, m, i)
}
func (g *generator) fmlaBy(d, n, m vec, i int) {
	g.element(0x4f801000, "fmla v%d.4s, v%d.4s, v%d.s[%d]", d, n, m, i)
}

// fcvtl widens the low four halves, fcvtl2 the high ones.
func (g *generator) fcvtl(d, n vec)  { g.two(0x0e217800, "fcvtl v%d.4s, v%d.4h", d, n) }
func (g *generator) fcvtl2(d, n vec) { g.two(0x4e217800, "fcvtl2 v%d.4s, v%d.8h", d, n) }

// shll moves the low four halves into the high halves of words, shll2 the high ones.
func (g *generator) shll(d, n vec)  { g.two(0x2e613800, "shll v%d.4s, v%d.4h, #16", d, n) }
func (g *generator) shll2(d, n vec) { g.two(0x6e613800, "shll2 v%d.4s, v%d.8h, #16", d, n) }

// sshll widens the low eight bytes and shifts them left, sshll2 the high ones.
func (g *generator) sshll(d, n vec, by int) {
	g.shifted(0x0f00a400, "sshll v%d.8h, v%d.8b, #%d", d, n, 8+by, by)
}
func (g *generator) sshll2(d, n vec, by int) {
	g.shifted(0x4f00a400, "sshll2 v%d.8h, v%d.16b, #%d", d, n, 8+by, by)
}

// sshr shifts right with the sign.
func (g *generator) sshr(d, n vec, by int) {
	g.shifted(0x4f000400, "sshr v%d.4s, v%d.4s, #%d", d, n, 64-by, by)
}

// scvtf makes floats of integers, scvtfBy and ucvtfBy of such that count 2^-by.
func (g *generator) scvtf(d, n vec) { g.two(0x4e21d800, "scvtf v%d.4s, v%d.4s", d, n) }
func (g *generator) scvtfBy(d, n vec, by int) {
	g.shifted(0x4f00e400, "scvtf v%d.4s, v%d.4s, #%d", d, n, 64-by, by)
}
func (g *generator) ucvtfBy(d, n vec, by int) {
	g.shifted(0x6f00e400, "ucvtf v%d.4s, v%d.4s, #%d", d, n, 64-by, by)
}

// fcvtns is the nearest integers, ties to even.
func (g *generator) fcvtns(d, n vec) { g.two(0x4e21a800, "fcvtns v%d.4s, v%d.4s", d, n) }

// sdot adds the products of four neighbouring bytes to each word; it is of ARMv8.2.
func (g *generator) sdot(d, n, m vec) { g.three(0x4e809400, "sdot v%d.4s, v%d.16b, v%d.16b", d, n, m) }

// smull is the products of the low eight bytes, smull2 of the high ones. saddlp adds
// neighbouring bytes, sadalp neighbouring halves to words.
func (g *generator) smull(d, n, m vec) { g.three(0x0e20c000, "smull v%d.8h, v%d.8b, v%d.8b", d, n, m) }
func (g *generator) smull2(d, n, m vec) {
	g.three(0x4e20c000, "smull2 v%d.8h, v%d.16b, v%d.16b", d, n, m)
}
func (g *generator) saddlp(d, n vec) { g.two(0x4e202800, "saddlp v%d.8h, v%d.16b", d, n) }
func (g *generator) sadalp(d, n vec) { g.two(0x4e606800, "sadalp v%d.4s, v%d.8h", d, n) }

// mlaBy adds products of integers with one element to d.
func (g *generator) mlaBy(d, n, m vec, i int) {
	g.element(0x6f800000, "mla v%d.4s, v%d.4s, v%d.s[%d]", d, n, m, i)
}

// fcvtn narrows to the low four halves, fcvtn2 to the high ones.
func (g *generator) fcvtn(d, n vec)  { g.two(0x0e216800, "fcvtn v%d.4h, v%d.4s", d, n) }
func (g *generator) fcvtn2(d, n vec) { g.two(0x4e216800, "fcvtn2 v%d.8h, v%d.4s", d, n) }

// shrn takes the high halves of words as the low four halves, shrn2 as the high ones.
func (g *generator) shrn(d, n vec)  { g.two(0x0f108400, "shrn v%d.4h, v%d.4s, #16", d, n) }
func (g *generator) shrn2(d, n vec) { g.two(0x4f108400, "shrn2 v%d.8h, v%d.4s, #16", d, n) }

// fcmeq sets words to ones where sources are equal, bit takes n where m has ones.
func (g *generator) fcmeq(d, n, m vec) { g.three(0x4e20e400, "fcmeq v%d.4s, v%d.4s, v%d.4s", d, n, m) }
func (g *generator) bit(d, n, m vec)   { g.three(0x6ea01c00, "bit v%d.16b, v%d.16b, v%d.16b", d, n, m) }

// cmhi sets words to ones where the first source is larger, without a sign; umin is the smaller words.
func (g *generator) cmhi(d, n, m vec) { g.three(0x6ea03400, "cmhi v%d.4s, v%d.4s, v%d.4s", d, n, m) }
func (g *generator) umin(d, n, m vec) { g.three(0x6ea06c00, "umin v%d.4s, v%d.4s, v%d.4s", d, n, m) }

// umax is the larger words without a sign, umaxv the largest of a vector.
func (g *generator) umax(d, n, m vec) { g.three(0x6ea06400, "umax v%d.4s, v%d.4s, v%d.4s", d, n, m) }
func (g *generator) umaxv(d, n vec)   { g.two(0x6eb0a800, "umaxv s%d, v%d.4s", d, n) }
