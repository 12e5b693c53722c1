// page makes docs/benchmarks/cpu.md of what make bench-cpu printed: the tables between its
// marks, and the plots beside it.
//
//	go run ./backend/internal/cpubench/page docs/benchmarks/cpu.txt
//
// reads that file, and writes cpu.md, cpu-1.svg and cpu-all.svg in the same folder.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: page FOLDER/cpu.txt")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

// write makes a folder's files.
func write(results string) error {
	folder := filepath.Dir(results)
	files, err := made(results, filepath.Join(folder, "cpu.md"))
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// made is the files of a folder, by name: the document with its tables replaced, and the plots.
func made(results, document string) (map[string]string, error) {
	printed, err := os.ReadFile(results)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(document)
	if err != nil {
		return nil, err
	}
	r, err := parse(string(printed))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", results, err)
	}
	page, err := r.fill(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", document, err)
	}
	return map[string]string{"cpu.md": page, "cpu-1.svg": r.roofline(r.threads[0]), "cpu-all.svg": r.roofline(r.threads[len(r.threads)-1])}, nil
}
