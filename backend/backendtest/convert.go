package backendtest

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
	"github.com/stretchr/testify/require"
)

// convertSpec is a case of blocks that change their storage type.
type convertSpec struct {
	name       string
	format     backend.Format // Act of one cache, K and V of the other
	kDim, vDim int
	unpack     bool // from the quantized cache to the other
	hadamard   bool // keys of the quantized cache are turned
	floats     bool // those of the other are
	saturate   bool
	mass       bool
	latent     bool
}

func convertChecks[B backend.Buffer](caps backend.Caps) []check[B] {
	var specs []convertSpec
	add := func(name string, f backend.Format, change func(*convertSpec)) {
		s := convertSpec{name: name + " " + formatName(f), format: f}
		s.kDim, s.vDim = listedDims(caps, 64, 64)
		change(&s)
		specs = append(specs, s)
	}
	for _, f := range sampled(caps) {
		if f.K.Quantized() && f.V.Quantized() {
			add("packs", f, func(*convertSpec) {})
			add("unpacks", f, func(s *convertSpec) { s.unpack = true })
		}
	}
	for turn, dims := range [][2]int{{80, 80}, {192, 128}, {128, 128}} {
		for _, f := range quantizedFormats(turn) {
			with := fmt.Sprintf(" dims %dx%d,", dims[0], dims[1])
			sized := func(s *convertSpec) { s.kDim, s.vDim = dims[0], dims[1] }
			add("packs"+with, f, sized)
			add("unpacks"+with, f, func(s *convertSpec) { sized(s); s.unpack = true })
			add("packs and turns"+with, f, func(s *convertSpec) { sized(s); s.hadamard = true })
			add("unpacks and turns back"+with, f, func(s *convertSpec) { sized(s); s.unpack, s.hadamard = true, true })
			add("saturates"+with, f, func(s *convertSpec) { sized(s); s.saturate = true })
			add("packs turned keys"+with, f, func(s *convertSpec) { sized(s); s.hadamard, s.floats = true, true })
			add("unpacks turned keys"+with, f, func(s *convertSpec) { sized(s); s.unpack, s.hadamard, s.floats = true, true, true })
			add("packs keys and turns them back"+with, f, func(s *convertSpec) { sized(s); s.floats = true })
			add("unpacks keys and turns them"+with, f, func(s *convertSpec) { sized(s); s.unpack, s.floats = true, true })
			add("packs with mass"+with, f, func(s *convertSpec) { sized(s); s.mass = true })
			add("unpacks with mass"+with, f, func(s *convertSpec) { sized(s); s.unpack, s.mass = true, true })
		}
	}
	var out []check[B]
	for _, s := range specs {
		out = append(out, check[B]{s.name, func(r *rig[B]) { checkConvert(r, s) }})
	}
	for turn, v := range notFinite {
		for _, f := range quantizedFormats(turn) {
			out = append(out, check[B]{fmt.Sprintf("a value of %v, %s", v, formatName(f)), func(r *rig[B]) { checkConvertNotFinite(r, f, v) }})
		}
	}
	return append(out, check[B]{"there and back", checkConvertBack[B]}, check[B]{"no pairs", checkConvertNothing[B]})
}

// convertRun is two caches, one of them quantized.
type convertRun[B backend.Buffer] struct {
	from, to *cache[B]
	pairs    [][2]uint32
	params   backend.ConvertBlocksParams[B]
}

