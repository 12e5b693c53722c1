package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// converter writes the functions that convert between storage types. Its constants lie in
// memory, so that a call of one row does not begin with loading them all.
type converter struct {
	*generator
	constants map[string]operand.Mem
}

// words is the memory of 16 words, which a vector of any width may be operated with.
func (c *converter) words(name string, word func(i int) uint32) operand.Mem {
	name += c.name
	if m, ok := c.constants[name]; ok {
		return m
	}
	m := c.StaticGlobal(name)
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 8 {
		c.AddDatum(8*i, operand.U64(word(2*i))|operand.U64(word(2*i+1))<<32)
	}
	c.constants[name] = m
	return m
}

// bits is a constant in every element.
func (c *converter) bits(word uint32) operand.Mem {
	return c.words(fmt.Sprintf("bits%08x", word), func(int) uint32 { return word })
}

func (c *converter) float(x float64) operand.Mem { return c.bits(math.Float32bits(float32(x))) }

// The bitwise operations have other names where the registers are those of AVX-512.

func (c *converter) and(a operand.Op, b, to reg.Register) {
	if to.Size() == 64 {
		c.VPANDD(a, b, to)
	} else {
		c.VPAND(a, b, to)
	}
}

func (c *converter) or(a operand.Op, b, to reg.Register) {
	if to.Size() == 64 {
		c.VPORD(a, b, to)
	} else {
		c.VPOR(a, b, to)
	}
}

func (c *converter) xor(a operand.Op, b, to reg.Register) {
	if to.Size() == 64 {
		c.VPXORD(a, b, to)
	} else {
		c.VPXOR(a, b, to)
	}
}

// without sets to to the bits of a that mask has not.
func (c *converter) without(a operand.Op, mask, to reg.Register) {
	if to.Size() == 64 {
		c.VPANDND(a, mask, to)
	} else {
		c.VPANDN(a, mask, to)
	}
}

// above sets a mask of the elements of x that are larger than a constant, all of them below
// 2^31. Compares would give it in a mask register on one tier and in a vector on the other.
func (c *converter) above(x reg.Register, limit uint32, mask reg.Register) {
	c.VPSUBD(c.bits(limit+1), x, mask)
	c.VPSRAD(operand.U8(31), mask, mask)
	c.xor(c.bits(math.MaxUint32), mask, mask)
}

// choose sets to to b where mask is set and to a elsewhere. It overwrites b.
func (c *converter) choose(mask, a, b, to reg.Register) {
	c.xor(a, b, b)
	c.and(mask, b, b)
	c.xor(a, b, to)
}

// half is the lower half of vector register i.
func (c *converter) half(i int) reg.Register {
	if c.wide() {
		return c.vec(i).AsY()
	}
	return c.vec(i).AsX()
}

// array is memory whose elements a sweep goes through.
type array struct {
	base reg.Register
	size uint8 // bytes of an element
}

// sweep goes through n elements, a multiple of lanes, a vector at a time; each gets the
// memory of a vector of each array. n ends as 0, and the bases behind what was gone through.
func (c *converter) sweep(label string, n reg.Register, arrays []array, each func(m []operand.Mem)) {
	m := make([]operand.Mem, len(arrays))
	for i, a := range arrays {
		m[i] = operand.Mem{Base: a.base, Index: n, Scale: a.size}
		c.LEAQ(m[i], a.base)
	}
	c.NEGQ(n)
	c.Label(label)
	each(m)
	c.ADDQ(operand.Imm(uint64(c.lanes)), n)
	c.JNZ(operand.LabelRef(label))
}

// storeBytes stores the low byte of each element of v, which it overwrites.
func (c *converter) storeBytes(v reg.VecPhysical, m operand.Mem) {
	if c.wide() {
		c.VPMOVDB(v, m)
		return
	}
	c.gatherBytes(v, 0x0c080400)
	c.VEXTRACTI128(operand.U8(1), v, c.vec(15).AsX())
	c.VPUNPCKLDQ(c.vec(15).AsX(), v.AsX(), v.AsX())
	c.VMOVQ(v.AsX(), m)
}

// storeNibbles stores the low half byte of each element of v, which it overwrites, two a
// byte. The other bits are 0.
func (c *converter) storeNibbles(v, spare reg.VecPhysical, m operand.Mem) {
	c.VPSRLQ(operand.U8(28), v, spare)
	c.or(spare, v, v)
	if c.wide() {
		c.VPMOVQB(v, m)
		return
	}
	c.gatherBytes(v, 0x0800)
	c.VEXTRACTI128(operand.U8(1), v, spare.AsX())
	c.VPUNPCKLWD(spare.AsX(), v.AsX(), v.AsX())
	c.VMOVD(v.AsX(), m)
}

// gatherBytes moves the bytes of each half of v that order names to the half's begin.
func (c *converter) gatherBytes(v reg.VecPhysical, order uint32) {
	c.VPSHUFB(c.words(fmt.Sprintf("bytes%x", order), func(int) uint32 { return order }), v, v)
}

// storeHalves stores the low 16 bits of each element of v, which it overwrites. The others
// are 0.
func (c *converter) storeHalves(v reg.VecPhysical, m operand.Mem) {
	if c.wide() {
		c.VPMOVDW(v, m)
		return
	}
	c.VPACKUSDW(v, v, v)
	c.VPERMQ(operand.U8(0b1000), v, v)
	c.VMOVDQU(v.AsX(), m)
}

// resultFinite is a function's only result: whether no word of largest, magnitudes of floats as
// bits, is that of an infinity or NaN. It overwrites largest and spare.
func (c *converter) resultFinite(largest, spare reg.VecPhysical) {
	c.above(largest, infinity-1, spare)
	if c.wide() {
		c.VEXTRACTI64X4(operand.U8(1), spare, largest.AsY())
		c.VPOR(largest.AsY(), spare.AsY(), spare.AsY())
	}
	ok := c.GP8()
	c.VPTEST(spare.AsY(), spare.AsY())
	c.SETEQ(ok)
	c.Store(ok, c.ReturnIndex(0))
}

const infinity = 0x7f800000 // its bits

// loads loads parameters into registers of their own.
func (c *converter) loads(names ...string) []reg.Register {
	out := make([]reg.Register, len(names))
	for i, name := range names {
		out[i] = c.pointer(name)
	}
	return out
}

// parameter is the memory of a parameter.
func (c *converter) parameter(name string) operand.Mem {
	p, err := c.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return p.Addr
}

// function begins one of this tier's functions.
func (c *converter) function(name, signature, doc string) {
	c.Function(name + c.name)
	c.Pragma("noescape")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr(signature)
	c.Doc(name + c.name + " " + doc)
}

func (c *converter) end() {
	c.VZEROUPPER()
	c.RET()
}
