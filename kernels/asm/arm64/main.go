// arm64 writes the assembly of backend/cpu for arm64, with the instructions of NEON.
//
//	go run ./arm64 ../../backend/cpu
//
// writes NAME_arm64.s and, with the declarations of its functions, NAME_asm_arm64.go there,
// for each name in files.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// files is what writes each file's functions.
var files = []struct {
	name  string
	write func(*generator)
}{
	{"score", score},
	{"mix", mix},
	{"weigh", weigh},
	{"gemm", gemm},
	{"convert", convert},
	{"integers", integers},
	{"rotate", rotate},
	{"quantize", quantize},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: arm64 DIR")
		os.Exit(2)
	}
	for _, f := range files {
		if err := generate(os.Args[1], f.name, f.write); err != nil {
			fmt.Fprintf(os.Stderr, "arm64: %s: %v\n", f.name, err)
			os.Exit(1)
		}
	}
}

// generate writes one file and its declarations.
func generate(dir, name string, write func(*generator)) error {
	g := newGenerator()
	write(g)
	for path, text := range map[string]string{
		name + "_arm64.s":      g.text.String(),
		name + "_asm_arm64.go": g.stubs.String(),
	} {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
