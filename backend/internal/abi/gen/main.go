// Gen writes the Go side of kernels/abi.h, the package's source and the tables its layout test
// compares with the compilers, and the C side of storage.go.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	header := flag.String("header", "", "the header to read")
	source := flag.String("go", "", "where the structs and constants go")
	test := flag.String("test", "", "where the tables of the layout test go")
	storage := flag.String("storage", "", "where the words of storage types go, for C")
	flag.Parse()
	if err := run(*header, *source, *test, *storage); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(header, source, test, storage string) error {
	text, err := os.ReadFile(header)
	if err != nil {
		return err
	}
	h, err := Parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", header, err)
	}
	for path, emit := range map[string]func(*Header) ([]byte, error){source: Source, test: Tables} {
		out, err := emit(h)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, out, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(storage, Storages(), 0o644)
}
