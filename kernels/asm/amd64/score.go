package main

func score(g *generator) {
	g.Function("probe" + g.name)
	g.SignatureExpr("func(x *float32)")
	x := g.pointer("x")
	g.zero(g.vec(0))
	g.VMOVUPS(g.vec(0), at(x, 0))
	g.VZEROUPPER()
	g.RET()
}
