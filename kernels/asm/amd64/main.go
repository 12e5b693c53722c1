// amd64 writes the assembly of backend/cpu for amd64: every kernel twice, with the
// instructions of AVX-512 and with those of AVX2, FMA and F16C.
//
//	go run ./amd64 ../../backend/cpu
//
// writes NAME_amd64.s and, with the declarations of its functions, NAME_asm_amd64.go there,
// for each name in files.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

// files is what writes each file's functions.
var files = []struct {
	name  string
	write func(*generator)
}{
	{"convert", convert},
	{"score", score},
	{"gemm", gemm},
	{"transpose", transpose},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: amd64 DIR")
		os.Exit(2)
	}
	for _, f := range files {
		if err := generate(os.Args[1], f.name, f.write); err != nil {
			fmt.Fprintf(os.Stderr, "amd64: %s: %v\n", f.name, err)
			os.Exit(1)
		}
	}
}

// generate writes one file and its declarations.
func generate(dir, name string, write func(*generator)) error {
	ctx := build.NewContext()
	ctx.ConstraintExpr("!noasm")
	for _, isa := range tiers {
		write(&generator{Context: ctx, isa: isa})
	}
	file, err := ctx.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return err
	}
	cfg := printer.Config{Name: "kernels/asm/amd64", Pkg: "cpu"}
	for path, p := range map[string]printer.Printer{
		name + "_amd64.s":      printer.NewGoAsm(cfg),
		name + "_asm_amd64.go": printer.NewStubs(cfg),
	} {
		text, err := p.Print(file)
		if err != nil {
			return err
		}
		text = append(bytes.TrimRight(text, "\n"), '\n')
		if err := os.WriteFile(filepath.Join(dir, path), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
