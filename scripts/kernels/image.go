package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// code is one kernel in the machine code of one architecture.
type code struct {
	threads, shared int // as the source declares its launch
	usage
	contents
}

// usage is what a thread and a block of it take, as the assembler counted.
type usage struct {
	registers, stack, local, static int // bytes, but for the registers
}

// image is what a fat binary holds: for each architecture its kernels by symbol, nil
// for PTX.
type image map[string]map[string]code

// inspect takes a fat binary apart.
func inspect(fatbin []byte) (image, error) {
	tmp, err := os.MkdirTemp("", "kernels")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	whole := filepath.Join(tmp, "image.fatbin")
	if err := os.WriteFile(whole, fatbin, 0o644); err != nil {
		return nil, err
	}
	if _, err := output(tmp, "cuobjdump", "-xelf", "all", "-xptx", "all", whole); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(tmp)
	if err != nil {
		return nil, err
	}
	im := image{}
	for _, f := range files {
		// image.1.sm_90.cubin; PTX for compute_90 is called image.1.sm_90.ptx.
		parts := strings.Split(f.Name(), ".")
		arch := parts[len(parts)-2]
		if parts[len(parts)-1] == "fatbin" {
			continue
		}
		if parts[len(parts)-1] == "ptx" {
			im[strings.Replace(arch, "sm", "compute", 1)] = nil
			continue
		}
		if im[arch], err = kernels(filepath.Join(tmp, f.Name())); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	return im, nil
}

// cudaEntry marks the symbol of a kernel among functions (STO_CUDA_ENTRY).
const cudaEntry = 0x10

// kernels reads a cubin: its entry points, their launches, resources and instructions.
func kernels(cubin string) (map[string]code, error) {
	object, err := os.ReadFile(cubin)
	if err != nil {
		return nil, err
	}
	if len(object) < 24 {
		return nil, fmt.Errorf("%d bytes are no object file", len(object))
	}
	// Where ELF has its version a cubin has its compiler's, which debug/elf refuses.
	binary.LittleEndian.PutUint32(object[20:], uint32(elf.EV_CURRENT))
	file, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		return nil, err
	}
	symbols, err := file.Symbols()
	if err != nil {
		return nil, err
	}
	text, err := output("", "cuobjdump", "-res-usage", cubin)
	if err != nil {
		return nil, err
	}
	used, err := usages(string(text))
	if err != nil {
		return nil, err
	}
	text, err = output("", "nvdisasm", "-c", "-ndf", cubin)
	if err != nil {
		return nil, err
	}
	has, err := instructions(text)
	if err != nil {
		return nil, err
	}
	found := map[string]code{}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Other&cudaEntry == 0 {
			continue
		}
		u, ok := used[s.Name]
		if !ok {
			return nil, fmt.Errorf("cuobjdump -res-usage does not name kernel %s", s.Name)
		}
		in, ok := has[s.Name]
		if !ok {
			return nil, fmt.Errorf("nvdisasm does not name kernel %s", s.Name)
		}
		c := code{usage: u, contents: in}
		if c.threads, c.shared, err = launch(file, symbols, s.Name); err != nil {
			return nil, err
		}
		found[s.Name] = c
	}
	return found, nil
}

// launch reads the two words that FKV_KERNEL keeps for a kernel.
func launch(file *elf.File, symbols []elf.Symbol, kernel string) (threads, shared int, err error) {
	name := kernel + "_launch"
	i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == name })
	if i < 0 {
		return 0, 0, fmt.Errorf("no %s: was the kernel declared with FKV_KERNEL?", name)
	}
	s := symbols[i]
	if int(s.Section) >= len(file.Sections) || s.Size != 8 {
		return 0, 0, fmt.Errorf("%s is not two words", name)
	}
	words := make([]byte, s.Size)
	if _, err := file.Sections[s.Section].ReadAt(words, int64(s.Value)); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", name, err)
	}
	return int(file.ByteOrder.Uint32(words)), int(file.ByteOrder.Uint32(words[4:])), nil
}

var resources = regexp.MustCompile(`Function ([^\s:]+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)`)

// usages reads what cuobjdump -res-usage prints of a cubin.
func usages(text string) (map[string]usage, error) {
	used := map[string]usage{}
	for _, m := range resources.FindAllStringSubmatch(text, -1) {
		var n [4]int
		for i := range n {
			var err error
			if n[i], err = strconv.Atoi(m[i+2]); err != nil {
				return nil, fmt.Errorf("%s: %w", m[1], err)
			}
		}
		used[m[1]] = usage{registers: n[0], stack: n[1], static: n[2], local: n[3]}
	}
	if len(used) != strings.Count(text, "Function ") {
		return nil, fmt.Errorf("cuobjdump -res-usage prints what is not understood here:\n%s", text)
	}
	return used, nil
}
