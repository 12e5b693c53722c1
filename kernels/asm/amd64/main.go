// amd64 writes the assembly of backend/cpu for amd64: every kernel twice, with the
// instructions of AVX-512 and with those of AVX2, FMA and F16C.
//
//	go run ./amd64 ../../backend/cpu ../../internal/bench ../../cmd/internal/product ../../internal/crc32c
//
// writes NAME_amd64.s and, with the declarations of its functions, NAME_asm_amd64.go there,
// for each name in files. The second folder, which may be left out, gets the probes that
// kernels are compared with, the third one the products of the sample runner, the fourth one the sums of bytes.
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

// file is a file, and what writes its functions.
type file struct {
	name  string
	write func(*generator)
}

// files is those of the kernels.
var files = []file{
	{"convert", convert},
	{"rotate", rotate},
	{"copy", copies},
	{"score", score},
	{"mix", mix},
	{"weigh", weigh},
	{"gemm", gemm},
	{"transpose", transpose},
	{"identify", identify},
}

// packages is what the arguments name the folders of.
var packages = []struct {
	name  string
	files []file
}{{"cpu", files}, {"bench", []file{{"probe", probe}}}, {"product", []file{{"product", decoded}}}, {"crc32c", []file{{"sum", checksums}}}}

func main() {
	dirs := os.Args[1:]
	if len(dirs) < 1 || len(dirs) > len(packages) {
		fmt.Fprintln(os.Stderr, "usage: amd64 DIR [DIR OF PROBES [DIR OF PRODUCTS [DIR OF SUMS]]]")
		os.Exit(2)
	}
	for i, dir := range dirs {
		for _, f := range packages[i].files {
			if err := f.generate(dir, packages[i].name); err != nil {
				fmt.Fprintf(os.Stderr, "amd64: %s: %v\n", f.name, err)
				os.Exit(1)
			}
		}
	}
}

// generate writes the file and its declarations.
func (f file) generate(dir, pkg string) error {
	ctx := build.NewContext()
	ctx.ConstraintExpr("!noasm")
	for _, isa := range tiers {
		f.write(&generator{Context: ctx, isa: isa})
	}
	functions, err := ctx.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(functions); err != nil {
		return err
	}
	cfg := printer.Config{Name: "kernels/asm/amd64", Pkg: pkg}
	for path, p := range map[string]printer.Printer{
		f.name + "_amd64.s":      printer.NewGoAsm(cfg),
		f.name + "_asm_amd64.go": printer.NewStubs(cfg),
	} {
		text, err := p.Print(functions)
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
