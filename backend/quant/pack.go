package quant

// PackedLen is the number of bytes of n codes of the given bits.
func PackedLen(n, bits int) int { return n/8*bits + (n%8*bits+7)/8 }

// Codes of less than a byte lie back to back from the lowest bit of the first byte on:
// of two 4-bit codes the first is the low half. Bits after the last code are 0.

// packer writes codes of 1 to 8 bits.
type packer struct {
	to   []byte
	bits int
	held uint32 // codes that do not fill a byte yet
	n    int    // bits of them
	at   int
}

func (p *packer) put(code uint32) {
	p.held |= code << p.n
	if p.n += p.bits; p.n >= 8 {
		p.to[p.at] = byte(p.held)
		p.at++
		p.held >>= 8
		p.n -= 8
	}
}

func (p *packer) flush() {
	if p.n > 0 {
		p.to[p.at] = byte(p.held)
	}
}

// unpacker reads what a packer wrote.
type unpacker struct {
	from []byte
	bits int
	held uint32
	n    int
	at   int
}

func (p *unpacker) next() uint32 {
	if p.n < p.bits {
		p.held |= uint32(p.from[p.at]) << p.n
		p.at++
		p.n += 8
	}
	code := p.held & (1<<p.bits - 1)
	p.held >>= p.bits
	p.n -= p.bits
	return code
}

// Pack stores codes of the given bits, 1 to 8, in PackedLen bytes. Higher bits of a code are
// dropped.
func Pack(dst []byte, codes []uint8, bits int) {
	p := packer{to: dst, bits: bits}
	for _, c := range codes {
		p.put(uint32(c) & (1<<bits - 1))
	}
	p.flush()
}

// Unpack is the inverse of Pack for len(dst) codes.
func Unpack(dst []uint8, src []byte, bits int) {
	p := unpacker{from: src, bits: bits}
	for i := range dst {
		dst[i] = uint8(p.next())
	}
}
