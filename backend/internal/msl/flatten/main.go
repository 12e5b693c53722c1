// Flatten writes the text of every Metal kernel, as the framework's compiler gets it, to a
// folder, a file an instance, and the sum of all sources to standard output. It is for
// compilers that are asked beforehand: scripts/build-metal-library and scripts/lint-metal.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/ferrumkv/ferrumkv/backend/internal/msl"
	metalkernels "github.com/ferrumkv/ferrumkv/kernels/metal"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: flatten FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "flatten:", err)
		os.Exit(1)
	}
	fmt.Println(metalkernels.Sum())
}

func run(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	probe := metalkernels.Instance{Family: "probe"} // which no call of a cache needs
	for _, i := range append(msl.Instances(), probe) {
		text, err := i.Source()
		if err != nil {
			return err
		}
		name := i.Name
		if name == "" {
			name = i.Family
		}
		if err := os.WriteFile(filepath.Join(folder, name+".metal"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
