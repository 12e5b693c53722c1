package ggml

// Blocks of 256 elements go in halves of 128, whose codes of 2 or 4 bits lie over each other in 32 bytes: those of the
// first 32 elements in the lowest bits.

// q2K is 16 bytes of scales (low halves) and of lowest values (high halves) for 16 elements each, codes, and the scales of both.
func q2K(dst []float32, src []byte) {
	scales, codes, d, m := src[:16], src[16:80], f16(src[80:]), f16(src[82:])
	for i := range dst[:256] {
		half, at := i/128, i%128
		c := codes[half*32+at%32] >> (at / 32 * 2) & 3
		s := scales[i/16]
		dst[i] = float32(d*float32(s&15)*float32(c)) - float32(m*float32(s>>4))
	}
}

// q3K is a third bit for each element, whose absence is −4, codes, 16 scales of 6 bits less 32, and the scale of these.
func q3K(dst []float32, src []byte) {
	high, codes, packed, d := src[:32], src[32:96], src[96:108], f16(src[108:])
	for i := range dst[:256] {
		half, at := i/128, i%128
		c := int(codes[half*32+at%32] >> (at / 32 * 2) & 3)
		if high[at%32]>>(i/32)&1 == 0 {
			c -= 4
		}
		dst[i] = d * float32(scale6(packed, i/16)-32) * float32(c)
	}
}

// scale6 is scale i of 16, of which 12 bytes have the low 4 bits in halves of the first 8 and the high 2 bits in quarters of the last 4.
func scale6(packed []byte, i int) int {
	low := packed[i%8] >> (i / 8 * 4) & 15
	high := packed[8+i%4] >> (i / 4 * 2) & 3
	return int(low | high<<4)
}

// q4K is the scales of 8 scales and of 8 lowest values of 6 bits for 32 elements each, these, and codes.
func q4K(dst []float32, src []byte) {
	d, m, packed, codes := f16(src), f16(src[2:]), src[4:16], src[16:144]
	for i := range dst[:256] {
		c := codes[i/64*32+i%32] >> (i / 32 % 2 * 4) & 15
		scale, lowest := pair6(packed, i/32)
		dst[i] = float32(d*float32(scale)*float32(c)) - float32(m*float32(lowest))
	}
}

// pair6 is scale i of 8, and the lowest value with it: in the low 6 bits of bytes i and i+4 of the first four, and of the others in 4 bits of the
// last four bytes with the 2 bits above those of the first ones.
func pair6(packed []byte, i int) (scale, lowest byte) {
	if i < 4 {
		return packed[i] & 63, packed[i+4] & 63
	}
	return packed[i+4]&15 | packed[i-4]>>6<<4, packed[i+4]>>4 | packed[i]>>6<<4
}

// q5K is q4K with a fifth bit for each element.
func q5K(dst []float32, src []byte) {
	d, m, packed, high, codes := f16(src), f16(src[2:]), src[4:16], src[16:48], src[48:176]
	for i := range dst[:256] {
		c := codes[i/64*32+i%32]>>(i/32%2*4)&15 | high[i%32]>>(i/32)&1<<4
		scale, lowest := pair6(packed, i/32)
		dst[i] = float32(d*float32(scale)*float32(c)) - float32(m*float32(lowest))
	}
}

// q6K is the low 4 and the high 2 bits of codes less 32, 16 scales with signs, and the scale of these.
func q6K(dst []float32, src []byte) {
	low, high, scales, d := src[:128], src[128:192], src[192:208], f16(src[208:])
	for i := range dst[:256] {
		half, at := i/128, i%128
		c := low[half*64+at%64]>>(at/64*4)&15 | high[half*32+at%32]>>(at/32*2)&3<<4
		dst[i] = d * float32(int8(scales[i/16])) * float32(int(c)-32)
	}
}

// iq4XS is a scale of 8 scales of 6 bits less 32 for 32 elements each, these, their low bits after all high ones, and codes of nonlinear.
func iq4XS(dst []float32, src []byte) {
	d, high, low, codes := f16(src), le.Uint16(src[2:]), src[4:8], src[8:136]
	for i := range dst[:256] {
		part, at := i/32, i%32
		scale := int(low[part/2]>>(part%2*4)&15) | int(high>>(2*part)&3)<<4
		dst[i] = d * float32(scale-32) * nonlinear[codes[part*16+at%16]>>(at/16*4)&15]
	}
}
