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
	k.name, k.ahead = name, distancesOf(identity())
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

// identity is the vendor and family of the processor.
func identity() (vendor, family uint32) {
	_, vendor = cpuid(0)
	version, _ := cpuid(1)
	return vendor, version>>8&15 + version>>20&255 // the second where the first is 15, and else zero
}

// distancesOf is what was measured to be the best for a processor: docs/kernels.md has the figures. Of AMD's family 26, Zen 5 and later,
// that is model 2, which stands for the others.
func distancesOf(vendor, family uint32) distances {
	const amd, measured = 'A' | 'u'<<8 | 't'<<16 | 'h'<<24, 26
	if vendor == amd && family == measured {
		return distances{64, 64}
	}
	return usual
}
