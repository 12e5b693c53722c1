package metalkernels

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/ferrumkv/ferrumkv/kernels"
)

// shared is where the headers lie that the kernels of other devices include, too.
const shared = "../"

var include = regexp.MustCompile(`^#include "([^"]+)"`)

// flattener puts every include in its place, once: a Mac compiles a text, which has no
// folder.
type flattener struct {
	to   *strings.Builder
	seen map[string]bool
}

func (f *flattener) file(name string) error {
	from, path := files, "kernels/metal/"+name
	header, isShared := strings.CutPrefix(name, shared)
	if isShared {
		from, name, path = kernels.Headers, header, "kernels/"+header
	}
	text, err := from.ReadFile(name)
	if err != nil {
		return fmt.Errorf("kernels: %w", err)
	}
	fmt.Fprintf(f.to, "#line 1 %q\n", path)
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		m := include.FindStringSubmatch(line)
		switch {
		case line == "#pragma once":
			f.to.WriteByte('\n') // every file is there once as it is
		case m == nil:
			f.to.WriteString(line + "\n")
		case f.seen[m[1]]:
			f.to.WriteByte('\n')
		default:
			f.seen[m[1]] = true
			if err := f.file(m[1]); err != nil {
				return fmt.Errorf("%s:%d: %w", path, i+1, err)
			}
			fmt.Fprintf(f.to, "#line %d %q\n", i+2, path)
		}
	}
	return nil
}
