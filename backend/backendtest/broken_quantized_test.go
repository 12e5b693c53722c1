package backendtest

import (
	"errors"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// keeping is a call that leaves a buffer as it was.
func keeping(be device, s backend.Stream, o backend.Opt[*cpu.Buffer], call func() error) error {
	if !o.Set {
		return call()
	}
	kept := make([]byte, o.Buf.Bytes())
	err := be.Download(s, kept, o.Buf, 0)
	return errors.Join(err, call(), be.Upload(s, o.Buf, 0, kept))
}

// misreading is a CPU's Attend that sees other scales than there are.
func misreading(be device, edit func(p *attendP, words []uint32)) func(s backend.Stream, p attendP) error {
	return func(s backend.Stream, p attendP) error {
		return keeping(be, s, p.Cache.K.Scales, func() error {
			if p.Cache.K.Scales.Set {
				b := p.Cache.K.Scales.Buf
				if err := changed(be, s, b, b.Len(), func(words []uint32) { edit(&p, words) }); err != nil {
					return err
				}
			}
			return be.Attend(s, p)
		})
	}
}

// infinities takes values near the end of the range for ones beyond it.
func infinities(v []float32) {
	for i, x := range v {
		if math.Abs(float64(x)) > 0x1p127 {
			v[i] = float32(math.Inf(1))
		}
	}
}

// scaledTo gives rows of int8 keys whose scale is the largest there is another one.
func scaledTo(be device, s backend.Stream, c backend.CacheView[*cpu.Buffer], scale float32) error {
	if c.K.Data.DType() != backend.Int8 {
		return nil
	}
	return changed(be, s, c.K.Scales.Buf, c.Blocks*c.KVHeads*c.BlockSize, func(scales []float32) {
		for i, v := range scales {
			if v == quant.ScaleInt8(math.MaxFloat32) {
				scales[i] = scale
			}
		}
	})
}

// quantizedDefects are mistakes with scales, turned keys and attention scores.
var quantizedDefects = []defect{
	{"forgets the scales of copied blocks", "move", func(b *broken, be device) {
		b.copy = func(s backend.Stream, p copyP) error {
			return keeping(be, s, p.To.K.Scales, func() error { return be.CopyBlocks(s, p) })
		}
	}},
	{"forgets the scales of moved slots", "move", func(b *broken, be device) {
		b.move = func(s backend.Stream, p moveP) error {
			return keeping(be, s, p.Cache.V.Scales, func() error { return be.MoveSlots(s, p) })
		}
	}},
	{"leaves the mass of blocks behind", "move", func(b *broken, be device) {
		b.copy = func(s backend.Stream, p copyP) error {
			p.FromScores.Set, p.ToScores.Set = false, false
			return be.CopyBlocks(s, p)
		}
	}},
	{"copies more than attention scores", "move", func(b *broken, be device) {
		b.copy = func(s backend.Stream, p copyP) error {
			p.ScoresOnly = p.ScoresOnly && p.From.K.Data.DType() != p.To.K.Data.DType()
			return be.CopyBlocks(s, p)
		}
	}},
	{"copies blocks within the cache that they are to leave", "move", func(b *broken, be device) {
		b.copy = func(s backend.Stream, p copyP) error {
			p.To, p.ToScores = p.From, p.FromScores
			return be.CopyBlocks(s, p)
		}
	}},
	{"takes the mass of blocks from where it is to go", "move", func(b *broken, be device) {
		b.copy = func(s backend.Stream, p copyP) error {
			p.FromScores = p.ToScores
			return be.CopyBlocks(s, p)
		}
	}},
	{"leaves the mass of slots behind", "move", func(b *broken, be device) {
		b.move = func(s backend.Stream, p moveP) error {
			p.Scores.Set = false
			return be.MoveSlots(s, p)
		}
	}},
	{"turns keys and not queries", "append", func(b *broken, be device) {
		b.append = func(s backend.Stream, p appendP) error {
			if p.Cache.K.Hadamard {
				p.QHeads = 0
			}
			return be.Append(s, p)
		}
	}},
	{"turns neither keys nor queries", "append", func(b *broken, be device) {
		b.append = func(s backend.Stream, p appendP) error {
			p.Cache.K.Hadamard = false
			return be.Append(s, p)
		}
	}},
	{"takes longer steps than it needs", "append", func(b *broken, be device) {
		b.append = func(s backend.Stream, p appendP) error {
			err := be.Append(s, p)
			k := p.Cache.K
			if k.Data.DType() != backend.Int8 || !p.Rotary.Table.Set || err != nil {
				return err
			}
			var scales []float32
			err = changed(be, s, k.Scales.Buf, p.Cache.Blocks*p.Cache.KVHeads*p.Cache.BlockSize, func(v []float32) {
				scales = slices.Clone(v)
				for i := range v {
					v[i] *= 1.25
				}
			})
			return errors.Join(err, changed(be, s, k.Data, len(scales)*k.Dim, func(codes []int8) {
				for i, c := range codes {
					if old := scales[i/k.Dim]; old == old {
						codes[i] = int8(math.RoundToEven(float64(c) / 1.25))
					}
				}
			}))
		}
	}},
	{"takes what is not finite", "append", func(b *broken, be device) {
		b.append = func(s backend.Stream, p appendP) error {
			p.Saturate = true
			return be.Append(s, p)
		}
	}},
	{"never saturates", "append", func(b *broken, be device) {
		b.append = func(s backend.Stream, p appendP) error {
			p.Saturate = false
			return be.Append(s, p)
		}
	}},
	{"writes before it finds what is not finite", "append", func(b *broken, be device) {
		b.append = func(s backend.Stream, p appendP) error {
			err := be.Append(s, p)
			if errors.Is(err, backend.ErrNonFinite{}) {
				p.Saturate = true
				return errors.Join(be.Append(s, p), err)
			}
			return err
		}
	}},
	{"makes scales that reach beyond the range", "ends", func(b *broken, be device) {
		b.append = func(s backend.Stream, p appendP) error {
			return errors.Join(be.Append(s, p), scaledTo(be, s, p.Cache, math.MaxFloat32/126))
		}
	}},
	{"loses keys that leave the range", "ends", func(b *broken, be device) {
		b.rotate = func(s backend.Stream, p rotateP) error {
			return errors.Join(be.Rotate(s, p), scaledTo(be, s, p.Cache, float32(math.NaN())))
		}
	}},
	{"loses keys of floats that leave the range", "ends", func(b *broken, be device) {
		b.rotate = func(s backend.Stream, p rotateP) error {
			keys := p.Cache.K.Data
			if err := be.Rotate(s, p); err != nil || keys.DType() != backend.F32 {
				return err
			}
			return changed(be, s, keys, keys.Len(), infinities)
		}
	}},
	{"gathers the largest values as infinities", "ends", func(b *broken, be device) {
		b.gather = func(s backend.Stream, p gatherP) error {
			return errors.Join(be.Gather(s, p), changed(be, s, p.V.Buf, p.V.Buf.Len(), infinities))
		}
	}},
	{"sums the largest values to infinities", "ends", func(b *broken, be device) {
		b.attend = func(s backend.Stream, p attendP) error {
			if err := be.Attend(s, p); err != nil || p.Out.Rows.Buf.DType() != backend.F32 {
				return err
			}
			return changed(be, s, p.Out.Rows.Buf, p.Out.Rows.Buf.Len(), infinities)
		}
	}},
	{"makes infinities of codes", "ends", func(b *broken, be device) {
		b.convert = func(s backend.Stream, p convertP) error {
			to := p.To.K.Data
			if err := be.ConvertBlocks(s, p); err != nil || to.DType() != backend.F16 {
				return err
			}
			return changed(be, s, to, 2*p.To.KVHeads*p.To.BlockSize*p.To.K.Dim, func(halves []uint16) {
				for i, h := range halves {
					if h&0x7fff == 0x7bff {
						halves[i]++
					}
				}
			})
		}
	}},
	{"gathers keys as they are turned", "gather", func(b *broken, be device) {
		b.gather = func(s backend.Stream, p gatherP) error {
			p.Cache.K.Hadamard = false
			return be.Gather(s, p)
		}
	}},
	{"stores floats as they come where keys are turned", "append", func(b *broken, be device) {
		b.append = func(s backend.Stream, p appendP) error {
			p.Cache.K.Hadamard = p.Cache.K.Hadamard && p.Cache.K.Data.DType().Quantized()
			return be.Append(s, p)
		}
	}},
	{"gathers floats as they are turned", "gather", func(b *broken, be device) {
		b.gather = func(s backend.Stream, p gatherP) error {
			p.Cache.K.Hadamard = p.Cache.K.Hadamard && p.Cache.K.Data.DType().Quantized()
			return be.Gather(s, p)
		}
	}},
	{"rotates floats that are turned", "rotate", func(b *broken, be device) {
		b.rotate = func(s backend.Stream, p rotateP) error {
			p.Cache.K.Hadamard = p.Cache.K.Hadamard && p.Cache.K.Data.DType().Quantized()
			return be.Rotate(s, p)
		}
	}},
	{"turns floats that are turned already where it converts", "convert", func(b *broken, be device) {
		b.convert = func(s backend.Stream, p convertP) error {
			p.From.K.Hadamard = p.From.K.Hadamard && p.From.K.Data.DType().Quantized()
			p.To.K.Hadamard = p.To.K.Hadamard && p.To.K.Data.DType().Quantized()
			return be.ConvertBlocks(s, p)
		}
	}},
	{"rotates keys that are turned", "rotate", func(b *broken, be device) {
		b.rotate = func(s backend.Stream, p rotateP) error {
			p.Cache.K.Hadamard = false
			return be.Rotate(s, p)
		}
	}},
	{"rotates codes and keeps their scales", "rotate", func(b *broken, be device) {
		b.rotate = func(s backend.Stream, p rotateP) error {
			return keeping(be, s, p.Cache.K.Scales, func() error { return be.Rotate(s, p) })
		}
	}},
	{"converts without turning", "convert", func(b *broken, be device) {
		b.convert = func(s backend.Stream, p convertP) error {
			p.From.K.Hadamard, p.To.K.Hadamard = false, false
			return be.ConvertBlocks(s, p)
		}
	}},
	{"leaves the mass of converted blocks behind", "convert", func(b *broken, be device) {
		b.convert = func(s backend.Stream, p convertP) error {
			p.FromScores.Set, p.ToScores.Set = false, false
			return be.ConvertBlocks(s, p)
		}
	}},
	{"converts into old scales", "convert", func(b *broken, be device) {
		b.convert = func(s backend.Stream, p convertP) error {
			return keeping(be, s, p.To.V.Scales, func() error { return be.ConvertBlocks(s, p) })
		}
	}},
	{"converts what is not finite", "convert", func(b *broken, be device) {
		b.convert = func(s backend.Stream, p convertP) error {
			p.Saturate = true
			return be.ConvertBlocks(s, p)
		}
	}},
	{"reads a row's first scale for all of it", "attend", func(b *broken, be device) {
		b.attend = misreading(be, func(p *attendP, words []uint32) {
			if p.Cache.K.Data.DType() == backend.Int4 {
				n := backend.Int4.ScaleWords(p.Cache.K.Dim)
				for i := range words {
					words[i] = words[i/n*n]
				}
			}
		})
	}},
	{"reads a word's first exponent for all of its groups", "attend", func(b *broken, be device) {
		b.attend = misreading(be, func(p *attendP, words []uint32) {
			if p.Cache.K.Data.DType() == backend.MXFP4 {
				for i, w := range words {
					words[i] = w & 0xff * 0x01010101
				}
			}
		})
	}},
	{"reads a word's first factor for all of its groups", "attend", func(b *broken, be device) {
		b.attend = misreading(be, func(p *attendP, words []uint32) {
			if dt := p.Cache.K.Data.DType(); dt == backend.NVFP4 {
				for i, w := range words[dt.HeadWords(p.Cache.KVHeads):] {
					words[dt.HeadWords(p.Cache.KVHeads)+i] = w & 0xff * 0x01010101
				}
			}
		})
	}},
	{"reads the first head's scale for all heads", "attend", func(b *broken, be device) {
		b.attend = misreading(be, func(p *attendP, words []uint32) {
			if dt := p.Cache.K.Data.DType(); dt == backend.FP8E4M3 || dt == backend.NVFP4 {
				for i := range p.Cache.KVHeads {
					words[i] = words[0]
				}
			}
		})
	}},
	{"ignores zero points", "attend", func(b *broken, be device) {
		b.attend = misreading(be, func(p *attendP, words []uint32) {
			if p.Cache.K.Data.DType() == backend.Int8Asym {
				for i := range words {
					words[i] &= 0xffff
				}
			}
		})
	}},
	{"rounds queries unasked", "attend", func(b *broken, be device) {
		b.attend = attending(be, func(_ backend.Stream, p *attendP) {
			p.Int8Query = slices.Contains(be.Caps().Int8Query, p.Cache.K.Data.DType())
		})
	}},
	{"never rounds queries, and says so of no type", "attend", func(b *broken, be device) {
		b.attend = attending(be, func(_ backend.Stream, p *attendP) { p.Int8Query = false })
	}},
	{"does not miss scales", "bad input", func(b *broken, be device) {
		b.copy = func(s backend.Stream, p copyP) error {
			if err := be.CopyBlocks(s, p); p.To.K.Scales.Set {
				return err
			}
			return nil
		}
	}},
	{"overlooks slots outside a quantized cache", "bad ids", func(b *broken, be device) {
		b.rotate = func(s backend.Stream, p rotateP) error {
			err := be.Rotate(s, p)
			if p.Cache.K.Data.DType().Quantized() {
				return nil
			}
			return err
		}
	}},
	{"takes freed scales", "lifetime", func(b *broken, be device) {
		b.move = func(s backend.Stream, p moveP) error {
			if p.Cache.V.Scales.Set {
				_ = be.MoveSlots(s, p)
				return nil
			}
			return be.MoveSlots(s, p)
		}
	}},
	{"allocates when it converts", "allocations", func(b *broken, be device) {
		b.convert = func(s backend.Stream, p convertP) error {
			garbage = make([]byte, p.N)
			return be.ConvertBlocks(s, p)
		}
	}},
}
