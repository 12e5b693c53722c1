//go:build !amd64 || noasm

package bench

// instructionsOf is the probes with the instructions of some kernels.
func instructionsOf(string) instructions { return portable }
