//go:build !noasm

package cpu

// rotateNEON sets turn and hadamard to assembly.
func (k *kernels) rotateNEON() {
	r := &rotators{4, 8, turnHalvesNEON, turnPairsNEON, hadamardNEON}
	k.turn, k.hadamard = r.turn, r.hadamard
}
