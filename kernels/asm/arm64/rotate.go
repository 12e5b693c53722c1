package main

import "fmt"

// rotate writes what turns rows: RoPE and the Walsh-Hadamard transform, with the operations of
// their Go versions in their order, so that the bits are the same.
func rotate(g *generator) {
	turn(g, "turnHalves", "x *float32, angles *float32, gap int, n int", "n pairs, a multiple of 4 and at least that, whose elements are gap apart")
	turn(g, "turnPairs", "x *float32, angles *float32, n int", "the pairs of neighbours among n elements, a multiple of 8 and at least that")
	hadamard(g)
}

// turn writes a function for pairs that are apart, or that are neighbours.
func turn(g *generator, name, signature, doc string) {
	g.function(name+"NEON", "("+signature+", sign float32, magnitude float32)", "turns "+doc+".")
	const a, b, cos, sin, aSin, bSin, sign, magnitude = vec(0), vec(1), vec(2), vec(3), vec(4), vec(5), vec(6), vec(7)
	pair := func(v vec) string { return fmt.Sprintf("[%s, %s]", v.s(), (v + 1).s()) }
	x, angles, n := g.arg("x"), g.arg("angles"), g.arg("n")
	g.broadcast("sign", sign)
	g.broadcast("magnitude", magnitude)
	var other reg
	if name == "turnHalves" {
		other = g.arg("gap")
		g.ins("ADD", other.shifted(2), x, other)
	}
	g.loop(func() {
		g.ins("VLD2.P", at(angles, 32), pair(cos))
		if name == "turnHalves" {
			g.ins("FMOVQ", at(x, 0), a.f())
			g.ins("FMOVQ", at(other, 0), b.f())
		} else {
			g.ins("VLD2", at(x, 0), pair(a))
		}
		g.fmul(sin, sin, sign)
		g.fmul(bSin, b, sin)
		g.fmul(aSin, a, sin)
		g.fmul(a, a, cos)
		g.fmul(b, b, cos)
		g.fsub(a, a, bSin)
		g.fadd(b, b, aSin)
		g.fmul(a, a, magnitude)
		g.fmul(b, b, magnitude)
		if name == "turnHalves" {
			g.ins("FMOVQ.P", a.f(), at(x, 16))
			g.ins("FMOVQ.P", b.f(), at(other, 16))
			g.ins("SUBS", "$4", n)
		} else {
			g.ins("VST2.P", pair(a), at(x, 32))
			g.ins("SUBS", "$8", n)
		}
	})
	g.ins("RET")
}

// hadamard does the stages whose elements are up to four vectors apart in registers, and the
// others in memory.
func hadamard(g *generator) {
	g.function("hadamardNEON", "(x *float32, size int, n int, shrink float32)",
		"transforms n elements in blocks of size, a power of two from 16 on.")
	const shrink = vec(16)
	x, size, n := g.arg("x"), g.arg("size"), g.arg("n")
	from, left := g.reg(), g.reg()
	g.broadcast("shrink", shrink)
	one, minus := ofFloat(1)[0], ofFloat(-1)[0]
	both := one&0xffffffff | minus&^0xffffffff
	signs := g.set(17, constant{both, both}, constant{one, minus})
	four := g.newLabel()
	block := func(vectors int, factor ...vec) {
		v := vecs(0, vectors)
		g.ins("MOVD", x, from)
		g.ins("MOVD", n, left)
		g.loop(func() {
			for i := 0; i < vectors; i += 2 {
				g.ins("FLDPQ", at(from, 16*i), "("+v[i].f()+", "+v[i+1].f()+")")
			}
			g.stages(v, signs)
			for i := 0; i < vectors; i += 2 {
				for _, f := range factor {
					g.fmul(v[i], v[i], f)
					g.fmul(v[i+1], v[i+1], f)
				}
				g.ins("FSTPQ.P", "("+v[i].f()+", "+v[i+1].f()+")", at(from, 32))
			}
			g.ins("SUBS", imm(4*vectors), left)
		})
	}
	g.ins("CMP", "$16", size)
	g.ins("BEQ", four)
	block(8)
	g.inMemory(x, size, n, 32)
	g.scale(x, n, shrink)
	g.ins("RET")
	g.label(four)
	block(4, shrink)
	g.ins("RET")
}

// stages does the first stages of a block that is in registers.
func (g *generator) stages(v, signs []vec) {
	const swapped = vec(8)
	for _, x := range v {
		g.ins("VREV64", x.s(), swapped.s())
		g.fmul(x, x, signs[0])
		g.fadd(x, swapped, x)
		g.ins("VEXT", "$8", x.b(), x.b(), swapped.b())
		g.fmul(x, x, signs[1])
		g.fadd(x, swapped, x)
	}
	for apart := 1; apart < len(v); apart *= 2 {
		for i := range v {
			if i&apart == 0 {
				low, high := v[i], v[i+apart]
				g.fsub(swapped, low, high)
				g.fadd(low, low, high)
				g.ins("VMOV", swapped.b(), high.b())
			}
		}
	}
}

// inMemory does the stages whose elements are apart or more.
func (g *generator) inMemory(x, size, n reg, apart int) {
	const low, high, less = vec(0), vec(1), vec(2)
	bytes, end, from, to, left, count := g.reg(), g.reg(), g.reg(), g.reg(), g.reg(), g.reg()
	stage, done := g.newLabel(), g.newLabel()
	g.ins("MOVD", imm(4*apart), bytes)
	g.ins("LSL", "$2", size, end)
	g.label(stage)
	g.ins("CMP", end, bytes)
	g.ins("BGE", done)
	g.ins("MOVD", x, from)
	g.ins("LSL", "$2", n, left)
	g.loop(func() {
		g.ins("ADD", bytes, from, to)
		g.ins("MOVD", bytes, count)
		g.loop(func() {
			g.ins("FMOVQ", at(from, 0), low.f())
			g.ins("FMOVQ", at(to, 0), high.f())
			g.fsub(less, low, high)
			g.fadd(low, low, high)
			g.ins("FMOVQ.P", low.f(), at(from, 16))
			g.ins("FMOVQ.P", less.f(), at(to, 16))
			g.ins("SUBS", "$16", count)
		})
		g.ins("MOVD", to, from)
		g.ins("SUBS", bytes.shifted(1), left)
	})
	g.ins("LSL", "$1", bytes, bytes)
	g.ins("JMP", stage)
	g.label(done)
}
