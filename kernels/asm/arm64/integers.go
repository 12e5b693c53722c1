package main

// codes is a storage type whose codes scoreInt8 multiplies as integers.
type codes struct {
	name string // in the names of functions
	bits int
	// zeros says that a group has a quant.Word, whose zero point is part of the integer and
	// whose codes of less than eight bits count so much more; else it has a scale.
	zeros bool
	// table, if there is one, is the bytes that codes of 4 bits stand for.
	table *constant
}

var coded = []codes{{name: "Int8", bits: 8}, {name: "Int8Asym", bits: 8, zeros: true}, {name: "Int4", bits: 4, zeros: true}, {name: "E2M1", bits: 4, table: &halfSteps}}

// integers writes the products of query rows that are stored as Int8, with the instruction
// of ARMv8.2 that is made for it and with those of every processor.
func integers(g *generator) {
	sumGroups(g)
	for _, c := range coded {
		for _, tier := range []string{"DotProd", "NEON"} {
			sums, doc := "", "their scales"
			if c.zeros {
				sums, doc = "sums *int32, ", "the words of their groups, of group elements but for a\n"+
					"// shorter last one; sums is what sumInt8NEON gives for the query rows"
			}
			g.function("score"+c.name+"By"+tier, "(dst *float32, stride int, q *byte, scales *uint32, "+sums+
				"rows int, keys *byte, words *uint32, n int, dim int, group int, ahead *byte)",
				"sets dst[r*stride+j] to the product of query row r, of 1 to 4 with scales, and key j of n,\n"+
					"// at least one, with "+doc+". dim and group are multiples of\n"+
					"// 16. It fetches as many bytes from ahead on as the keys have.")
			m := multiplier{generator: g, codes: c, dot: tier == "DotProd"}
			m.dst, m.count, m.q, m.word, m.left = g.arg("dst"), g.arg("stride"), g.arg("q"), g.arg("scales"), g.arg("rows")
			m.keys, m.words, m.n, m.ahead = g.arg("keys"), g.arg("words"), g.arg("n"), g.arg("ahead")
			m.sum, m.bytes, m.last, m.step, m.lastWord = g.reg(), g.reg(), g.reg(), g.reg(), g.reg()
			g.ins("LSL", "$2", m.count, m.count)
			g.byRows(m.left, m.blocks)
		}
	}
}

// sumGroups writes the sums that zero points are multiplied with.
func sumGroups(g *generator) {
	g.function("sumInt8NEON", "(dst *int32, codes *byte, rows int, dim int, group int)",
		"sets dst[4*i+r] to the sum of the codes of group i of row r. dim and group are multiples\n// of 16.")
	dst, codes, rows, dim, group := g.arg("dst"), g.arg("codes"), g.arg("rows"), g.arg("dim"), g.arg("group")
	to, left, n := g.reg(), g.reg(), g.reg()
	const sum, code = vec(0), vec(1)
	g.loop(func() {
		g.ins("MOVD", dst, to)
		g.ins("ADD", "$4", dst)
		g.ins("MOVD", dim, left)
		g.loop(func() {
			g.groupOf(left, group, n)
			g.clear([]vec{sum})
			g.loop(func() {
				g.ins("FMOVQ.P", at(codes, 16), code.f())
				g.saddlp(code, code)
				g.sadalp(sum, code)
				g.ins("SUBS", "$16", n)
			})
			g.ins("VADDP", sum.s(), sum.s(), sum.s())
			g.ins("VADDP", sum.s(), sum.s(), sum.s())
			g.ins("FMOVS.P", sum.f(), at(to, 16))
			g.ins("CMP", "$0", left)
		})
		g.ins("SUBS", "$1", rows)
	})
	g.ins("RET")
}

// groupOf takes the elements of a row's next group from those that are left.
func (g *generator) groupOf(left, group, n reg) {
	g.ins("CMP", left, group)
	g.ins("CSEL", "LT", group, left, n)
	g.ins("SUB", n, left)
}

// multiplier is a function of integers and the registers that its parameters are in. left,
// count and word begin as the number of rows, their distance in dst and their scales.
type multiplier struct {
	*generator
	codes
	dot                                    bool
	dst, q, keys, words, n, ahead          reg
	left, count                            reg // elements of a key, and of its group
	sum, word, lastWord, bytes, last, step reg
}

// Vector registers of a multiplier: sums of products come first.
const (
	totals  vec = 16 // of the groups so far, as floats
	queries vec = 20
	code    vec = 24 // two, for keys in turn
	product vec = 26
	rowBy   vec = 27 // scales of the query rows
	fixed   vec = 28 // constants

	// when a group ends, in place of queries and codes
	stepOf vec = 20
	zeroOf vec = 22
	sumOf  vec = 24
)

