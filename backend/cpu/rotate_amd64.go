//go:build !noasm

package cpu

var rotatorsOf = map[string]*rotators{
	"avx512": {16, unit, turnHalvesAVX512, turnPairsAVX512, hadamardAVX512},
	"avx2":   {8, unit, turnHalvesAVX2, turnPairsAVX2, hadamardAVX2},
}

// rotate sets turn and hadamard to those of k's tier.
func (k *kernels) rotate() {
	r := rotatorsOf[k.name]
	k.turn, k.hadamard = r.turn, r.hadamard
}
