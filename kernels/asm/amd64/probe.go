package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// probeRound is the bytes that the probes of memory go through in a round.
const probeRound = 512

// probe writes what finds the limits of a machine: nothing reads memory, copies it or
// multiplies faster than these do.
func probe(g *generator) {
	g.probeRead()
	g.probeCopy()
	g.probeFMA()
}

// probeRead brings memory into registers.
func (g *generator) probeRead() {
	g.probeFunction("read", "func(mem *byte, ahead, rounds int)", "reads 512 bytes in each round, and prefetches those that lie so much ahead.")
	mem, ahead, rounds := g.pointer("mem"), g.pointer("ahead"), g.pointer("rounds")
	sums := g.vecs(0, 8)
	for _, s := range sums {
		g.zero(s)
	}
	g.Label("round")
	g.probeAsk(mem, ahead)
	for i := range probeRound / g.probeBytes() {
		g.VPADDD(at(mem, i*g.probeBytes()), sums[i%len(sums)], sums[i%len(sums)])
	}
	g.ADDQ(operand.U32(probeRound), mem)
	g.DECQ(rounds)
	g.JNZ(operand.LabelRef("round"))
	g.VZEROUPPER()
	g.RET()
}

// probeCopy moves memory around the caches: what is written is not read before.
func (g *generator) probeCopy() {
	g.probeFunction("copy", "func(dst, src *byte, ahead, rounds int)", "copies 512 bytes in each round, and prefetches as the reading probe does. dst is aligned to a cache line.")
	dst, src, ahead, rounds := g.pointer("dst"), g.pointer("src"), g.pointer("ahead"), g.pointer("rounds")
	lines := g.vecs(0, 8)
	g.Label("round")
	g.probeAsk(src, ahead)
	for i := 0; i < probeRound/g.probeBytes(); i += len(lines) {
		for j, v := range lines {
			g.VMOVUPS(at(src, (i+j)*g.probeBytes()), v)
		}
		for j, v := range lines {
			g.VMOVNTPS(v, at(dst, (i+j)*g.probeBytes()))
		}
	}
	g.ADDQ(operand.U32(probeRound), src)
	g.ADDQ(operand.U32(probeRound), dst)
	g.DECQ(rounds)
	g.JNZ(operand.LabelRef("round"))
	g.SFENCE()
	g.VZEROUPPER()
	g.RET()
}

// probeAsk prefetches what a round reads, some bytes ahead of it.
func (g *generator) probeAsk(mem, ahead reg.Register) {
	for line := 0; line < probeRound; line += 64 {
		g.PREFETCHT0(operand.Mem{Base: mem, Index: ahead, Scale: 1, Disp: line})
	}
}

// probeSums is the sums that a round of probeFMA adds to: more than the units have under way.
const probeSums = 12

// probeFMA multiplies and adds, in registers alone.
func (g *generator) probeFMA() {
	g.probeFunction("fma", "func(x *float32, rounds int)", "multiplies and adds 12 vectors of x in each round.")
	from, rounds := g.pointer("x"), g.pointer("rounds")
	sums, x := g.vecs(0, probeSums), g.vec(probeSums)
	for _, s := range sums {
		g.zero(s)
	}
	g.VBROADCASTSS(at(from, 0), x)
	g.Label("round")
	for _, s := range sums {
		g.VFMADD231PS(x, x, s)
	}
	g.DECQ(rounds)
	g.JNZ(operand.LabelRef("round"))
	g.VZEROUPPER()
	g.RET()
}

// probeFunction begins a function of the tier.
func (g *generator) probeFunction(name, signature, does string) {
	g.Function(name + g.name)
	g.SignatureExpr(signature)
	g.Attributes(attr.NOSPLIT)
	g.Pragma("noescape")
	g.Doc(name + g.name + " " + does)
}

// probeBytes is the size of a vector.
func (g *generator) probeBytes() int { return 4 * g.lanes }