// blocks walks the keys, four or eight at a time, as scorer does.
func (m multiplier) blocks(rows int) {
	keys := 4
	if rows < 3 {
		keys = 8
	}
	to := m.rowsAt(m.dst, rows, m.count)
	for r := range rows {
		m.ins("VLD1.P", at(m.word, 4), rowBy.s1(r))
	}
	m.ins("MOVD", m.frame("dim"), m.left)
	q := m.rowsAt(m.q, rows, m.left)
	m.ins("MOVD", m.left, m.bytes)
	if m.bits == 4 {
		m.ins("LSR", "$1", m.bytes, m.bytes)
	}
	m.lastOf(m.keys, m.n, m.bytes, m.last)
	m.ins("MOVD", m.frame("group"), m.count)
	m.ins("ADD", m.count, m.left)
	m.ins("SUB", "$1", m.left)
	m.ins("UDIV", m.count, m.left, m.step)
	m.ins("LSL", "$2", m.step, m.step) // bytes of a key's words
	m.lastOf(m.words, m.n, m.step, m.lastWord)
	constants := m.set(fixed, ofByte(0x80), constant{128<<32 | 128, 128<<32 | 128}, ofFloat(1.0/16))
	if m.table != nil {
		m.set(fixed, *m.table)
	}

	from := m.regs(keys)
	top, partial := m.newLabel(), m.newLabel()
	m.label(top)
	m.clamped(from, m.keys, m.bytes, m.last)
	total := vecs(int(totals), rows*keys/4)
	m.clear(total)
	if m.zeros {
		m.ins("MOVD", m.frame("sums"), m.sum)
	}
	m.ins("MOVD", m.frame("dim"), m.left)
	m.loop(func() {
		m.ins("MOVD", m.frame("group"), m.word)
		m.groupOf(m.left, m.word, m.count)
		sums := vecs(0, rows*keys)
		m.clear(sums)
		m.loop(func() {
			m.multiply(sums, q, from, constants[0])
			m.ins("SUBS", "$16", m.count)
		})
		sums = m.reduce(sums, func(d, n, m1 vec) { m.ins("VADDP", m1.s(), n.s(), d.s()) })
		m.finish(sums, total, rows, keys, constants)
		m.ins("ADD", "$4", m.words)
		m.ins("ADD", "$4", m.lastWord)
		m.ins("CMP", "$0", m.left)
	})
	m.ins("MOVD", m.frame("dim"), m.left)
	for r, row := range q {
		m.ins("SUB", m.left, row)
		for i := range keys / 4 {
			v := total[r*keys/4+i]
			m.fmulBy(v, v, rowBy, r)
		}
	}
	m.store(total, to, keys, m.n, partial)
	m.ins("ADD", m.bytes.shifted(log2(keys)), m.keys)
	m.ins("SUB", m.step, m.lastWord)
	m.ins("SUB", m.step, m.words)
	m.ins("ADD", m.step.shifted(log2(keys)), m.words)
	m.ins("SUBS", imm(keys), m.n)
	m.ins("BGT", top)
	m.ins("RET")
	m.label(partial)
	m.storeLast(total, to, keys, m.n)
	m.ins("RET")
}

// multiply adds the products of sixteen codes of each row and key to their sums.
func (m multiplier) multiply(sums []vec, q, from []reg, sign vec) {
	m.fetch(m.ahead, len(from)*2*m.bits)
	for r, row := range q {
		m.ins("FMOVQ.P", at(row, 16), (queries + vec(r)).f())
	}
	for i, key := range from {
		c := code + vec(i%2)
		if m.bits == 4 {
			nibbles(m.generator, key, c, product)
			if m.table != nil {
				m.ins("VTBL", c.b(), sign.table(), c.b())
			}
		} else {
			m.ins("FMOVQ.P", at(key, 16), c.f())
		}
		if m.bits == 8 && m.zeros {
			m.ins("VEOR", sign.b(), c.b(), c.b()) // less 128, as a signed number
		}
		for r := range q {
			sum, query := sums[r*len(from)+i], queries+vec(r)
			if m.dot {
				m.sdot(sum, query, c)
				continue
			}
			m.smull(product, query, c)
			m.sadalp(sum, product)
			m.smull2(product, query, c)
			m.sadalp(sum, product)
		}
	}
}

// finish adds a group's sums, as floats, to the totals.
func (m multiplier) finish(sums, total []vec, rows, keys int, constants []vec) {
	steps, zeros := vecs(int(stepOf), keys/4), vecs(int(zeroOf), keys/4)
	m.gather(steps, m.words, m.step.String(), m.lastWord, m.word)
	if m.zeros {
		m.ins("FMOVQ.P", at(m.sum, 16), sumOf.f())
		for i, step := range steps {
			m.sshr(zeros[i], step, 16)
			m.ins("VSHL", "$16", step.s(), step.s())
			if m.bits == 8 {
				m.ins("VADD", constants[1].s(), zeros[i].s(), zeros[i].s())
			} else {
				m.fmul(step, step, constants[2])
			}
		}
	}
	for r := range rows {
		for i, step := range steps {
			sum, to := sums[r*len(steps)+i], total[r*len(steps)+i]
			if m.zeros && m.bits == 4 {
				m.ins("VSHL", "$4", sum.s(), sum.s())
			}
			if m.zeros {
				m.mlaBy(sum, zeros[i], sumOf, r)
			}
			m.scvtf(sum, sum)
			m.ins("VFMLA", step.s(), sum.s(), to.s())
		}
	}
}
