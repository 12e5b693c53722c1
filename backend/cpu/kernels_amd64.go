//go:build !noasm

package cpu

import "golang.org/x/sys/cpu"

// native is the kernels of kernels/asm/amd64 that this processor runs.
func native() (out []*kernels) {
	x := &cpu.X86
	if !x.HasAVX2 || !x.HasFMA || !x.HasF16C {
		return nil
	}
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VNNI {
		out = append(out, tier("avx512"))
	}
	return append(out, tier("avx2"))
}

// tier is the portable kernels, those replaced that there is assembly for.
func tier(name string) *kernels {
	k := portable
	k.name = name
	k.convert()
	k.rotate()
	k.streams()
	k.products()
	k.scores()
	k.mixes()
	k.weighs()
	k.withExact = k.withExactMix()
	return &k
}
