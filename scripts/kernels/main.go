// Kernels compiles the CUDA kernels of kernels/cuda and checks what was compiled:
//
//	go run ./scripts/kernels build [-a]
//	go run ./scripts/kernels check [-toolkit]
//	go run ./scripts/kernels variant [-o build/variants] [-pack pack.json] [NAME...]
//
// Variants are sources that are not chosen yet, listed in kernels/cuda/variants/variants.json: each is compiled into a
// folder that a program opens in place of the kernels it has embedded. Without names all are.
//
// Building needs the CUDA toolkit, 12.4 or newer (scripts/unpack-cuda-toolkit), and zstd; so do variants and
// check -toolkit, which reads the machine code. All run in the repository's root.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("kernels: say build, check or variant")
	}
	flags := flag.NewFlagSet("kernels "+args[0], flag.ExitOnError)
	dir := flags.String("dir", "kernels/cuda", "folder of the kernels")
	jobs := flags.Int("j", runtime.NumCPU(), "families at work at a time")
	switch args[0] {
	case "build":
		all := flags.Bool("a", false, "compile also what has not changed")
		flags.Parse(args[1:])
		return build(*dir, *all, *jobs)
	case "check":
		toolkit := flags.Bool("toolkit", false, "read the machine code, too")
		flags.Parse(args[1:])
		return check(*dir, *toolkit, *jobs)
	case "variant":
		out := flags.String("o", "build/variants", "folder for a folder of each variant")
		file := flags.String("pack", "", "write what is asked of the variants there, too (internal/pack)")
		flags.Parse(args[1:])
		if err := installed.variants(*dir, *out, flags.Args(), *jobs); err != nil || *file == "" {
			return err
		}
		return writePack(*dir, *file, flags.Args())
	}
	return fmt.Errorf("kernels: %q is neither build, check nor variant", args[0])
}
