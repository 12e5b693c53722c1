package check

import "github.com/ferrumkv/ferrumkv/backend"

// operand checks the type of a buffer and that it has the elements that the call
// addresses.
func operand[B backend.Buffer](c *checker, name string, b B, dt backend.DType, need int) {
	if have := b.DType(); have != dt {
		c.wrongType(name, have, dt)
	}
	if have := b.Len(); have < need {
		c.tooShort(name, have, need)
	}
}

func (c *checker) wrongType(name string, have, need backend.DType) {
	c.shape("%s: elements are %s, need %s", name, have, need)
}

func (c *checker) tooShort(name string, have, need int) {
	c.shape("%s: %d elements, need %d", name, have, need)
}

// optional checks an operand that may be absent.
func optional[B backend.Buffer](c *checker, name string, o backend.Opt[B], dt backend.DType, need int) {
	if o.Set {
		operand(c, name, o.Buf, dt, need)
	}
}

// required checks an operand that the other parameters make necessary.
func required[B backend.Buffer](c *checker, name string, o backend.Opt[B], dt backend.DType, need int) {
	if !o.Set {
		c.shape("%s: missing", name)
		return
	}
	operand(c, name, o.Buf, dt, need)
}

// rows checks n vectors of width elements each.
func rows[B backend.Buffer](c *checker, name string, r backend.Rows[B], n, width int, dt backend.DType) {
	stride := stride(r, width)
	if r.Offset < 0 {
		c.shape("%s offset: have %d, need at least 0", name, r.Offset)
	}
	if stride < width {
		c.shape("%s stride: have %d, need 0 or at least the vector's %d elements", name, r.Stride, width)
	}
	if c.err != nil {
		return
	}
	need := 0
	if n > 0 {
		need = c.sum(name, c.sum(name, r.Offset, c.product(name, n-1, stride)), width)
	}
	operand(c, name, r.Buf, dt, need)
}

func stride[B backend.Buffer](r backend.Rows[B], width int) int {
	if r.Stride == 0 {
		return width
	}
	return r.Stride
}

// apart checks that a call does not write over what it reads: n output rows
// against n input rows, both already checked. Rows that interleave without
// touching, as the parts of a fused projection do, are apart.
func apart[B backend.Buffer](c *checker, outName string, out backend.Rows[B], outWidth int, name string, in backend.Rows[B], inWidth, n int) {
	if c.err != nil || n == 0 || any(out.Buf) != any(in.Buf) {
		return
	}
	outStride, inStride := stride(out, outWidth), stride(in, inWidth)
	outEnd, inEnd := out.Offset+(n-1)*outStride+outWidth, in.Offset+(n-1)*inStride+inWidth
	if outEnd <= in.Offset || inEnd <= out.Offset {
		return
	}
	if outStride == inStride {
		shift := (out.Offset - in.Offset) % outStride
		if shift < 0 {
			shift += outStride
		}
		if shift >= inWidth && shift+outWidth <= outStride {
			return
		}
	}
	c.shape("%s: overlaps %s in one buffer", outName, name)
}

// cache checks the dims of a cache and both of its planes.
func cache[B backend.Buffer](c *checker, caps *backend.Caps, v *backend.CacheView[B]) {
	c.least("blocks", v.Blocks, 1)
	c.least("KV heads", v.KVHeads, 1)
	c.least("block size", v.BlockSize, 1)
	c.dims(caps, v.K.Dim, v.V.Dim, v.Latent)
	c.storage(caps, v.K.Data.DType(), valueType(v))
	slots := c.product("cache slots", c.product("cache slots", v.Blocks, v.KVHeads), v.BlockSize)
	if c.err != nil {
		return
	}
	if plane(c, "keys", "key scales", v, &v.K, slots); v.Latent {
		latent(c, v)
	} else {
		plane(c, "values", "value scales", v, &v.V, slots)
	}
	if v.V.Hadamard {
		c.shape("values: are not stored with a Hadamard rotation, keys are")
	}
}

// latent checks what the keys of a latent cache are besides a plane: its values.
func latent[B backend.Buffer](c *checker, v *backend.CacheView[B]) {
	dt := v.K.Data.DType()
	if v.K.Hadamard {
		c.unsupported("a latent cache stored with a Hadamard rotation, which would be one of its values")
	}
	if v.V.Dim*dt.Bits()%8 != 0 {
		c.shape("values: the first %d dims of %s do not fill whole bytes", v.V.Dim, dt)
	}
}

// valueType is the type of a cache's values.
func valueType[B backend.Buffer](v *backend.CacheView[B]) backend.DType {
	if v.Latent {
		return v.K.Data.DType()
	}
	return v.V.Data.DType()
}

// formatOf is the types of a cache and of the activations beside it.
func formatOf[B backend.Buffer](act backend.DType, v *backend.CacheView[B]) backend.Format {
	return backend.Format{Act: act, K: v.K.Data.DType(), V: valueType(v)}
}

// plane checks one plane's memory, of the cache's slots for all heads, and, for a quantized
// type, its scales.
func plane[B backend.Buffer](c *checker, name, scales string, v *backend.CacheView[B], p *backend.Plane[B], slots int) {
	dt := p.Data.DType()
	if have, need := p.Data.Len(), c.product(name, slots, p.Dim); have < need {
		c.tooShort(name, have, need)
	}
	if !dt.Quantized() {
		if p.Scales.Set {
			c.shape("%s: %s has no scales", name, dt)
		}
		return
	}
	if p.Dim*dt.Bits()%8 != 0 {
		c.shape("%s: %d dims of %s do not fill whole bytes", name, p.Dim, dt)
	}
	words, n, ok := dt.Scales(v.Blocks, v.KVHeads, v.BlockSize, p.Dim)
	if !ok {
		c.shape("%s: the number of elements overflows", scales)
	}
	required(c, scales, p.Scales, words, n)
}

// slotwise checks that the slots of a cache can be written one by one.
func slotwise[B backend.Buffer](c *checker, v *backend.CacheView[B]) {
	for _, dt := range [...]backend.DType{v.K.Data.DType(), valueType(v)} {
		if c.err == nil && dt.Coding().Scope == backend.ByChannel {
			c.unsupported("single slots of %s, whose blocks share scales; convert whole blocks", dt)
		}
	}
}

// rotated is how many elements of a key can be rotated: those after the latent, or all.
func rotated[B backend.Buffer](v *backend.CacheView[B]) int {
	if v.Latent {
		return v.K.Dim - v.V.Dim
	}
	return v.K.Dim
}

// rope checks a rotation that is set.
func rope[B backend.Buffer](c *checker, r backend.RotaryTable[B], v *backend.CacheView[B]) {
	if most := rotated(v); r.Dims < 2 || r.Dims%2 != 0 || r.Dims > most {
		what := "the key dim"
		if v.Latent {
			what = "what a key has behind its latent,"
		}
		c.shape("rope dims: have %d, need an even number from 2 to %s %d", r.Dims, what, most)
	}
	if r.Pairing > backend.Interleaved {
		c.shape("rope pairing: %d is unknown", r.Pairing)
	}
	c.least("rope positions", r.Positions, 1)
	required(c, "rope table", r.Table, backend.F32, c.product("rope table", r.Positions, r.Dims))
}