// newConvert fills the first of two caches, of which the second is larger.
func newConvert[B backend.Buffer](r *rig[B], s convertSpec) *convertRun[B] {
	block := r.blockSize(16)
	r.needsOf(s.latent, s.format, s.kDim, s.vDim, block, true)
	act := backend.Format{Act: s.format.Act, K: s.format.Act, V: s.format.Act}
	formats := [2]backend.Format{act, s.format}
	if s.unpack {
		formats = [2]backend.Format{s.format, act}
	}
	a := &convertRun[B]{pairs: [][2]uint32{{0, 5}, {backend.NoBlock, 5}, {3, 2}, {0, 6}, {backend.NoBlock, math.MaxUint32}}}
	a.from = r.cacheOf(s.latent, geometry{2, block, 4, s.kDim, s.vDim, formats[0]})
	a.to = r.cacheOf(s.latent, geometry{2, block, 7, s.kDim, s.vDim, formats[1]})
	a.from.fill(r)
	if s.mass {
		a.from.addMass(r)
		a.to.addMass(r)
	}
	if a.from.k.hadamard, a.to.k.hadamard = s.floats, s.hadamard; s.unpack {
		a.from.k.hadamard, a.to.k.hadamard = s.hadamard, s.floats
	}
	a.params = backend.ConvertBlocksParams[B]{From: a.from.view(), To: a.to.view(), N: len(a.pairs), Saturate: s.saturate,
		FromScores: a.from.massOperand(), ToScores: a.to.massOperand(),
		Pairs: constant(r, "pairs", backend.U32, flat(a.pairs)).buf}
	return a
}

func checkConvert[B backend.Buffer](r *rig[B], s convertSpec) {
	r.seed(s.name)
	a := newConvert(r, s)
	if s.saturate {
		for _, p := range a.from.planes() {
			for slot := range a.from.slots() {
				row := r.normal(p.dim)
				row[r.rng.IntN(p.dim)], row[0] = notFinite[slot%3], notFinite[slot%2]
				p.put(slot, slot%2, row)
			}
		}
	}
	r.push()
	require.NoError(r, r.be.ConvertBlocks(r.s, a.params))
	require.NoError(r, r.s.Sync())
	a.accept(r)
	r.verify()
}

// accept brings the images of the second cache to what it must hold now: bit for bit
// what the host's codecs make of the first one, where nothing is turned.
func (a *convertRun[B]) accept(r *rig[B]) {
	planes := a.to.planes()
	for i, from := range a.from.planes() {
		to := planes[i]
		got, turned := r.content(to), from.hadamard != to.hadamard
		for _, pair := range a.pairs {
			if pair[0] == backend.NoBlock {
				continue
			}
			for head := range a.to.kvHeads {
				if rows := from.blockValues(int(pair[0]), head); turned {
					require.NoError(r, to.settleBlock(got, int(pair[1]), head, rows, coarsest(to.dt)), "%s of block %d, head %d", to.name, pair[1], head)
				} else {
					to.putBlock(int(pair[1]), head, rows)
				}
			}
		}
	}
	for _, pair := range a.pairs {
		if pair[0] == backend.NoBlock {
			continue
		}
		a.from.copyMass(a.to, int(pair[0]), int(pair[1]))
	}
}

// blockValues is what the rows of a block are worth.
func (p *plane[B]) blockValues(block, head int) [][]float32 {
	rows := make([][]float32, p.block)
	for i := range rows {
		rows[i] = p.values(p.now(), block*p.block+i, head)
	}
	return rows
}

// putBlock stores the rows of a block in the image.
func (p *plane[B]) putBlock(block, head int, rows [][]float32) {
	first := block * p.block
	if !byChannel(p.dt) {
		for i, row := range rows {
			p.put(first+i, head, row)
		}
		return
	}
	codes, words := p.channelBlock(rows)
	p.set(p.element(first, head), codes)
	p.setWords(first, head, words)
}

// channelBlock is a block whose channels share scales.
func (p *plane[B]) channelBlock(rows [][]float32) (codes []byte, words []uint32) {
	var flat []float32
	for _, row := range rows {
		flat = append(flat, row...)
	}
	codes, words = make([]byte, bytesOf(p.dt, len(flat))), make([]uint32, p.dim)
	quant.EncodeChannels(codes, words, flat, true)
	return codes, words
}

