package ggml

// Blocks of 256 elements go in halves of 128, whose codes of 2 or 4 bits lie over each other in 32 bytes: those of the
// first 32 elements in the lowest bits.

// q2K is 16 bytes of scales (low halves) and of lowest values (high halves) for 16 elements each, codes, and the scales of both.
func q2K(dst []float32, src []byte) {
	scales, codes, d, m := src[:16], src[16:80], f16(src[80:]), f16(src[82:])
	for part, s := range scales {
		by, lowest, shift := d*float32(s&15), m*float32(s>>4), part%8/2*2
		to := dst[16*part:][:16]
		for i, c := range codes[part/8*32+part%2*16:][:16] {
			to[i] = float32(by*float32(c>>shift&3)) - lowest
		}
	}
}

// q3K is a third bit for each element, whose absence is −4, codes, 16 scales of 6 bits less 32, and the scale of these.
func q3K(dst []float32, src []byte) {
	high, codes, packed, d := src[:32], src[32:96], src[96:108], f16(src[108:])
	for part := range 16 {
		by, shift := d*float32(scale6(packed, part)-32), part%8/2*2
		to, third := dst[16*part:][:16], high[part%2*16:][:16]
		for i, c := range codes[part/8*32+part%2*16:][:16] {
			to[i] = by * float32(int(c>>shift&3)+int(third[i]>>(part/2)&1)*4-4)
		}
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
	for part := range 8 {
		scale, lowest := pair6(packed, part)
		by, less, shift := d*float32(scale), m*float32(lowest), part%2*4
		to := dst[32*part:][:32]
		for i, c := range codes[part/2*32:][:32] {
			to[i] = float32(by*float32(c>>shift&15)) - less
		}
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
	for part := range 8 {
		scale, lowest := pair6(packed, part)
		by, less, shift := d*float32(scale), m*float32(lowest), part%2*4
		to := dst[32*part:][:32]
		for i, c := range codes[part/2*32:][:32] {
			to[i] = float32(by*float32(c>>shift&15|high[i]>>part&1<<4)) - less
		}
	}
}

// q6K is the low 4 and the high 2 bits of codes less 32, 16 scales with signs, and the scale of these.
func q6K(dst []float32, src []byte) {
	low, high, scales, d := src[:128], src[128:192], src[192:208], f16(src[208:])
	for part, s := range scales {
		half, at := part/8, part%8*16
		by, to, upper := d*float32(int8(s)), dst[16*part:][:16], high[half*32+at%32:][:16]
		for i, c := range low[half*64+at%64:][:16] {
			to[i] = by * float32(int(c>>(at/64*4)&15|upper[i]>>(at/32*2)&3<<4)-32)
		}
	}
}

// iq4XS is a scale of 8 scales of 6 bits less 32 for 32 elements each, these, their low bits after all high ones, and codes of nonlinear.
func iq4XS(dst []float32, src []byte) {
	d, high, low, codes := f16(src), le.Uint16(src[2:]), src[4:8], src[8:136]
	for part := range 8 {
		by := d * float32(int(low[part/2]>>(part%2*4)&15|byte(high>>(2*part))&3<<4)-32)
		to := dst[32*part:][:32]
		for i, c := range codes[16*part:][:16] {
			to[i], to[i+16] = by*nonlinear[c&15], by*nonlinear[c>>4]
		}
	}
}
