package main

// score writes the products of up to four query rows with keys.
func score(g *generator) {
	for _, st := range direct {
		scales, doc := "", ""
		if st.scaled {
			scales, doc = "scales *uint32, ", ", times the keys' scales"
		}
		g.function("score"+st.name+"NEON",
			"(dst *float32, stride int, q *float32, rows int, keys *byte, "+scales+"n int, dim int, ahead *byte)",
			"sets dst[r*stride+j] to the product of query row r, of 1 to 4, and key j of n, at least one, of a\n"+
				"// dim that is a multiple of 8"+doc+". It fetches as many bytes from ahead on as the keys have.")
		s := scorer{generator: g, storage: st}
		s.dst, s.stride, s.q, s.rows = g.arg("dst"), g.arg("stride"), g.arg("q"), g.arg("rows")
		s.keys, s.n, s.dim, s.ahead = g.arg("keys"), g.arg("n"), g.arg("dim"), g.arg("ahead")
		if st.scaled {
			s.scales = g.arg("scales")
		}
		s.tables = g.set(24, st.constants...)
		g.ins("LSL", "$2", s.stride, s.stride)
		g.byRows(s.rows, s.blocks)
	}
}

// byRows writes a body for each number of rows, and jumps to the one that a register says.
func (g *generator) byRows(rows reg, body func(rows int)) {
	taken := g.taken
	for n := 4; n > 1; n-- {
		next := g.newLabel()
		g.ins("CMP", imm(n), rows)
		g.ins("BNE", next)
		body(n)
		g.taken = taken
		g.label(next)
	}
	body(1)
}

// scorer is a function of score and the registers that its parameters are in.
type scorer struct {
	*generator
	storage
	dst, stride, q, rows, keys, scales, n, dim, ahead reg
	tables                                            []vec
}

// blocks walks the keys: four at a time, or eight where there are so few rows that the
// sums would be too few to keep the multipliers busy. Sums, queries and keys are in
// V0, V16 and V26 and those that follow.
func (s scorer) blocks(rows int) {
	keys := 4
	if rows < 3 {
		keys = 8
	}
	to := s.rowsAt(s.dst, rows, s.stride)
	bytes, wide, last, count, from := s.reg(), s.reg(), s.reg(), s.reg(), s.regs(keys)
	s.ins("LSL", "$2", s.dim, wide) // bytes of a query row
	q := s.rowsAt(s.q, rows, wide)
	s.rowBytes(s.dim, s.size, bytes)
	s.lastOf(s.keys, s.n, bytes, last)
	var lastScale reg
	if s.scaled {
		lastScale = s.reg()
		s.ins("ADD", s.n.shifted(2), s.scales, lastScale)
		s.ins("SUB", "$4", lastScale)
	}
	top, partial := s.newLabel(), s.newLabel()
	s.label(top)
	s.clamped(from, s.keys, bytes, last)
	sums := vecs(0, rows*keys)
	s.clear(sums)
	s.ins("MOVD", s.dim, count)
	s.loop(func() {
		s.fetch(s.ahead, keys*8*s.size)
		for r, row := range q {
			f32.load(s.generator, address{base: row, advance: true}, vec(16+2*r), vec(17+2*r), nil)
		}
		for i, key := range from {
			pair := vecs(26+i%3*2, 2)
			s.load(s.generator, address{base: key, advance: true}, pair[0], pair[1], s.tables)
			for half, v := range pair {
				for r := range rows {
					s.ins("VFMLA", v.s(), vec(16+2*r+half).s(), sums[r*keys+i].s())
				}
			}
		}
		s.ins("SUBS", "$8", count)
	})
	for _, row := range q {
		s.ins("SUB", wide, row)
	}
	sums = s.reduce(sums, s.faddp)
	if s.scaled {
		s.scaleBy(sums, rows, keys, from[0], lastScale)
	}
	s.store(sums, to, keys, s.n, partial)
	s.ins("ADD", bytes.shifted(log2(keys)), s.keys)
	if s.scaled {
		s.ins("ADD", imm(4*keys), s.scales)
	}
	s.ins("SUBS", imm(keys), s.n)
	s.ins("BGT", top)
	s.ins("RET")
	s.label(partial)
	s.storeLast(sums, to, keys, s.n)
	s.ins("RET")
}

