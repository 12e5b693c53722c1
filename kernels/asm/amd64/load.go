package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// scaling is what turns codes into values.
type scaling int

const (
	unscaled   scaling = iota
	byRow              // a factor for each row
	byGroup            // a step and what code 0 is worth, for each group of a row
	byChannels         // a zero point for each channel; its step is in the other factor
)

// storage is a storage type whose elements a kernel reads as float32.
type storage struct {
	name    string // in the names of functions
	bits    int    // of an element
	scaling scaling
	// constants is what load finds in the generator's held registers.
	constants []constant
	worth     constant // of 4 bits: what codes are worth, in steps
	groups    []int    // byGroup, of 4 bits: elements of one
	// load sets a vector to as many elements at m, of quantized types their codes.
	load func(g *generator, m operand.Mem, to reg.VecPhysical)
	// pair, if there is one, sets two vectors to the values of two vectors' worth of codes at m, the
	// first to those at even places. It finds step, and the value of code 0 or the table that
	// makes values of codes, in what scales names.
	pair func(g *generator, m operand.Mem, even, odd reg.VecPhysical, scales pairScales)
}

// pairScales is a group's step and the value of its code 0, or a table of the values of all codes.
type pairScales struct{ step, zero, table reg.VecPhysical }

// plain is the types without scales.
var plain = []storage{
	{name: "F32", bits: 32, load: func(g *generator, m operand.Mem, to reg.VecPhysical) { g.VMOVUPS(m, to) }},
	{name: "F16", bits: 16, load: func(g *generator, m operand.Mem, to reg.VecPhysical) { g.VCVTPH2PS(m, to) }},
	{name: "BF16", bits: 16, load: func(g *generator, m operand.Mem, to reg.VecPhysical) {
		g.VPMOVZXWD(m, to)
		g.VPSLLD(operand.U8(16), to, to)
	}},
}

// quantized is the others, as a tier loads them.
func (i isa) quantized() []storage {
	all := []storage{
		{name: "Int8", bits: 8, scaling: byRow, load: func(g *generator, m operand.Mem, to reg.VecPhysical) {
			g.VPMOVSXBD(m, to)
			g.VCVTDQ2PS(to, to)
		}},
		{name: "Int8Asym", bits: 8, scaling: byGroup, load: func(g *generator, m operand.Mem, to reg.VecPhysical) {
			g.VPMOVZXBD(m, to)
			g.VCVTDQ2PS(to, to)
		}},
		{name: "E4M3", bits: 8, scaling: byRow, constants: []constant{one16, {"bit7", every(0x800080)}}, load: loadE4M3},
		{name: "E5M2", bits: 8, scaling: byRow, load: func(g *generator, m operand.Mem, to reg.VecPhysical) {
			g.VPMOVZXBW(m, g.half(to))
			g.VPSLLW(operand.U8(8), g.half(to), g.half(to))
			g.VCVTPH2PS(g.half(to), to)
		}},
		{name: "Int4", bits: 4, scaling: byGroup, worth: codes, groups: []int{32, 64}},
		{name: "Int4Channel", bits: 4, scaling: byChannels, worth: codes},
		{name: "E2M1", bits: 4, scaling: byGroup, worth: e2m1, groups: []int{32, 16}},
	}
	for j := range all {
		if all[j].bits == 4 {
			i.nibbles(&all[j])
		}
	}
	return all
}

// loadE4M3 makes binary16 of codes, 2^8 times too small: its exponent has a bit more. A code
// with all bits set but the sign is NaN, and the only one that carries into bit 7.
func loadE4M3(g *generator, m operand.Mem, to reg.VecPhysical) {
	code, carry := g.half(to), g.half(g.spare)
	one, bit7 := g.half(g.held[0]), g.half(g.held[1])
	g.VPMOVSXBW(m, code)
	g.VPADDW(one, code, carry)
	if g.wide() {
		g.VPTERNLOGD(operand.U8(0x78), bit7, carry, code) // code ^ carry&bit7
	} else {
		g.VPAND(bit7, carry, carry)
		g.VPXOR(carry, code, code)
	}
	g.VPSLLW(operand.U8(7), code, code)
	g.VCVTPH2PS(code, to)
}

// codes is what codes of 4 bits are worth that are integers, and e2m1 those that are OCP's floats, the
// upper eight with a sign.
var (
	codes = constant{"codes", func(i int) uint32 { return math.Float32bits(float32(i)) }}
	e2m1  = constant{"e2m1", func(i int) uint32 {
		return math.Float32bits([]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6}[i%8]) | uint32(i/8)<<31
	}}
)