// settleBlock compares the rows of a block with others, turned, and takes them over.
func (p *plane[B]) settleBlock(got stored, block, head int, rows [][]float32, limit float64) error {
	turned := make([][]float64, len(rows))
	var least []uint32
	for i, row := range rows {
		turned[i] = hadamard(widen(row))
	}
	if byChannel(p.dt) {
		exact := make([][]float32, len(rows))
		for i, row := range turned {
			exact[i] = narrow32(row)
		}
		_, least = p.channelBlock(exact)
		p.setWords(block*p.block, head, p.words(got, block*p.block, head))
	}
	for i, want := range turned {
		var err error
		switch slot := block*p.block + i; {
		case p.dt.Float():
			err = p.settleFloats(got, slot, head, want, limit)
		case least != nil:
			err = p.settleIn(got, slot, head, want, least, 0)
		default:
			err = p.settle(got, slot, head, want, 0)
		}
		if err != nil {
			return fmt.Errorf("slot %d of the block: %w", i, err)
		}
	}
	return nil
}

// checkConvertNotFinite is the rule of AppendParams: an error at once and nothing written,
// or later and groups that are NaN.
func checkConvertNotFinite[B backend.Buffer](r *rig[B], f backend.Format, bad float32) {
	kDim, vDim := r.dims(64, 64)
	a := newConvert(r, convertSpec{format: f, kDim: kDim, vDim: vDim, mass: true})
	const slot, head = 3, 1
	from, to := a.from.planes(), a.to.planes()
	for i, p := range from {
		element := p.element(slot, head) + p.dim - 1
		was := append([]byte(nil), p.part(p.image, element, 1)...)
		spoiled := encode(f.Act, []float32{bad})
		p.set(element, spoiled)
		r.push()
		if r.reportedOnce(r.be.ConvertBlocks(r.s, a.params)) {
			got := [2]stored{r.content(to[0]), r.content(to[1])}
			p.set(element, was)
			a.accept(r)
			p.set(element, spoiled)
			for _, block := range []int{5, 6} { // what block 0 became
				require.NoError(r, to[i].undefined(got[i], block*p.block, slot, head, p.dim-1))
			}
		}
		r.verify()
		p.set(element, was)
	}
	r.push()
	require.NoError(r, r.be.ConvertBlocks(r.s, a.params))
	require.NoError(r, r.s.Sync())
}

// undefined takes over the rows of a block that have a group which was not finite: that
// of element bad in one slot, or of its channel in all of them.
func (p *plane[B]) undefined(got stored, first, slot, head, bad int) error {
	if !byChannel(p.dt) {
		err := undefinedGroup(p, got, first+slot, head, bad)
		p.take(got, first+slot, first+slot, head)
		return err
	}
	for i := range p.block {
		if err := undefinedGroup(p, got, first+i, head, bad); err != nil {
			return err
		}
		p.take(got, first+i, first+i, head)
	}
	p.setWords(first, head, p.words(got, first, head))
	return nil
}

// checkConvertBack quantizes blocks that came from a quantized cache: they are near
// where they were, however often it happens.
func checkConvertBack[B backend.Buffer](r *rig[B]) {
	f := r.quantized()
	kDim, vDim := r.dims(64, 64)
	a := newConvert(r, convertSpec{format: f, kDim: kDim, vDim: vDim, unpack: true})
	back := backend.ConvertBlocksParams[B]{From: a.params.To, To: a.params.From, N: 1,
		Pairs: constant(r, "pairs back", backend.U32, []uint32{5, 1}).buf}
	r.push()
	require.NoError(r, r.be.ConvertBlocks(r.s, a.params))
	a.accept(r)
	require.NoError(r, r.be.ConvertBlocks(r.s, back))
	require.NoError(r, r.s.Sync())
	(&convertRun[B]{from: a.to, to: a.from, pairs: [][2]uint32{{5, 1}}}).accept(r)
	r.verify()
}

func checkConvertNothing[B backend.Buffer](r *rig[B]) {
	kDim, vDim := r.dims(64, 64)
	a := newConvert(r, convertSpec{format: r.quantized(), kDim: kDim, vDim: vDim})
	a.params.N = 0
	r.push()
	require.NoError(r, r.be.ConvertBlocks(r.s, a.params))
	r.verify()
}
