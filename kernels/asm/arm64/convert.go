package main

// convert writes the values of stored rows, as the codecs of the host compute them.
func convert(g *generator) {
	decodeHalves(g, f16)
	decodeHalves(g, bf16)
	decodeGroups(g, "Int8", 8, false)
	decodeGroups(g, "Int8Asym", 8, true)
	decodeGroups(g, "Int4", 4, true)
	decodeMX(g)
	decodeChannels(g)
	decodeFP8(g, "E4M3")
	decodeFP8(g, "E5M2")
	encodeHalves(g)
	scale(g)
	largest(g)
}

// encodeHalves writes F16 and BF16, rounded to nearest even.
func encodeHalves(g *generator) {
	for _, name := range []string{"F16", "BF16"} {
		g.function("encode"+name+"NEON", "(dst *byte, src *float32, n int)", "stores n values, a multiple of 8 and at least that, rounded to nearest even.")
		dst, src, n := g.arg("dst"), g.arg("src"), g.arg("n")
		v, rounded, number := vecs(0, 2), vec(2), vec(3)
		one, half, quiet := vec(16), vec(17), vec(18)
		if name == "BF16" {
			g.set(one, constant{0x00000001_00000001, 0x00000001_00000001}, constant{0x00007fff_00007fff, 0x00007fff_00007fff}, constant{0x00400000_00400000, 0x00400000_00400000})
		}
		g.loop(func() {
			g.ins("FLDPQ.P", at(src, 32), "("+v[0].f()+", "+v[1].f()+")")
			if name == "F16" {
				g.fcvtn(v[0], v[0])
				g.fcvtn2(v[0], v[1])
			} else {
				for _, x := range v {
					g.ins("VUSHR", "$16", x.s(), rounded.s())
					g.ins("VAND", one.b(), rounded.b(), rounded.b())
					g.ins("VADD", half.s(), rounded.s(), rounded.s())
					g.ins("VADD", x.s(), rounded.s(), rounded.s())
					g.fcmeq(number, x, x)
					g.ins("VORR", quiet.b(), x.b(), x.b())
					g.bit(x, rounded, number)
				}
				g.shrn(v[0], v[0])
				g.shrn2(v[0], v[1])
			}
			g.ins("FMOVQ.P", v[0].f(), at(dst, 16))
			g.ins("SUBS", "$8", n)
		})
		g.ins("RET")
	}
}

func scale(g *generator) {
	g.function("scaleNEON", "(x *float32, n int, by float32)", "multiplies n values, a multiple of 16 and at least that, by a number.")
	const by = vec(16)
	x, n := g.arg("x"), g.arg("n")
	g.broadcast("by", by)
	g.scale(x, n, by)
	g.ins("RET")
}

// scale multiplies n values, a multiple of 16, and moves on behind them.
func (g *generator) scale(x, n reg, by vec) {
	v := vecs(0, 4)
	g.loop(func() {
		g.ins("FLDPQ", at(x, 0), "("+v[0].f()+", "+v[1].f()+")")
		g.ins("FLDPQ", at(x, 32), "("+v[2].f()+", "+v[3].f()+")")
		for _, x := range v {
			g.fmul(x, x, by)
		}
		put(g, v, x)
		g.ins("SUBS", "$16", n)
	})
}

func largest(g *generator) {
	g.function("largestNEON", "(x *float32, n int) int", "is the largest of the bits of n values, a multiple of 16 and at least that, without signs.")
	v, most, sign := vecs(0, 4), vec(4), vec(5)
	x, n := g.arg("x"), g.arg("n")
	g.clear([]vec{most})
	g.set(sign, constant{0x7fffffff_7fffffff, 0x7fffffff_7fffffff})
	g.loop(func() {
		g.ins("FLDPQ.P", at(x, 32), "("+v[0].f()+", "+v[1].f()+")")
		g.ins("FLDPQ.P", at(x, 32), "("+v[2].f()+", "+v[3].f()+")")
		for _, x := range v {
			g.ins("VAND", sign.b(), x.b(), x.b())
			g.umax(most, most, x)
		}
		g.ins("SUBS", "$16", n)
	})
	g.umaxv(most, most)
	g.ins("VMOV", most.s1(0), x)
	g.ins("MOVD", x, g.frame("ret"))
	g.ins("RET")
}

