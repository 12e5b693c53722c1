package backendtest

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// plane is a region of shape [blocks, heads, block, dim] and, for a quantized type,
// the scales beside it. What it holds is written and read with the host's codecs.
type plane[B backend.Buffer] struct {
	*region[B]
	geometry
	dim      int
	scales   *region[B] // nil: the type has none
	hadamard bool       // what the operand says; put and values do not turn rows
	of       *plane[B]  // the values are the first ones of this plane's, and it is only read; nil: they are its own
}

// stored is the content of a plane's buffers, in the layout of their images.
type stored struct{ data, scales []byte }

// nanWord is the poison of scales that are no float32: a NaN and a zero point, or four bytes that
// make NaN.
const nanWord = math.MaxUint32

// plane allocates poison. Scales that the caller of a device sets are set.
func (r *rig[B]) plane(name string, g geometry, dt backend.DType, dim int) *plane[B] {
	p := &plane[B]{region: r.region(name, dt, 0, g.slots()*g.kvHeads*dim), geometry: g, dim: dim}
	words, n, ok := dt.Scales(g.blocks, g.kvHeads, g.block, dim)
	if !ok || n == 0 {
		return p
	}
	p.scales = r.region(name+" scales", words, 0, n)
	if words == backend.U32 {
		for i := range len(p.scales.image) / 4 {
			binary.LittleEndian.PutUint32(p.scales.image[4*i:], nanWord)
		}
	}
	if dt.HeadFactors() {
		for head := range g.kvHeads {
			p.scales.set(head, encode(backend.F32, []float32{0.013 * float32(1+head%3)}))
		}
	}
	return p
}

// byHead reports whether scales belong to heads, and not to rows.
func byHead(dt backend.DType) bool { return dt.Coding().Scope == backend.ByHead }

// operand is the plane as devices take it.
func (p *plane[B]) operand() backend.Plane[B] {
	o := backend.Plane[B]{Data: p.buf, Dim: p.dim, Hadamard: p.hadamard}
	if p.scales != nil {
		o.Scales = backend.Some(p.scales.buf)
	}
	return o
}

// now is what the images hold.
func (p *plane[B]) now() stored {
	if p.of != nil {
		return p.of.now()
	}
	if p.scales == nil {
		return stored{data: p.image}
	}
	return stored{p.image, p.scales.image}
}

// content is what the device holds.
func (r *rig[B]) content(p *plane[B]) stored {
	if p.of != nil {
		p = p.of
	}
	if p.scales == nil {
		return stored{data: r.fetch(p.region)}
	}
	return stored{r.fetch(p.region), r.fetch(p.scales)}
}

// element is where the row of a slot and head begins.
func (p *plane[B]) element(slot, head int) int {
	return ((slot/p.block*p.kvHeads+head)*p.block + slot%p.block) * p.dim
}

// scaleAt is where the scales of a row begin, and how many there are.
func (p *plane[B]) scaleAt(slot, head int) (at, n int) {
	switch {
	case byHead(p.dt):
		return head, 1
	case byChannel(p.dt):
		return (slot/p.block*p.kvHeads + head) * p.dim, p.dim
	}
	n = p.dt.ScaleWords(p.dim)
	return p.dt.HeadWords(p.kvHeads) + p.element(slot, head)/p.dim*n, n
}

// factor is what the caller has set for a head whose rows have scales, too.
func (p *plane[B]) factor(head int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(p.scales.image[4*head:]))
}

// words is the bits of the scales of a row.
func (p *plane[B]) words(s stored, slot, head int) []uint32 {
	at, n := p.scaleAt(slot, head)
	out := make([]uint32, n)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(s.scales[4*(at+i):])
	}
	return out
}

func (p *plane[B]) setWords(slot, head int, words []uint32) {
	at, _ := p.scaleAt(slot, head)
	p.scales.set(at, backend.BytesOf(words))
}

// row is the elements of a row.
func (p *plane[B]) row(s stored, slot, head int) []byte {
	return p.part(s.data, p.element(slot, head), p.dim)
}

