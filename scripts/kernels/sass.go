package main

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// traits are kinds of instructions that a kernel has.
type traits uint8

const (
	asyncLoad traits = 1 << iota // 16 bytes from global to shared memory, asynchronously
	matrix                       // product on the tensor cores
	local                        // access to local memory: a spill, or an array that got no registers
)

// contents is what the machine code of a kernel has.
type contents struct {
	has                   traits
	hmma, hgmma, accesses int // instructions: matrix, of a warp and of a warpgroup; accesses to local memory
}

var traitNames = map[traits]string{
	asyncLoad: "16-byte asynchronous loads (LDGSTS.128)",
	matrix:    "matrix instructions (HMMA)",
	local:     "accesses to local memory (LDL, STL)",
}

// rules say which instructions kernels must and must not have. A kernel obeys every
// rule that its symbol matches.
var rules = []struct {
	symbols *regexp.Regexp
	need    traits
	forbid  traits
}{
	{regexp.MustCompile(`^fkv_attend_`), 0, local},
	{regexp.MustCompile(`^fkv_attend_(vector|decode|prefill|mass)_`), asyncLoad, 0},
	{regexp.MustCompile(`^fkv_attend_(decode|prefill|mass)_(f16|bf16)_(f16|bf16|quant)_`), matrix, 0},
	{regexp.MustCompile(`^fkv_attend_[a-z]+_f32`), 0, matrix}, // f32 means f32
	{regexp.MustCompile(`^fkv_probe_mma_`), matrix, 0},
}

var wide = regexp.MustCompile(`^LDGSTS\.(\w+\.)*128\b`)

// classify says what an instruction is, by its name: "LDGSTS.E.BYPASS.128".
func classify(instruction string) traits {
	name, _, _ := strings.Cut(instruction, ".")
	switch {
	case wide.MatchString(instruction):
		return asyncLoad
	case name == "HMMA":
		return matrix
	case name == "LDL", name == "STL":
		return local
	}
	return 0
}

func (c contents) and(more contents) contents {
	return contents{c.has | more.has, c.hmma + more.hmma, c.hgmma + more.hgmma, c.accesses + more.accesses}
}

// count returns the contents of one instruction.
func count(instruction string) (c contents) {
	c.has = classify(instruction)
	switch name, _, _ := strings.Cut(instruction, "."); {
	case name == "HMMA":
		c.hmma = 1
	case name == "HGMMA":
		c.hgmma = 1
	case c.has&local != 0:
		c.accesses = 1
	}
	return c
}

// instructions reads what nvdisasm prints of a cubin and returns what each kernel has.
func instructions(text []byte) (map[string]contents, error) {
	found := map[string]contents{}
	known := map[string]contents{} // a disassembly has a million lines and a few hundred names
	kernel := ""
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if section, ok := strings.CutPrefix(line, ".section\t.text."); ok {
			kernel, _, _ = strings.Cut(section, ",")
			found[kernel] = contents{}
		} else if name := instruction(line); name != "" {
			one, ok := known[name]
			if !ok {
				one = count(name)
				known[name] = one
			}
			found[kernel] = found[kernel].and(one)
		}
	}
	return found, lines.Err()
}

// instruction is the name of the instruction of a line such as
//
//	/*0040*/  @!P0 LDG.E.128 R4, [R2.64] ;
//
// and "" of a line that has none.
func instruction(line string) string {
	if !strings.HasPrefix(line, "/*") {
		return ""
	}
	_, rest, _ := strings.Cut(line, "*/")
	rest = strings.TrimLeft(rest, " {")
	if strings.HasPrefix(rest, "@") { // a predicate
		_, rest, _ = strings.Cut(rest, " ")
		rest = strings.TrimLeft(rest, " ")
	}
	if i := strings.IndexAny(rest, " ;"); i >= 0 {
		return rest[:i]
	}
	return ""
}

// obey compares what kernels have with the rules.
func obey(family string, im image) (problems []error) {
	for _, arch := range embedded.machines() {
		for _, symbol := range slices.Sorted(maps.Keys(im[arch])) {
			for _, r := range rules {
				if !r.symbols.MatchString(symbol) {
					continue
				}
				has := im[arch][symbol].has
				for t := asyncLoad; t <= local; t <<= 1 {
					if r.need&t&^has != 0 {
						problems = append(problems, fmt.Errorf("%s: %s: %s lacks %s", family, arch, symbol, traitNames[t]))
					}
					if r.forbid&t&has != 0 && (t != local || stacks[symbol] == 0) {
						problems = append(problems, fmt.Errorf("%s: %s: %s has %s", family, arch, symbol, traitNames[t]))
					}
				}
			}
		}
	}
	return problems
}