func decodeHalves(g *generator, st storage) {
	g.function("decode"+st.name+"NEON", "(dst *float32, src *byte, n int)",
		"sets dst to n values, a multiple of 8 and at least that.")
	dst, src, n := g.arg("dst"), g.arg("src"), g.arg("n")
	g.loop(func() {
		st.load(g, address{base: src, advance: true}, 0, 1, nil)
		g.ins("FSTPQ.P", "(F0, F1)", at(dst, 32))
		g.ins("SUBS", "$8", n)
	})
	g.ins("RET")
}

// bytesToTop is what moves sixteen bytes of a vector to the top of the words of four.
var bytesToTop = []constant{toTop(0), toTop(4), toTop(8), toTop(12)}

// unpack sets four vectors from 0 on to the next sixteen codes, as floats.
func unpack(g *generator, codes reg, bits int, signed bool, tables []vec) []vec {
	const packed, high = vec(4), vec(5)
	if bits == 8 {
		g.ins("FMOVQ.P", at(codes, 16), packed.f())
	} else {
		nibbles(g, codes, packed, high)
	}
	v := vecs(0, 4)
	for i := range v {
		g.ins("VTBL", tables[i].b(), packed.table(), v[i].b())
		if signed {
			g.scvtfBy(v[i], v[i], 24)
		} else {
			g.ucvtfBy(v[i], v[i], 24)
		}
	}
	return v
}

// nibbles sets a vector to the next sixteen codes of four bits, one a byte.
func nibbles(g *generator, codes reg, to, high vec) {
	g.ins("FMOVD.P", at(codes, 8), to.f())
	g.ins("VUSHR", "$4", to.b(), high.b())
	g.ins("VSHL", "$4", to.b(), to.b())
	g.ins("VUSHR", "$4", to.b(), to.b())
	g.ins("VZIP1", high.b(), to.b(), to.b())
}

// put stores four vectors.
func put(g *generator, v []vec, dst reg) {
	g.ins("FSTPQ.P", "("+v[0].f()+", "+v[1].f()+")", at(dst, 32))
	g.ins("FSTPQ.P", "("+v[2].f()+", "+v[3].f()+")", at(dst, 32))
}

// stepAndZero takes a word apart: the distance of two codes, for which step may be the word
// itself, and the zero point in those.
func stepAndZero(g *generator, word, step, zero vec, bits int) {
	g.sshr(zero, word, 16)
	if bits == 8 {
		g.scvtf(zero, zero)
	} else {
		g.scvtfBy(zero, zero, 8-bits)
	}
	g.ins("VSHL", "$16", word.s(), step.s())
}

// decodeGroups writes a type whose rows have a word for every group of elements: a scale,
// or with zero points a quant.Word.
func decodeGroups(g *generator, name string, bits int, zeros bool) {
	doc := "their scales"
	if zeros {
		doc = "the words of their groups, of group elements but for a shorter last one"
	}
	g.function("decode"+name+"NEON", "(dst *float32, codes *byte, words *uint32, rows int, dim int, group int, ahead *byte)",
		"sets dst to the values of rows, with "+doc+". dim and group\n"+
			"// are multiples of 16. It fetches as many bytes from ahead on as the rows have.")
	dst, codes, words, rows, dim := g.arg("dst"), g.arg("codes"), g.arg("words"), g.arg("rows"), g.arg("dim")
	group, ahead, left, n := g.arg("group"), g.arg("ahead"), g.reg(), g.reg()
	const step, zero = vec(6), vec(7)
	tables := g.set(16, bytesToTop...)
	g.loop(func() {
		g.ins("MOVD", dim, left)
		g.loop(func() {
			g.groupOf(left, group, n)
			g.ins("VLD1R.P", at(words, 4), step.list())
			if zeros {
				stepAndZero(g, step, step, zero, bits)
			}
			g.loop(func() {
				g.fetch(ahead, 2*bits)
				values := unpack(g, codes, bits, !zeros, tables)
				for _, v := range values {
					if zeros {
						g.fadd(v, v, zero)
					}
					g.fmul(v, v, step)
				}
				put(g, values, dst)
				g.ins("SUBS", "$16", n)
			})
			g.ins("CMP", "$0", left)
		})
		g.ins("SUBS", "$1", rows)
	})
	g.ins("RET")
}