// byTables reports whether a type has so few codes that their values are looked up, in a table for each
// group: one of AVX2 has eight, which is enough for those that have a sign.
func (i isa) byTables(t storage) bool {
	return t.scaling == byGroup && t.bits == 4 && (i.wide() || i.signs(t))
}

// signs reports whether a table is of magnitudes, and a code's highest bit a sign.
func (i isa) signs(t storage) bool { return !i.wide() && t.worth.name == e2m1.name }

// nibbles sets how codes of 4 bits are loaded.
func (i isa) nibbles(t *storage) {
	switch {
	case i.signs(*t):
		t.load, t.pair = nil, signedPair
		return
	case !i.wide():
		t.load = func(g *generator, m operand.Mem, to reg.VecPhysical) {
			g.VPBROADCASTD(m, to)
			g.VPSLLVD(g.global(upwards), to, to)
			g.VPSRLD(operand.U8(28), to, to)
			g.VCVTDQ2PS(to, to)
		}
	default:
		t.constants = []constant{t.worth}
		t.load = func(g *generator, m operand.Mem, to reg.VecPhysical) { g.lookUp(m, g.held[0], to) }
	}
	if t.scaling == byGroup {
		t.pair = i.pair
	}
}

// upwards is what moves each of eight codes of 4 bits to the highest bits of a word.
var (
	upwards = constant{"shifts", func(i int) uint32 { return uint32(28 - 4*i) }}
	signBit = constant{"signBit", every(1 << 31)}
)

// signedPair is storage.pair of AVX2 by a table of magnitudes.
func signedPair(g *generator, m operand.Mem, even, odd reg.VecPhysical, s pairScales) {
	g.VPMOVZXBD(m, odd)
	for _, half := range []struct {
		to   reg.VecPhysical
		sign uint8 // bits below the highest one
	}{{even, 28}, {odd, 24}} {
		g.VPSLLD(operand.U8(half.sign), odd, g.spare)
		g.VPAND(g.global(signBit), g.spare, g.spare)
		if half.to == odd {
			g.VPSRLD(operand.U8(4), odd, odd)
		}
		g.VPERMPS(s.table, odd, half.to)
		g.VPXOR(g.spare, half.to, half.to)
	}
}

// pair is storage.pair of codes of 4 bits.
func (i isa) pair(g *generator, m operand.Mem, even, odd reg.VecPhysical, s pairScales) {
	if i.wide() {
		g.VPMOVZXBD(m, even) // a table's index is the low 4 bits
		g.VPSRLD(operand.U8(4), even, odd)
		g.VPERMPS(s.table, even, even)
		g.VPERMPS(s.table, odd, odd)
		return
	}
	g.VPMOVZXBD(m, odd)
	g.VPAND(g.global(constant{"low4of32", every(15)}), odd, even)
	g.VPSRLD(operand.U8(4), odd, odd)
	for _, v := range []reg.VecPhysical{even, odd} {
		g.VCVTDQ2PS(v, v)
		g.VFMADD213PS(s.zero, s.step, v)
	}
}

// table sets a vector to the values of a group's codes, by its step and what code 0 is worth.
func (g *generator) table(t storage, step, zero operand.Mem, to reg.VecPhysical) {
	if g.signs(t) {
		g.VBROADCASTSS(step, to)
		g.VMULPS(g.global(t.worth), to, to)
		return
	}
	g.VBROADCASTSS(zero, to)
	g.VFMADD231PS_BCST(step, g.held[0], to)
}

// lookUp sets a vector to the values of as many codes of 4 bits, by a table.
func (g *generator) lookUp(m operand.Mem, table, to reg.VecPhysical) {
	if !g.wide() {
		g.VPBROADCASTD(m, to)
		g.VPSLLVD(g.global(upwards), to, to)
		g.VPAND(g.global(signBit), to, g.spare)
		g.VPSRLD(operand.U8(28), to, to)
		g.VPERMPS(table, to, to) // by the low 3 bits
		g.VPXOR(g.spare, to, to)
		return
	}
	g.VPBROADCASTQ(m, to)
	g.VPSHUFB(g.global(constant{"pairs", func(i int) uint32 { return 0x01010101 * uint32(i/2) }}), to, to)
	g.VPSRLVD(g.global(constant{"highs", func(i int) uint32 { return uint32(i % 2 * 4) }}), to, to)
	g.VPERMPS(table, to, to)
}
