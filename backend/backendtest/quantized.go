package backendtest

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// quantizedTypes are the quantized storage types, and rowTypes those whose rows are stored one by one.
var quantizedTypes, rowTypes = func() (all, rows []backend.DType) {
	for dt := range backend.StorageTypes {
		if dt.Quantized() {
			all = append(all, dt)
		}
		if dt.Quantized() && !byChannel(dt) {
			rows = append(rows, dt)
		}
	}
	return all, rows
}()

// quantizedPairs are the storage types of keys and values that go through all of the suite: every
// type with its own values, and some with others.
var quantizedPairs = func() (pairs [][2]backend.DType) {
	for _, dt := range quantizedTypes {
		pairs = append(pairs, [2]backend.DType{dt, dt.Coding().Values})
	}
	return append(pairs, [][2]backend.DType{{backend.Int8, backend.Int4}, {backend.FP8E4M3, backend.Int4}, {backend.Int4Channel, backend.Int8}}...)
}()

// byChannel reports whether the rows of a block are stored at once.
func byChannel(dt backend.DType) bool { return dt.Coding().Scope == backend.ByChannel }

var activations = []backend.DType{backend.F16, backend.BF16, backend.F32}

// quantizedFormats has each of the pairs once, with the activation types in turn.
// Another turn gives each pair another activation type.
func quantizedFormats(turn int) []backend.Format {
	var out []backend.Format
	for i, p := range quantizedPairs {
		out = append(out, backend.Format{Act: activations[(i+turn)%len(activations)], K: p[0], V: p[1]})
	}
	return out
}

// storedAs is the format in which a type is tried where K and V do not matter to each other.
func storedAs(act, dt backend.DType) backend.Format {
	return backend.Format{Act: act, K: dt, V: dt.Coding().Values}
}

// storing is a format that the device lists with planes of a type.
func (r *rig[B]) storing(dt backend.DType) backend.Format {
	for _, act := range append([]backend.DType{backend.F32}, activations...) {
		f := storedAs(act, dt)
		if r.be.Caps().Supports(f) {
			return f
		}
	}
	r.skip("the device lists no format with planes of %s", dt)
	return backend.Format{}
}

// quantized is a format of quantized planes that the device lists and whose slots
// are written one by one.
func (r *rig[B]) quantized() backend.Format {
	for _, f := range r.be.Caps().Formats {
		if f.K.Quantized() && f.V.Quantized() && !byChannel(f.K) {
			return f
		}
	}
	r.skip("the device lists no format of quantized planes")
	return backend.Format{}
}

// sampled are the formats that small cases try: those that a device lists, but of
// pairs that only a few callers would choose, of which there may be hundreds, every seventh.
func sampled(caps backend.Caps) []backend.Format {
	chosen := map[backend.Format]bool{}
	for turn := range activations {
		for _, f := range quantizedFormats(turn) {
			chosen[f] = true
		}
	}
	var out []backend.Format
	others := 0
	for _, f := range caps.Formats {
		if !f.Act.Float() {
			continue
		}
		if !chosen[f] && f.K != f.V && !(f.K.Float() && f.V.Float()) {
			if others++; others%7 != 0 {
				continue
			}
		}
		out = append(out, f)
	}
	return out
}

const (
	// rounding is what f32 arithmetic may add to the error of a stored row, in parts of
	// the row's norm: the limit of an f32 row.
	rounding = 1e-5
	// widest is how much longer a step may be than the one that the host's codec takes
	// for the reference: that one is rounded to a bfloat16, 1/128 apart at most.
	widest = 1.01
)

// lost is what may become of a number where a device flushes subnormal ones to 0.
func (r *rig[B]) lost() float64 {
	if r.flushes {
		return 0x1p-126
	}
	return 0
}

// settle compares a row that has been quantized with the values that it was to hold,
// which are right but for f32 rounding, and takes it over into the image. Each
// element may be half a step away, and the steps may be no longer than they have to be.
func (p *plane[B]) settle(got stored, slot, head int, want []float64, slack float64) error {
	least := make([]uint32, len(p.words(got, slot, head)))
	if !byHead(p.dt) {
		quant.EncodeRow(p.dt, make([]byte, bytesOf(p.dt, p.dim)), least, narrow32(want), true)
	}
	return p.settleIn(got, slot, head, want, least, slack)
}

