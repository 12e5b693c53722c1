package main

// mix writes the sums of values, each times a factor, for up to four rows.
func mix(g *generator) {
	for _, st := range direct {
		scales, doc := "", "value j"
		if st.scaled {
			scales, doc = "scales *uint32, ", "scales[j]*(value j)"
		}
		g.function("mix"+st.name+"NEON",
			"(acc *float32, shrink *float32, p *float32, stride int, rows int, values *byte, "+scales+"n int, dim int, row int, ahead *byte)",
			"multiplies row r of acc, of 1 to 4 of dim elements, by shrink[r] and then adds p[r*stride+j]\n"+
				"// times "+doc+" to it, for one of n values after another, which are row bytes apart. dim is a multiple\n"+
				"// of 16. It fetches about as many bytes from ahead on as the values have.")
		m := mixer{generator: g, storage: st, fetches: true}
		m.acc, m.shrink, m.p, m.stride, m.rows = g.arg("acc"), g.arg("shrink"), g.arg("p"), g.arg("stride"), g.arg("rows")
		m.values, m.n, m.dim, m.ahead = g.arg("values"), g.arg("n"), g.arg("dim"), g.arg("ahead")
		if st.scaled {
			m.scales = g.arg("scales")
		}
		m.tables = g.set(30, st.constants...)
		m.bytes, m.wide, m.all, m.from, m.count = g.arg("row"), g.reg(), g.reg(), g.reg(), g.reg()
		g.ins("LSL", "$2", m.stride, m.stride)
		g.ins("LSL", "$2", m.dim, m.wide)
		g.ins("LSL", "$2", m.n, m.all)
		g.byRows(m.rows, m.columns)
	}
}

// mixer is a function of mix and the registers that its parameters are in.
type mixer struct {
	*generator
	storage
	acc, shrink, p, stride, rows, values, scales, n, dim, ahead reg
	tables                                                      []vec
	fetches                                                     bool // from ahead

	bytes, wide reg // from a value, and from a row of acc, to the next
	all         reg // bytes of a row of factors
	from, count reg
	to, factors []reg // where the rows of acc and of p are
}

// columns walks the columns, sixteen at a time, or 32 where one row alone would have
// too few sums to keep the multipliers busy.
func (m mixer) columns(rows int) {
	m.to, m.factors = m.rowsAt(m.acc, rows, m.wide), m.rowsAt(m.p, rows, m.stride)
	blocks := []int{4}
	if rows == 1 {
		blocks = []int{8, 4}
	}
	for _, vectors := range blocks {
		skip, top := m.newLabel(), m.newLabel()
		m.ins("CMP", imm(4*vectors), m.dim)
		m.ins("BLT", skip)
		m.label(top)
		m.block(rows, vectors)
		m.ins("SUB", imm(4*vectors), m.dim)
		m.ins("CMP", imm(4*vectors), m.dim)
		m.ins("BGE", top)
		m.label(skip)
	}
	m.ins("RET")
}

// block adds all values to the sums of some columns, and moves on to the next ones. Sums,
// factors, scales and values are in V0, V16, V28 and V20 and those that follow.
func (m mixer) block(rows, vectors int) {
	sums := vecs(0, rows*vectors)
	m.begin(sums, vectors)
	m.total(sums, vectors)
	m.end(sums, vectors)
	for _, p := range m.factors {
		m.ins("SUB", m.all, p)
	}
	if m.scaled {
		m.ins("SUB", m.all, m.scales)
	}
	m.ins("ADD", imm(4*vectors*m.size), m.values)
}

// begin loads sums and shrinks them.
func (m mixer) begin(sums []vec, vectors int) {
	m.ins("MOVD", m.shrink, m.from)
	for r, to := range m.to {
		m.ins("VLD1R.P", at(m.from, 4), vec(28).list())
		for i := 0; i < vectors; i += 2 {
			low, high := sums[r*vectors+i], sums[r*vectors+i+1]
			m.ins("FLDPQ", at(to, 16*i), "("+low.f()+", "+high.f()+")")
			m.fmul(low, low, 28)
			m.fmul(high, high, 28)
		}
	}
}

// total adds all values.
func (m mixer) total(sums []vec, vectors int) {
	m.ins("MOVD", m.values, m.from)
	m.ins("MOVD", m.n, m.count)
	m.run(sums, vectors)
}

// run adds the next count values.
func (m mixer) run(sums []vec, vectors int) {
	four, one, rest, done := m.newLabel(), m.newLabel(), m.newLabel(), m.newLabel()
	m.ins("CMP", "$4", m.count)
	m.ins("BLT", rest)
	m.label(four)
	if m.fetches {
		m.fetch(m.ahead, 16*vectors*m.size)
	}
	m.add(sums, vectors, 4)
	m.ins("SUB", "$4", m.count)
	m.ins("CMP", "$4", m.count)
	m.ins("BGE", four)
	m.label(rest)
	m.ins("CBZ", m.count, done)
	m.label(one)
	m.add(sums, vectors, 1)
	m.ins("SUBS", "$1", m.count)
	m.ins("BGT", one)
	m.label(done)
}

// end stores sums and moves on behind them.
func (m mixer) end(sums []vec, vectors int) {
	for r, to := range m.to {
		for i := 0; i < vectors; i += 2 {
			m.ins("FSTPQ.P", "("+sums[r*vectors+i].f()+", "+sums[r*vectors+i+1].f()+")", at(to, 32))
		}
	}
}

// add adds four values, or one.
func (m mixer) add(sums []vec, vectors, values int) {
	load := func(to vec, from reg) {
		if values == 4 {
			m.ins("FMOVQ.P", at(from, 16), to.f())
		} else {
			m.ins("VLD1R.P", at(from, 4), to.list())
		}
	}
	if m.scaled {
		load(28, m.scales)
	}
	for r, from := range m.factors {
		p := vec(16 + r)
		load(p, from)
		if m.scaled {
			m.fmul(p, p, 28)
		}
	}
	for j := range values {
		value := vecs(20+j*vectors%8, vectors)
		for i := 0; i < vectors; i += 2 {
			m.load(m.generator, address{base: m.from, offset: 4 * i * m.size}, value[i], value[i+1], m.tables)
		}
		m.ins("ADD", m.bytes, m.from)
		for r := range m.factors {
			for i, v := range value {
				m.fmlaBy(sums[r*vectors+i], v, vec(16+r), j)
			}
		}
	}
}
