//go:build !amd64 || noasm

package cpubench

// probesOf is the probes with the instructions of some kernels.
func probesOf(string) probes { return portable }
