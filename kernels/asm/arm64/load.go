package main

import "math"

// storage is a storage type whose elements a kernel reads as float32.
type storage struct {
	name   string // in the names of functions
	size   int    // bytes of an element
	scaled bool   // a row has a scale, a float32
	// constants is what load wants in registers.
	constants []constant
	// load sets two vectors to the eight elements at from, without their scale.
	load func(g *generator, from address, lo, hi vec, constants []vec)
}

// constant is the bits of a vector register, the low half first.
type constant [2]uint64

// address is memory at a register, which is moved on by offset if it is advanced and else
// stays where it is.
type address struct {
	base    reg
	offset  int
	advance bool
}

// read is the instruction name that reads n bytes from an address, and its operand.
func (a address) read(name string, n int) (instruction, operand string) {
	if a.advance {
		return name + ".P", at(a.base, n)
	}
	return name, at(a.base, a.offset)
}

var (
	f32    = storage{name: "F32", size: 4, load: loadF32}
	f16    = storage{name: "F16", size: 2, load: loadHalves((*generator).fcvtl, (*generator).fcvtl2)}
	bf16   = storage{name: "BF16", size: 2, load: loadHalves((*generator).shll, (*generator).shll2)}
	codes8 = storage{name: "Int8", size: 1, scaled: true, constants: []constant{toTop(0), toTop(4)}, load: loadInt8}
)

// direct is the types whose elements are converted where they are used. The others
// are decoded beforehand, a chunk of rows at a time.
var direct = []storage{f32, f16, bf16, codes8}

func loadF32(g *generator, from address, lo, hi vec, _ []vec) {
	name, operand := from.read("FLDPQ", 32)
	g.ins(name, operand, "("+lo.f()+", "+hi.f()+")")
}

// loadHalves reads elements of 16 bits, which widen takes from the low half of a vector and
// widen2 from its high half.
func loadHalves(widen, widen2 func(g *generator, d, n vec)) func(*generator, address, vec, vec, []vec) {
	return func(g *generator, from address, lo, hi vec, _ []vec) {
		name, operand := from.read("FMOVQ", 16)
		g.ins(name, operand, lo.f())
		widen2(g, hi, lo)
		widen(g, lo, lo)
	}
}

// loadInt8 moves codes to the top bytes of words: those count 2^-24.
func loadInt8(g *generator, from address, lo, hi vec, tables []vec) {
	name, operand := from.read("FMOVD", 8)
	g.ins(name, operand, lo.f())
	g.ins("VTBL", tables[1].b(), lo.table(), hi.b())
	g.ins("VTBL", tables[0].b(), lo.table(), lo.b())
	g.scvtfBy(lo, lo, 24)
	g.scvtfBy(hi, hi, 24)
}

// toTop looks up bytes first to first+3 of a table, each as the top byte of a word; an index
// beyond the table gives 0.
func toTop(first uint64) (c constant) {
	for i := range c {
		low := first + 2*uint64(i)
		c[i] = low<<24 | (low+1)<<56 | 0x00ffffff_00ffffff
	}
	return c
}

// set puts constants into registers, from one on.
func (g *generator) set(from vec, constants ...constant) []vec {
	v := vecs(int(from), len(constants))
	for i, c := range constants {
		g.ins("MOVD", hex(c[0]), scratch)
		g.ins("VMOV", scratch, v[i].d1(0))
		if c[0] != c[1] {
			g.ins("MOVD", hex(c[1]), scratch)
		}
		g.ins("VMOV", scratch, v[i].d1(1))
	}
	return v
}

// ofFloat is a constant of four equal floats.
func ofFloat(f float64) constant {
	bits := uint64(math.Float32bits(float32(f)))
	return constant{bits<<32 | bits, bits<<32 | bits}
}

// ofWord is a constant of four equal words.
func ofWord(w int) constant { return constant{uint64(w)<<32 | uint64(w), uint64(w)<<32 | uint64(w)} }

// ofByte is a constant of sixteen equal bytes.
func ofByte(b uint64) constant { return constant{b * 0x0101010101010101, b * 0x0101010101010101} }
