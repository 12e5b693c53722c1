package main

import "github.com/mmcloughlin/avo/operand"

// rotate writes what turns rows: RoPE and the Walsh-Hadamard transform, with the operations of
// their Go versions in their order, so that the bits are the same.
func rotate(g *generator) {
	c := &converter{g, map[string]operand.Mem{}}
	c.turnHalves()
	c.turnPairs()
	c.hadamard()
}

// turnHalves goes through the first and the second halves of the pairs side by side.
func (c *converter) turnHalves() {
	c.function("turnHalves", "func(x, angles *float32, gap, n int, sign, magnitude float32)",
		"turns n pairs, a multiple of a vector, whose elements are gap apart.")
	p := c.loads("x", "angles", "gap", "n")
	sign, magnitude := c.vec(0), c.vec(1)
	a, b, cos, sin, aSin, bSin := c.vec(2), c.vec(3), c.vec(4), c.vec(5), c.vec(6), c.vec(7)
	c.VBROADCASTSS(c.parameter("sign"), sign)
	c.VBROADCASTSS(c.parameter("magnitude"), magnitude)
	other := c.GP64()
	c.LEAQ(operand.Mem{Base: p[0], Index: p[2], Scale: 4}, other)
	c.sweep("pairs", p[3], []array{{p[0], 4}, {other, 4}, {p[1], 8}}, func(m []operand.Mem) {
		c.VMOVUPS(m[2], a)
		c.VMOVUPS(m[2].Offset(4*c.lanes), b)
		c.apart(a, b, cos, sin)
		c.VMULPS(sign, sin, sin)
		c.VMOVUPS(m[0], a)
		c.VMOVUPS(m[1], b)
		c.VMULPS(b, sin, bSin)
		c.VMULPS(a, sin, aSin)
		c.VMULPS(a, cos, a)
		c.VMULPS(b, cos, b)
		c.VSUBPS(bSin, a, a)
		c.VADDPS(b, aSin, b)
		c.VMULPS(magnitude, a, a)
		c.VMULPS(magnitude, b, b)
		c.VMOVUPS(a, m[0])
		c.VMOVUPS(b, m[1])
	})
	c.end()
}

// apart takes the elements of even and those of odd index out of two vectors that follow
// each other.
func (c *converter) apart(a, b, even, odd operand.Op) {
	if c.wide() {
		c.VMOVUPS(c.words("even", func(i int) uint32 { return uint32(2 * i) }), even)
		c.VMOVUPS(c.words("odd", func(i int) uint32 { return uint32(2*i + 1) }), odd)
		c.VPERMI2PS(b, a, even)
		c.VPERMI2PS(b, a, odd)
		return
	}
	c.VSHUFPS(operand.U8(0b10001000), b, a, even)
	c.VSHUFPS(operand.U8(0b11011101), b, a, odd)
	c.VPERMPD(operand.U8(0b11011000), even, even)
	c.VPERMPD(operand.U8(0b11011000), odd, odd)
}

// turnPairs keeps pairs together: each element takes its own share and its neighbour's.
func (c *converter) turnPairs() {
	c.function("turnPairs", "func(x, angles *float32, n int, sign, magnitude float32)",
		"turns the pairs of neighbours among n elements, a multiple of a vector.")
	p := c.loads("x", "angles", "n")
	sign, magnitude := c.vec(0), c.vec(1)
	x, other, cos, sin := c.vec(2), c.vec(3), c.vec(4), c.vec(5)
	c.VBROADCASTSS(c.parameter("sign"), sign)
	c.VMULPS(c.alternating(1, true), sign, sign)
	c.VBROADCASTSS(c.parameter("magnitude"), magnitude)
	c.sweep("pairs", p[2], []array{{p[0], 4}, {p[1], 4}}, func(m []operand.Mem) {
		c.VMOVSLDUP(m[1], cos)
		c.VMOVSHDUP(m[1], sin)
		c.VMULPS(sign, sin, sin)
		c.VMOVUPS(m[0], x)
		c.VPERMILPS(operand.U8(0b10110001), x, other)
		c.VMULPS(cos, x, x)
		c.VMULPS(sin, other, other)
		c.VADDPS(other, x, x)
		c.VMULPS(magnitude, x, x)
		c.VMOVUPS(x, m[0])
	})
	c.end()
}
