// arm64 writes the assembly of backend/cpu for arm64, with the instructions of NEON.
//
//	go run ./arm64 ../../backend/cpu ../../cmd/internal/product
//
// writes NAME_arm64.s and, with the declarations of its functions, NAME_asm_arm64.go there,
// for each name in files. The second folder gets the products of the sample runner.
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
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: arm64 DIR DIR OF PRODUCTS")
		os.Exit(2)
	}
	for _, f := range files {
		must(f.name, generate(os.Args[1], "cpu", f.name, f.write))
	}
	must("product", generate(os.Args[2], "product", "product", weights))
}

// must ends the program where a file could not be written.
func must(name string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "arm64: %s: %v\n", name, err)
		os.Exit(1)
	}
}

// generate writes one file and its declarations.
func generate(dir, pkg, name string, write func(*generator)) error {
	g := newGenerator(pkg)
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
