package product

import (
	"math/rand/v2"
	"testing"
)

// FuzzMul tries shapes, parts, kernels and types.
func FuzzMul(f *testing.F) {
	f.Add(uint64(1), uint16(70), uint16(33), uint8(7), uint8(3), uint8(0), true)
	f.Add(uint64(2), uint16(257), uint16(depth+33), uint8(1), uint8(1), uint8(3), false)
	f.Add(uint64(3), uint16(64), uint16(64), uint8(2*band), uint8(4), uint8(5), true)
	f.Fuzz(func(t *testing.T, seed uint64, rows, cols uint16, n, parts, which uint8, add bool) {
		rng := rand.New(rand.NewPCG(seed, 1))
		height, width := 1+int(rows)%300, 1+int(cols)%(2*depth)
		k, dt := available[int(which)/len(types)%len(available)], types[int(which)%len(types)]
		m := pack(k, dt, height, width, randoms(rng, height*width))
		checkProduct(t, m, rng, int(n)%(2*band+2), 1+int(parts)%5, add)
	})
}

// FuzzCodes is FuzzMul for codes.
func FuzzCodes(f *testing.F) {
	f.Add(uint64(1), uint16(70), uint16(33), uint8(7), uint8(3), uint8(0), true)
	f.Add(uint64(2), uint16(33), uint16(columns+33), uint8(1), uint8(1), uint8(3), false)
	f.Add(uint64(3), uint16(64), uint16(64), uint8(many+1), uint8(4), uint8(5), true)
	f.Fuzz(func(t *testing.T, seed uint64, rows, width uint16, n, parts, which uint8, add bool) {
		rng := rand.New(rand.NewPCG(seed, 1))
		k, typ := available[int(which)/len(ggmlTypes)%len(available)], ggmlTypes[int(which)%len(ggmlTypes)]
		m := matrix(rng, k, typ, 1+int(rows)%(2*unit+2), cols(typ, 1+int(width)%(2*columns)))
		checkCodes(t, m, rng, int(n)%(many+2), 1+int(parts)%5, add)
	})
}
