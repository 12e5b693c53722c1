package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

// checkCode is the part of the check that reads one family's machine code.
func checkCode(family string, fatbin []byte, m *manifest.Manifest) []error {
	if fatbin == nil { // said already
		return nil
	}
	im, err := inspect(fatbin)
	if err != nil {
		return []error{fmt.Errorf("%s: %w", family, err)}
	}
	return slices.Concat(embedded.agree(family, listed(m, family), im), fit(family, im), obey(family, im))
}

// agree compares the kernels that are listed with the code that is there.
func (t target) agree(family string, listed []manifest.Kernel, im image) (problems []error) {
	report := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf(family+": "+format, args...))
	}
	for _, arch := range t.architectures {
		if _, ok := im[arch]; !ok {
			report("no code for %s", arch)
		}
	}
	for i, arch := range t.machines() {
		for _, k := range listed {
			c, ok := im[arch][k.Symbol]
			switch {
			case !ok:
				report("%s: no kernel %s", arch, k.Symbol)
			case c.threads != k.Threads || c.shared != k.Shared:
				report("%s: %s is launched with %d threads and %d bytes, MANIFEST says %d and %d", arch, k.Symbol, c.threads, c.shared, k.Threads, k.Shared)
			case c.registers != k.Registers[i]:
				report("%s: %s takes %d registers, MANIFEST says %d", arch, k.Symbol, c.registers, k.Registers[i])
			}
		}
		for _, symbol := range slices.Sorted(maps.Keys(im[arch])) {
			if !slices.ContainsFunc(listed, func(k manifest.Kernel) bool { return k.Symbol == symbol }) {
				report("%s: kernel %s is not in the MANIFEST", arch, symbol)
			}
		}
	}
	return problems
}

// reserved is shared memory, in bytes, that the system takes of every block and
// cuobjdump counts as the kernel's; before sm_90 it does not count it.
var reserved = map[string]int{"sm_90": 1 << 10}

// stacks are bytes of stack that a kernel may have, which was measured to be faster so.
var stacks = map[string]int{
	"fkv_attend_decode_f16_quant_128_128": 8, // one register, read once a tile; without, int8 is 1.04 times as slow (H200, 27 November 2026)
}

// fit compares what kernels take with what they may take.
func fit(family string, im image) (problems []error) {
	report := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf(family+": "+format, args...))
	}
	for _, arch := range embedded.machines() {
		for _, symbol := range slices.Sorted(maps.Keys(im[arch])) {
			c := im[arch][symbol]
			if c.stack > stacks[symbol] || c.local != 0 {
				report("%s: %s spills: %d bytes of stack, %d of local memory", arch, symbol, c.stack, c.local)
			}
			if total := c.static - reserved[arch] + c.shared; total > maxShared {
				report("%s: %s takes %d bytes of shared memory, want at most %d", arch, symbol, total, maxShared)
			}
		}
	}
	return problems
}
