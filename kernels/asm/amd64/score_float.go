package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// unit is the elements that a step of the loop over a key multiplies.
const unit = 16

// floatProducts multiplies float32: the elements of a key are loaded, and converted, once for
// all rows.
type floatProducts struct {
	*scoring
	t    storage
	left reg.GPVirtual // elements of the group

	x    []reg.VecPhysical // elements of each row
	step reg.VecPhysical   // how far apart the codes of a key are

	// Of codes of 4 bits, by tables.
	tables []reg.VecPhysical // what the codes of each key are worth
	odd    []reg.VecPhysical // elements of each row at odd places
	y      reg.VecPhysical   // those of a key
}

func (f *floatProducts) prepare() {
	if f.t.scaling != unscaled {
		f.scales = f.GP64()
	}
	if f.t.scaling == byGroup {
		f.scale, f.scale3 = f.apart("scale")
		f.left = f.GP64()
	}
}

func (f *floatProducts) scaleBytes() int {
	if f.t.scaling == byRow {
		return 4
	}
	return 0
}

func (f *floatProducts) hold(b *block, free int) {
	f.x = f.vecs(free, b.rows)
	free += b.rows
	free = f.generator.hold(f.t.constants, free)
	if f.byTables(f.t) {
		f.tables = f.vecs(free, b.keys)
		free += b.keys
	} else if f.t.scaling == byGroup {
		f.step = f.vec(free)
	}
	if f.paired() {
		f.odd, f.y = f.vecs(free, b.rows), f.vec(free+b.rows)
	}
}

// paired reports whether two vectors of codes are multiplied at once: rows are then as unzip leaves them.
func (f *floatProducts) paired() bool { return f.wide() && f.byTables(f.t) }

func (f *floatProducts) loop(b *block) {
	f.Load(f.Param("qRow"), f.count)
	f.SHRQ(operand.U8(2), f.count)
	left := f.count
	switch f.t.scaling {
	case byChannels:
		f.Load(f.Param("zeros"), f.scales)
	case byGroup:
		left = f.left
		f.Label(b.label("group"))
		f.Load(f.Param("group"), left)
		f.CMPQ(left, f.count)
		f.CMOVQGT(f.count, left)
		f.SUBQ(left, f.count)
	}
	if f.byTables(f.t) {
		for k, t := range f.tables {
			f.table(f.t, f.scaleOf(k, 0), f.scaleOf(k, 4), t)
		}
	}
	if f.paired() {
		f.CMPQ(left, operand.U8(2*unit))
		f.JLT(b.to("step"))
		f.Label(b.label("pair"))
		f.multiplyPairs(b)
		f.SUBQ(operand.U8(2*unit), left)
		f.CMPQ(left, operand.U8(2*unit))
		f.JGE(b.to("pair"))
		f.TESTQ(left, left)
		f.JEQ(b.to("grouped"))
	}
	f.Label(b.label("step"))
	f.multiply(b)
	f.SUBQ(operand.U8(unit), left)
	f.JNE(b.to("step"))
	if f.t.scaling == byGroup {
		f.Label(b.label("grouped"))
		f.ADDQ(operand.U8(8), f.scales)
		f.TESTQ(f.count, f.count)
		f.JNE(b.to("group"))
	}
}

// scaleOf is the step of a key's group, or four bytes behind it what code 0 is worth.
func (f *floatProducts) scaleOf(k, disp int) operand.Mem {
	return nth(f.scales, f.scale, f.scale3, k, disp)
}

// multiply adds the products of the next elements.
func (f *floatProducts) multiply(b *block) {
	for i := 0; i < unit; i += f.lanes {
		for r, x := range f.x {
			f.VMOVUPS(b.row(r, 4*i), x)
		}
		for k := range b.keys {
			f.load(b, k, i)
			for r, x := range f.x {
				f.VFMADD231PS(x, b.y, b.sum(r, k))
			}
		}
	}
	f.advance(b, unit)
	if f.t.scaling == byChannels {
		f.ADDQ(operand.U8(4*unit), f.scales)
	}
}

// multiplyPairs adds the products of the next two vectors of elements.
func (f *floatProducts) multiplyPairs(b *block) {
	for r, x := range f.x {
		f.VMOVUPS(b.row(r, 0), x)
		f.VMOVUPS(b.row(r, 4*unit), f.odd[r])
	}
	for k := range b.keys {
		f.t.pair(f.generator, b.key(k, 0), b.y, f.y, pairScales{table: f.tables[k]})
		for r, x := range f.x {
			f.VFMADD231PS(x, b.y, b.sum(r, k))
			f.VFMADD231PS(f.odd[r], f.y, b.sum(r, k))
		}
	}
	f.advance(b, 2*unit)
}

// advance moves on by a number of elements.
func (f *floatProducts) advance(b *block, elements int) {
	bytes := elements * f.bits / 8
	f.fetch(b.keys * bytes)
	f.ADDQ(operand.U8(bytes), f.keys)
	f.ADDQ(operand.U32(4*elements), f.q)
}

// load sets b.y to the values of key k from the i-th of the next elements on, but for what
// others do (see scaling).
func (f *floatProducts) load(b *block, k, i int) {
	m := b.key(k, i*f.bits/8)
	if f.byTables(f.t) {
		f.lookUp(m, f.tables[k], b.y)
		return
	}
	f.t.load(f.generator, m, b.y)
	switch f.t.scaling {
	case byGroup:
		f.VBROADCASTSS(f.scaleOf(k, 0), f.step)
		if f.wide() {
			f.VFMADD213PS_BCST(f.scaleOf(k, 4), f.step, b.y)
		} else {
			f.VBROADCASTSS(f.scaleOf(k, 4), f.spare)
			f.VFMADD213PS(f.spare, f.step, b.y)
		}
	case byChannels:
		f.VADDPS(at(f.scales, 4*i), b.y, b.y)
	}
}

func (f *floatProducts) finish(b *block) reg.VecPhysical {
	scores := f.reduce(b.sums, b.y, f.VADDPS)
	if f.t.scaling == byRow {
		b.ofKeys(at(f.scales, 0), b.y)
		f.VMULPS(b.y, scores, scores)
	}
	return scores
}
