package main

// gemm writes the kernels of tall tiles: products of matrices, and what lays one of them out.
func gemm(g *generator) {
	products(g, f32, "gemmNEON", "*float32")
	transpose(g)
}

// weights is the products of cmd/internal/product.
func weights(g *generator) {
	for _, st := range []storage{f32, f16, bf16} {
		products(g, st, "mul16"+st.name+"NEON", "*byte")
	}
}

// products is mix, but that rows of both matrices may be further apart.
func products(g *generator, b storage, name, typ string) {
	g.function(name, "(c *float32, cStride int, shrink *float32, a *float32, aStride int, b "+typ+", bStride int, rows int, n int)",
		"sets 16 columns of c to the product of a, of 1 to 4 rows and n columns, and b; where shrink\n"+
			"// is not nil it multiplies row r of c by shrink[r] and adds the product.")
	m := mixer{generator: g, storage: b}
	m.acc, m.wide, m.shrink, m.p, m.stride = g.arg("c"), g.arg("cStride"), g.arg("shrink"), g.arg("a"), g.arg("aStride")
	m.values, m.bytes, m.rows, m.n = g.arg("b"), g.arg("bStride"), g.arg("rows"), g.arg("n")
	m.from, m.count = g.reg(), g.reg()
	m.tables = g.set(30, b.constants...)
	for _, stride := range []reg{m.wide, m.stride} {
		g.ins("LSL", "$2", stride, stride)
	}
	if b.size > 1 {
		g.ins("LSL", imm(log2(b.size)), m.bytes, m.bytes)
	}
	g.byRows(m.rows, func(rows int) {
		m.to, m.factors = m.rowsAt(m.acc, rows, m.wide), m.rowsAt(m.p, rows, m.stride)
		sums := vecs(0, 4*rows)
		set, add := g.newLabel(), g.newLabel()
		g.ins("CBZ", m.shrink, set)
		m.begin(sums, 4)
		g.ins("B", add)
		g.label(set)
		g.clear(sums)
		g.label(add)
		m.total(sums, 4)
		m.end(sums, 4)
		g.ins("RET")
	})
}

// transpose turns squares of four rows and columns.
func transpose(g *generator) {
	g.function("transposeNEON", "(dst *float32, stride int, src *float32, cols int)",
		"sets columns of dst to 16 rows of src, which has cols elements in each and nothing between\n"+
			"// them. cols is a multiple of 4.")
	dst, stride, src, cols := g.arg("dst"), g.arg("stride"), g.arg("src"), g.arg("cols")
	bytes, groups, left, to := g.reg(), g.reg(), g.reg(), g.reg()
	g.ins("LSL", "$2", stride, stride)
	g.ins("LSL", "$2", cols, bytes)
	from := append([]reg{src}, g.regs(3)...)
	g.ins("MOVD", "$4", groups)
	g.loop(func() {
		for i := 1; i < len(from); i++ {
			g.ins("ADD", bytes, from[i-1], from[i])
		}
		g.ins("MOVD", dst, to)
		g.ins("ADD", "$16", dst)
		g.ins("MOVD", cols, left)
		g.loop(func() {
			rows, pairs, out := vecs(0, 4), vecs(4, 4), vecs(0, 4)
			for i, v := range rows {
				g.ins("FMOVQ.P", at(from[i], 16), v.f())
			}
			for i, zip := range []string{"VZIP1", "VZIP2"} { // columns 0 and 1, columns 2 and 3
				even, odd := pairs[2*i], pairs[2*i+1]
				g.ins(zip, rows[2].s(), rows[0].s(), even.s())
				g.ins(zip, rows[3].s(), rows[1].s(), odd.s())
			}
			for i, v := range out {
				g.ins([]string{"VZIP1", "VZIP2"}[i%2], pairs[i/2*2+1].s(), pairs[i/2*2].s(), v.s())
				g.ins("FMOVQ", v.f(), at(to, 0))
				g.ins("ADD", stride, to)
			}
			g.ins("SUBS", "$4", left)
		})
		g.ins("MOVD", from[3], src) // the fourth row has ended where the next one begins
		g.ins("SUBS", "$1", groups)
	})
	g.ins("RET")
}
