package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// held is the most vectors of a block that are transformed in registers.
const held = 8

// alternating is runs of elements of 1 and of −1, in turn, which begin with −1 where negative.
func (c *converter) alternating(elements int, negative bool) operand.Mem {
	name := fmt.Sprintf("sign%d", elements)
	if negative {
		name = "negative" + name
	}
	return c.words(name, func(i int) uint32 {
		const one, minus = 0x3f800000, 0xbf800000
		if (i/elements%2 == 0) != negative {
			return one
		}
		return minus
	})
}

// hadamard does the stages whose elements are up to held vectors apart in registers, and the
// others in memory.
func (c *converter) hadamard() {
	c.function("hadamard", "func(x *float32, size, n int, shrink float32)",
		"transforms n elements in blocks of size, a power of two from 16 on.")
	p := c.loads("x", "size", "n")
	x, size, n := p[0], p[1], p[2]
	shrink, factor := c.vec(13), c.vec(14)
	c.VBROADCASTSS(c.parameter("shrink"), shrink)
	signs := c.vecs(9, 0)
	for apart := 1; apart < c.lanes; apart *= 2 {
		sign := c.vec(9 + len(signs))
		c.VMOVUPS(c.alternating(apart, false), sign)
		signs = append(signs, sign)
	}
	at, left := c.GP64(), c.GP64()
	c.MOVQ(x, at)
	c.MOVQ(n, left)
	c.VMOVUPS(shrink, factor)
	for vectors := 16 / c.lanes; vectors <= held; vectors *= 2 {
		c.CMPQ(size, operand.U32(vectors*c.lanes))
		c.JEQ(operand.LabelRef(fmt.Sprintf("vectors%d", vectors)))
	}
	c.VMOVUPS(c.float(1), factor)
	for vectors := held; vectors*c.lanes >= 16; vectors /= 2 {
		label := fmt.Sprintf("vectors%d", vectors)
		c.Label(label)
		c.inRegisters(at, vectors, signs, factor)
		c.ADDQ(operand.U32(4*vectors*c.lanes), at)
		c.SUBQ(operand.U32(vectors*c.lanes), left)
		c.JNZ(operand.LabelRef(label))
		if vectors == held {
			c.inMemory(x, size, n, shrink, factor)
		}
		c.end()
	}
}

// inRegisters does the first stages of a block.
func (c *converter) inRegisters(block reg.Register, vectors int, signs []reg.VecPhysical, factor reg.Register) {
	v, spare := c.vecs(0, vectors), c.vec(8)
	for i, x := range v {
		c.VMOVUPS(at(block, 4*c.lanes*i), x)
	}
	for stage, sign := range signs {
		for _, x := range v {
			switch {
			case stage < 2:
				c.VPERMILPS(operand.U8([]uint8{0b10110001, 0b01001110}[stage]), x, spare)
			case c.wide():
				c.VSHUFF32X4(operand.U8([]uint8{0b10110001, 0b01001110}[stage-2]), x, x, spare)
			default:
				c.VPERM2F128(operand.U8(1), x, x, spare)
			}
			c.VFMADD213PS(spare, sign, x) // to add or to subtract: a product with ±1 is exact
		}
	}
	for apart := 1; apart < vectors; apart *= 2 {
		for i := range v {
			if i&apart == 0 {
				low, high := v[i], v[i+apart]
				c.VADDPS(high, low, spare)
				c.VSUBPS(high, low, high)
				v[i], spare = spare, low
			}
		}
	}
	for i, x := range v {
		c.VMULPS(factor, x, x)
		c.VMOVUPS(x, at(block, 4*c.lanes*i))
	}
}

// inMemory does the other stages of all blocks, if there are any.
func (c *converter) inMemory(x, size, n reg.Register, shrink, factor reg.Register) {
	apart, bytes, low, high, left, blocks := c.GP64(), c.GP64(), c.GP64(), c.GP64(), c.GP64(), c.GP64()
	a, b, sum := c.vec(0), c.vec(1), c.vec(2)
	c.MOVQ(operand.U32(held*c.lanes), apart)
	c.Label("stage")
	c.CMPQ(apart, size)
	c.JGE(operand.LabelRef("done"))
	c.MOVQ(apart, bytes)
	c.SHLQ(operand.U8(2), bytes)
	c.MOVQ(x, low)
	c.MOVQ(n, blocks)
	c.LEAQ(operand.Mem{Base: apart, Index: apart, Scale: 1}, left)
	c.CMPQ(left, size)
	c.JNE(operand.LabelRef("block"))
	c.VMOVUPS(shrink, factor) // in the last stage
	c.Label("block")
	c.LEAQ(operand.Mem{Base: low, Index: bytes, Scale: 1}, high)
	c.MOVQ(apart, left)
	c.sweep("butterflies", left, []array{{low, 4}, {high, 4}}, func(m []operand.Mem) {
		c.VMOVUPS(m[0], a)
		c.VMOVUPS(m[1], b)
		c.VADDPS(b, a, sum)
		c.VSUBPS(b, a, a)
		c.VMULPS(factor, sum, sum)
		c.VMULPS(factor, a, a)
		c.VMOVUPS(sum, m[0])
		c.VMOVUPS(a, m[1])
	})
	c.MOVQ(high, low)
	c.SUBQ(apart, blocks)
	c.SUBQ(apart, blocks)
	c.JNZ(operand.LabelRef("block"))
	c.ADDQ(apart, apart)
	c.JMP(operand.LabelRef("stage"))
	c.Label("done")
}