// values is what a row is worth.
func (p *plane[B]) values(s stored, slot, head int) []float32 {
	if p.of != nil {
		return p.of.values(s, slot, head)[:p.dim]
	}
	codes := p.row(s, slot, head)
	if p.dt.Float() {
		return decode(p.dt, codes)
	}
	out := make([]float32, p.dim)
	switch words := p.words(s, slot, head); {
	case byHead(p.dt):
		quant.DecodeFP8(p.dt, out, codes, math.Float32frombits(words[0]))
	case byChannel(p.dt):
		quant.DecodeChannels(out, codes, words)
	case p.dt.HeadFactors():
		quant.DecodeNV(out, codes, words, p.dt.GroupOf(p.dim), p.factor(head))
	default:
		quant.DecodeRow(p.dt, out, codes, words)
	}
	return out
}

// put stores values as a row of the image. Quantized types saturate what is not finite.
func (p *plane[B]) put(slot, head int, values []float32) {
	if p.dt.Float() {
		p.set(p.element(slot, head), encode(p.dt, values))
		return
	}
	codes, words := make([]byte, bytesOf(p.dt, p.dim)), p.words(p.now(), slot, head)
	switch {
	case byHead(p.dt):
		quant.EncodeFP8(p.dt, codes, values, math.Float32frombits(words[0]), true)
	case byChannel(p.dt):
		p.channels(codes, words, slot, values)
	case p.dt.HeadFactors():
		quant.EncodeNV(codes, words, slices.Clone(values), p.dt.GroupOf(p.dim), p.factor(head), true)
	default:
		quant.EncodeRow(p.dt, codes, words, slices.Clone(values), true)
	}
	p.set(p.element(slot, head), codes)
	p.setWords(slot, head, words)
}

// channels stores one row of a block whose channels have their words already, or
// are given words here, another one for each channel and block.
func (p *plane[B]) channels(codes []byte, words []uint32, slot int, values []float32) {
	for d, v := range values {
		if words[d] == nanWord {
			words[d] = uint32(quant.WordOf(-2.5-float32(d%5)/4, 2.5+float32((d+slot/p.block)%3)/2, 4))
		}
		w := quant.Word(words[d])
		code := math.RoundToEven(float64((v - w.Value(0, 4)) / w.Step()))
		codes[d/2] |= byte(min(max(code, 0), 15)) << (d % 2 * 4)
	}
}

// take copies a row of s over another row of the image, with the scales that are its own.
func (p *plane[B]) take(s stored, from, to, head int) {
	p.set(p.element(to, head), slices.Clone(p.row(s, from, head)))
	if p.dt.ScaleWords(p.dim) > 0 {
		p.setWords(to, head, p.words(s, from, head))
	}
}

// settleFloats compares a row of floats with what it was to hold and takes it over into the image.
func (p *plane[B]) settleFloats(got stored, slot, head int, want []float64, limit float64) error {
	if err := compareRows("row", widen(p.values(got, slot, head)), want, p.dim, limit); err != nil {
		return err
	}
	p.take(got, slot, slot, head)
	return nil
}

// same reports whether two contents have the same bits for a row.
func (p *plane[B]) same(a, b stored, slot, head int) bool {
	return slices.Equal(p.row(a, slot, head), p.row(b, slot, head)) &&
		(p.scales == nil || slices.Equal(p.words(a, slot, head), p.words(b, slot, head)))
}

// clone is a content that later changes of the image leave alone.
func (s stored) clone() stored { return stored{slices.Clone(s.data), slices.Clone(s.scales)} }

// copyBlock copies the rows of a block, with the scales that are their own, over those of a
// block of dst in the images.
func (p *plane[B]) copyBlock(dst *plane[B], from, to int) {
	for slot := range p.block {
		for head := range p.kvHeads {
			dst.take(p.now(), from*p.block+slot, to*p.block+slot, head)
		}
	}
}

// shareScales copies the scales that all slots of a block share over those of a block of
// dst in the images.
func (p *plane[B]) shareScales(dst *plane[B], from, to int) {
	if byChannel(p.dt) {
		for head := range p.kvHeads {
			dst.setWords(to*p.block, head, p.words(p.now(), from*p.block, head))
		}
	}
}
