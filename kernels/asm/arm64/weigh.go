package main

import "math"

// weigh writes the two passes of a softmax over a row, and the soft-cap.
func weigh(g *generator) {
	peak(g)
	exponentials(g)
	softcap(g)
}

// lanes walks a row, four elements at a time: body replaces those in x. Of the last ones,
// where there are fewer, each is in its own lane, so that where a row ends does not matter;
// fill sets the others.
func (g *generator) lanes(row, n reg, x vec, fill, body func()) {
	four, rest, done := g.newLabel(), g.newLabel(), g.newLabel()
	g.ins("CMP", "$4", n)
	g.ins("BLT", rest)
	g.label(four)
	g.ins("FMOVQ", at(row, 0), x.f())
	body()
	g.ins("FMOVQ.P", x.f(), at(row, 16))
	g.ins("SUB", "$4", n)
	g.ins("CMP", "$4", n)
	g.ins("BGE", four)
	g.label(rest)
	g.ins("CBZ", n, done)
	fill()
	from := g.reg()
	g.ins("MOVD", row, from)
	g.upToThree(n, func(i int) { g.ins("VLD1.P", at(from, 4), x.s1(i)) })
	body()
	g.upToThree(n, func(i int) { g.ins("VST1.P", x.s1(i), at(row, 4)) })
	g.label(done)
}

// upToThree does something for each of n lanes, one at least.
func (g *generator) upToThree(n reg, each func(i int)) {
	enough := g.newLabel()
	each(0)
	g.ins("CMP", "$2", n)
	g.ins("BLT", enough)
	each(1)
	g.ins("BEQ", enough)
	each(2)
	g.label(enough)
}

// broadcast loads a float parameter into all lanes.
func (g *generator) broadcast(name string, to vec) {
	g.ins("FMOVS", g.frame(name), to.f())
	g.ins("VDUP", to.s1(0), to.s())
}

func peak(g *generator) {
	g.function("peakNEON", "(row *float32, n int, scale float32, top float32) float32",
		"multiplies n elements by scale and is the largest of top and them, NaN if any is.")
	row, n := g.arg("row"), g.arg("n")
	const scale, top, x = vec(0), vec(1), vec(2)
	g.broadcast("scale", scale)
	g.broadcast("top", top)
	g.lanes(row, n, x, func() { g.ins("VLD1R", at(row, 0), x.list()) }, func() {
		g.fmul(x, x, scale)
		g.fmax(top, top, x)
	})
	g.fmaxv(top, top)
	g.ins("FMOVS", top.f(), g.frame("ret"))
	g.ins("RET")
}

func exponentials(g *generator) {
	g.function("expNEON", "(row *float32, n int, top float32) float32",
		"replaces n elements x, none of them above top, by exp(x−top), and is their sum.")
	row, n := g.arg("row"), g.arg("n")
	const top, sum, x = vec(0), vec(1), vec(2)
	g.broadcast("top", top)
	g.clear([]vec{sum})
	e := newExponent(g, 8)
	hidden := g.set(20, ofFloat(math.Inf(-1)))[0]
	g.lanes(row, n, x, func() { g.ins("VORR", hidden.b(), hidden.b(), x.b()) }, func() {
		g.fsub(x, x, top)
		e.of(x)
		g.fadd(sum, sum, x)
	})
	g.faddp(sum, sum, sum)
	g.faddp(sum, sum, sum)
	g.ins("FMOVS", sum.f(), g.frame("ret"))
	g.ins("RET")
}

// softcap writes kernels.softcap: tanh |z| is (1 − e)/(1 + e), where e is e to the power of −2|z|.
func softcap(g *generator) {
	g.function("softcapNEON", "(row *float32, n int, by float32, limit float32)",
		"replaces n elements x by limit*tanh(by*x/limit).")
	row, n := g.arg("row"), g.arg("n")
	const by, limit, x, sign, y = vec(0), vec(1), vec(2), vec(22), vec(23)
	g.broadcast("by", by)
	g.broadcast("limit", limit)
	e := newExponent(g, 8)
	c := g.set(20, ofFloat(1), ofFloat(math.Copysign(0, -1)))
	one, signs := c[0], c[1]
	g.lanes(row, n, x, func() { g.clear([]vec{x}) }, func() {
		g.fmul(x, x, by)
		g.fdiv(x, x, limit)
		g.ins("VAND", signs.b(), x.b(), sign.b())
		g.ins("VORR", signs.b(), x.b(), x.b())
		g.fadd(x, x, x)
		e.of(x)
		g.fadd(y, one, x)
		g.fsub(x, one, x)
		g.fdiv(x, x, y)
		g.fmul(x, x, limit)
		g.ins("VORR", sign.b(), x.b(), x.b())
	})
	g.ins("RET")
}

// exponent is exp for elements that are not positive: exp(x) = 2^n·exp(x − n·ln 2), with n
// the integer nearest to x/ln 2 and the first eight terms of the series for the rest, which is
// below 0.35: the ninth is less than an eighth of a unit of the last place.
type exponent struct {
	*generator
	floor, perLn2, high, low, bias vec
	terms                          []vec // the last one first
}

// floor is where exp, rounded, is 0, with a margin: its power of two is in range of two
// factors, which round once, as a subnormal.
const floor = -104.5

func newExponent(g *generator, from vec) exponent {
	high := float64(float32(math.Ln2))
	c := g.set(from, ofFloat(floor), ofFloat(1/math.Ln2), ofFloat(high), ofFloat(math.Ln2-high), constant{127<<32 | 127, 127<<32 | 127},
		ofFloat(1.0/5040), ofFloat(1.0/720), ofFloat(1.0/120), ofFloat(1.0/24), ofFloat(1.0/6), ofFloat(0.5), ofFloat(1))
	return exponent{g, c[0], c[1], c[2], c[3], c[4], append(c[5:], c[11])}
}

// of replaces x by its exponential; V3 to V7 are its own.
func (e exponent) of(x vec) {
	const n, whole, half = vec(3), vec(4), vec(5)
	e.fmax(x, x, e.floor) // NaN stays
	e.fmul(n, x, e.perLn2)
	e.fcvtns(n, n)
	e.scvtf(whole, n)
	e.ins("VFMLS", e.high.s(), whole.s(), x.s())
	e.ins("VFMLS", e.low.s(), whole.s(), x.s())
	sum := e.terms[0]
	for i, term := range e.terms[1:] {
		next := vec(6 + i%2)
		e.ins("VORR", term.b(), term.b(), next.b())
		e.ins("VFMLA", sum.s(), x.s(), next.s())
		sum = next
	}
	e.sshr(half, n, 1)
	e.ins("VSUB", half.s(), n.s(), n.s())
	for _, power := range []vec{half, n} {
		e.ins("VADD", e.bias.s(), power.s(), power.s())
		e.ins("VSHL", "$23", power.s(), power.s())
	}
	e.fmul(x, sum, half)
	e.fmul(x, x, n)
}
