package metalkernels

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/ferrumkv/ferrumkv/kernels"
)

// abiInclude is how the kernels include the one header that lies elsewhere.
const abiInclude = "../abi.h"

var include = regexp.MustCompile(`^#include "([^"]+)"`)

// flattener puts every include in its place, once: a Mac compiles a text, which has no
// folder.
type flattener struct {
	to   *strings.Builder
	seen map[string]bool
}

func (f *flattener) file(name string) error {
	text, path := kernels.ABI, "kernels/abi.h"
	if name != abiInclude {
		data, err := files.ReadFile(name)
		if err != nil {
			return fmt.Errorf("kernels: %w", err)
		}
		text, path = string(data), "kernels/metal/"+name
	}
	fmt.Fprintf(f.to, "#line 1 %q\n", path)
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
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
