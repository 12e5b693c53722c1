// Command benchpage makes a document of what the benchmarks of a device printed: the tables between
// its marks, and what belongs beside it.
//
//	go run ./cmd/internal/benchpage docs/benchmarks/cpu.txt
//
// reads that file, and writes cpu.md, cpu-1.svg and cpu-all.svg in the same folder; of peers.txt, peers.md. Of the
// kernels of a GPU, in cuda.txt, it makes cuda.md, cuda.svg and cuda.json. Where cuda-pack.json is
// there, the results.json of an experiment pack, the document has a table of what was predicted
// and what was measured.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ferrumkv/ferrumkv/internal/pack"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: benchpage FOLDER/NAME.txt")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "benchpage:", err)
		os.Exit(1)
	}
}

// page is a run as a document shows it.
type page interface {
	// tables is what may stand between marks, by the name in the mark.
	tables() map[string]func() string
	// beside is the files that belong to the document, by what their names have in place of
	// its ".md".
	beside() map[string]string
	// empty is the document, without its tables, where there is none yet; "" where it is
	// written by hand.
	empty(name string) string
}

// write makes the files of a run.
func write(results string) error {
	files, err := made(results)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(filepath.Dir(results), name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// made is the files of a run, by name: the document with its tables replaced, and what is
// beside it.
func made(results string) (map[string]string, error) {
	printed, err := os.ReadFile(results)
	if err != nil {
		return nil, err
	}
	r, err := parse(string(printed))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", results, err)
	}
	name := strings.TrimSuffix(filepath.Base(results), ".txt")
	r.pack, err = pack.ReadResults(filepath.Join(filepath.Dir(results), name+"-pack.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	p := r.page()
	document := filepath.Join(filepath.Dir(results), name+".md")
	text, err := os.ReadFile(document)
	if errors.Is(err, fs.ErrNotExist) && p.empty(name) != "" {
		text, err = []byte(p.empty(name)), nil
	}
	if err != nil {
		return nil, err
	}
	filled, err := fill(string(text), p.tables())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", document, err)
	}
	files := map[string]string{name + ".md": filled}
	for ending, text := range p.beside() {
		files[name+ending] = text
	}
	return files, nil
}