// settleIn is settle with the scales that are enough for the values.
func (p *plane[B]) settleIn(got stored, slot, head int, want []float64, least []uint32, slack float64) error {
	norm := 0.0
	for _, v := range want {
		norm += v * v
	}
	slack += rounding * math.Sqrt(norm)
	have, words, group := p.values(got, slot, head), p.words(got, slot, head), groupOf(p.dt, p.dim)
	for i, w := range want {
		var limit float64
		switch {
		case byHead(p.dt):
			limit = slack + quant.BoundFP8(p.dt, float32(w), math.Float32frombits(words[0]))
		case p.dt.Coding().Scale == backend.Exponents:
			e, first := quant.Exponent(words, i/group), i/group*group
			if low, high := exponentsFor(want[first:min(first+group, len(want))], slack); e < low || e > high {
				return fmt.Errorf("element %d of %s is in a group with an exponent of %d, want %d to %d", i, p.dt, e, low, high)
			}
			limit = slack + quant.BoundMX(float32(math.Abs(w)+slack), e)
		case p.dt.HeadFactors():
			b, first, factor := quant.Exponent(words, i/group), i/group*group, p.factor(head)
			if low, high := factorsFor(want[first:min(first+group, len(want))], factor, slack); b < low || b > high {
				return fmt.Errorf("element %d of %s is in a group with a factor of %#x, want %#x to %#x", i, p.dt, b, low, high)
			}
			limit = slack + quant.BoundNV(float32(math.Abs(w)+slack), quant.StepNV(b, factor))
		default:
			step, enough := stepOf(p.dt, words[i/group]), stepOf(p.dt, least[i/group])
			if !(step >= 0 && step <= widest*enough+slack) {
				return fmt.Errorf("element %d of %s is in a group with a step of %g, %g is enough", i, p.dt, step, enough)
			}
			limit = slack + step*(0.5+1.0/256) + math.SmallestNonzeroFloat32
		}
		if d := math.Abs(float64(have[i]) - w); !(d <= limit) {
			return fmt.Errorf("element %d of %s is %g, want %g within %g", i, p.dt, have[i], w, limit)
		}
	}
	if err := p.paddingIn(words); err != nil {
		return err
	}
	p.take(got, slot, slot, head)
	return nil
}

// exponentsFor is the exponents that a group may have whose values are right but for slack: two where its
// largest magnitude is so near to a power of two.
func exponentsFor(group []float64, slack float64) (low, high uint8) {
	least, most := largest(group, slack)
	return quant.ExponentMX(least), quant.ExponentMX(most)
}

// factorsFor is exponentsFor of bytes that are E4M3.
func factorsFor(group []float64, factor float32, slack float64) (low, high uint8) {
	least, most := largest(group, slack)
	return quant.FactorNV(least, factor), quant.FactorNV(most, factor)
}

// largest is the least and the most that the largest magnitude of a group may be.
func largest(group []float64, slack float64) (least, most float32) {
	top := 0.0
	for _, v := range group {
		top = max(top, math.Abs(v))
	}
	return float32(max(top-slack, 0)), float32(min(top+slack, math.MaxFloat32))
}

// paddingIn looks at what is in the words of a row after its last group.
func (p *plane[B]) paddingIn(words []uint32) error {
	if p.dt.Coding().Scale.PerWord() == 1 {
		return nil
	}
	for i := (p.dim + p.dt.GroupOf(p.dim) - 1) / p.dt.GroupOf(p.dim); i < 4*len(words); i++ {
		if e := quant.Exponent(words, i); e != 0 {
			return fmt.Errorf("byte %d of the scales of a row of %d elements of %s is %d, want 0: no group has it", i, p.dim, p.dt, e)
		}
	}
	return nil
}

// groupOf is how many elements of a row share what becomes of them: a scale, where it
// is made from their values.
func groupOf(dt backend.DType, dim int) int {
	if dt.Coding().Scope == backend.ByHead {
		return 1
	}
	return dt.GroupOf(dim)
}

// stepOf is the distance between the values of neighbouring codes.
func stepOf(dt backend.DType, word uint32) float64 {
	if dt.Coding().Scale == backend.Factor {
		return float64(math.Float32frombits(word))
	}
	return float64(quant.Word(word).Step())
}

func narrow32(values []float64) []float32 {
	out := make([]float32, len(values))
	for i, v := range values {
		out[i] = float32(v)
	}
	return out
}