// scaleBy multiplies the sums of each row with the scales of their keys.
func (s scorer) scaleBy(sums []vec, rows, keys int, from, last reg) {
	scales := vecs(26, keys/4)
	s.gather(scales, s.scales, imm(4), last, from)
	for r := range rows {
		for i, v := range scales {
			s.fmul(sums[r*len(scales)+i], sums[r*len(scales)+i], v)
		}
	}
}

// rowsAt is where each of some rows begins, bytes apart; the first is base itself.
func (g *generator) rowsAt(base reg, rows int, bytes reg) []reg {
	out := append([]reg{base}, g.regs(rows-1)...)
	for r := 1; r < rows; r++ {
		g.ins("ADD", bytes, out[r-1], out[r])
	}
	return out
}

// rowBytes sets bytes to those of a row of dim elements.
func (g *generator) rowBytes(dim reg, size int, bytes reg) {
	g.ins("LSL", imm(log2(size)), dim, bytes)
}

// lastOf sets last to the address of row n-1.
func (g *generator) lastOf(base, n, bytes, last reg) {
	g.ins("SUB", "$1", n, last)
	g.ins("MUL", bytes, last)
	g.ins("ADD", base, last)
}

// clamped sets to to the addresses of rows that follow each other, and of the last one where
// there are no more.
func (g *generator) clamped(to []reg, base, bytes, last reg) {
	g.ins("MOVD", base, to[0])
	for i := 1; i < len(to); i++ {
		g.advance(to[i-1], to[i], bytes.String(), last)
	}
}

// advance sets to to bytes behind from, but not beyond last.
func (g *generator) advance(from, to reg, bytes string, last reg) {
	g.ins("ADD", bytes, from, to)
	g.ins("CMP", last, to)
	g.ins("CSEL", "LO", to, last, to)
}

// gather loads words, step bytes from each other, that end with the one at last.
func (g *generator) gather(to []vec, base reg, step string, last, from reg) {
	g.ins("MOVD", base, from)
	for i := range 4 * len(to) {
		g.ins("VLD1", at(from, 0), to[i/4].s1(i%4))
		g.advance(from, from, step, last)
	}
}

func (g *generator) clear(v []vec) {
	for _, v := range v {
		g.ins("VEOR", v.b(), v.b(), v.b())
	}
}

// fetch prefetches bytes from an address on, and moves the address past them.
func (g *generator) fetch(ahead reg, bytes int) {
	for offset := 0; offset < bytes; offset += 64 {
		g.ins("PRFM", at(ahead, offset), "PLDL1KEEP")
	}
	g.ins("ADD", imm(bytes), ahead)
}

// reduce adds the lanes of each vector, always in the same order; the sums of four vectors
// make one, which is in the first of them.
func (g *generator) reduce(v []vec, pairs func(d, n, m vec)) (sums []vec) {
	for i := 0; i < len(v); i += 4 {
		pairs(v[i], v[i], v[i+1])
		pairs(v[i+2], v[i+2], v[i+3])
		pairs(v[i], v[i], v[i+2])
		sums = append(sums, v[i])
	}
	return sums
}

// store stores each row's sums and moves on, unless there are less than keys: then it
// jumps to partial.
func (g *generator) store(sums []vec, to []reg, keys int, n reg, partial string) {
	g.ins("CMP", imm(keys), n)
	g.ins("BLT", partial)
	for i, v := range sums {
		g.ins("FMOVQ.P", v.f(), at(to[i*4/keys], 16))
	}
}

// storeLast stores the first n sums of each row.
func (g *generator) storeLast(sums []vec, to []reg, keys int, n reg) {
	step := keys / 4
	if keys == 8 {
		g.ifBit(n, 2, func() {
			for r, d := range to {
				low, high := sums[r*step], sums[r*step+1]
				g.ins("FMOVQ.P", low.f(), at(d, 16))
				g.ins("VORR", high.b(), high.b(), low.b())
			}
		})
	}
	g.ifBit(n, 1, func() {
		for r, d := range to {
			v := sums[r*step]
			g.ins("FMOVD.P", v.f(), at(d, 8))
			g.ins("VEXT", "$8", v.b(), v.b(), v.b())
		}
	})
	g.ifBit(n, 0, func() {
		for r, d := range to {
			g.ins("FMOVS", sums[r*step].f(), at(d, 0))
		}
	})
}

// ifBit writes what is done if a bit of n is set.
func (g *generator) ifBit(n reg, bit int, body func()) {
	skip := g.newLabel()
	g.ins("TBZ", imm(bit), n, skip)
	body()
	g.label(skip)
}