func decodeChannels(g *generator) {
	g.function("decodeInt4ChannelNEON", "(dst *float32, codes *byte, words *uint32, rows int, dim int, ahead *byte)",
		"sets dst to the values of rows, with the words of their dim channels, a multiple\n"+
			"// of 16. It fetches as many bytes from ahead on as the rows have.")
	dst, codes, words, rows := g.arg("dst"), g.arg("codes"), g.arg("words"), g.arg("rows")
	dim, ahead, n, word := g.arg("dim"), g.arg("ahead"), g.reg(), g.reg()
	const step, zero = vec(6), vec(7)
	tables := g.set(16, bytesToTop...)
	g.loop(func() {
		g.ins("MOVD", dim, n)
		g.ins("MOVD", words, word)
		g.loop(func() {
			g.fetch(ahead, 8)
			values := unpack(g, codes, 4, false, tables)
			for _, v := range values {
				g.ins("FMOVQ.P", at(word, 16), step.f())
				stepAndZero(g, step, step, zero, 4)
				g.fadd(v, v, zero)
				g.fmul(v, v, step)
			}
			put(g, values, dst)
			g.ins("SUBS", "$16", n)
		})
		g.ins("SUBS", "$1", rows)
	})
	g.ins("RET")
}

// decodeFP8 writes a type of 8-bit floats. An E5M2 is the high byte of a binary16; an E4M3 is
// one, too, without the top bit of its exponent, and so small by 2^8, but that its NaN would be
// a number.
func decodeFP8(g *generator, name string) {
	g.function("decodeFP8"+name+"NEON", "(dst *float32, codes *byte, scale float32, n int, ahead *byte)",
		"sets dst to n values, a multiple of 16 and at least that, times scale. It\n"+
			"// fetches n bytes from ahead on.")
	dst, codes, n, ahead := g.arg("dst"), g.arg("codes"), g.arg("n"), g.arg("ahead")
	const low, high, scale, packed, nan = vec(0), vec(2), vec(4), vec(5), vec(6)
	g.broadcast("scale", scale)
	c := g.set(16, constant{}, ofByte(0x80), ofByte(0xff), constant{0xbfff_bfff_bfff_bfff, 0xbfff_bfff_bfff_bfff}, ofFloat(256))
	zero, sign, all, exponent, bias := c[0], c[1], c[2], c[3], c[4]
	g.loop(func() {
		g.fetch(ahead, 16)
		g.ins("FMOVQ.P", at(codes, 16), packed.f())
		if name == "E5M2" {
			g.ins("VZIP1", packed.b(), zero.b(), low.b())
			g.ins("VZIP2", packed.b(), zero.b(), high.b())
		} else {
			g.sshll(low, packed, 7)
			g.sshll2(high, packed, 7)
			g.ins("VORR", sign.b(), packed.b(), nan.b())
			g.ins("VCMEQ", all.b(), nan.b(), packed.b())
			g.sshll(nan, packed, 7)
			g.sshll2(packed, packed, 7)
			for _, half := range [][2]vec{{low, nan}, {high, packed}} {
				g.ins("VAND", exponent.b(), half[0].b(), half[0].b())
				g.ins("VORR", half[1].b(), half[0].b(), half[0].b())
			}
		}
		for _, half := range []vec{low, high} {
			g.fcvtl2(half+1, half)
			g.fcvtl(half, half)
		}
		values := vecs(0, 4)
		for _, v := range values {
			if name == "E4M3" {
				g.fmul(v, v, bias)
			}
			g.fmul(v, v, scale)
		}
		put(g, values, dst)
		g.ins("SUBS", "$16", n)
	})
	g.ins("RET")
}
