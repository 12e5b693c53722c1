package main

import (
	"bytes"
	"fmt"
	"regexp"
)

var (
	entry       = regexp.MustCompile(`^\.visible \.entry (\w+)\(`)
	launchWords = regexp.MustCompile(`^(?:\.visible )?\.global [^\[]* (\w+)_launch\[8\]`)
	attention   = regexp.MustCompile(`^fkv_(attend_\w+?_(\d+)_(\d+))$`)
)

// familyOf is the module that a kernel of a file is in. An attention kernel has one of its own: a device
// without machine code compiles all of a module for one kernel of it.
func familyOf(file, symbol string) string {
	if m := attention.FindStringSubmatch(symbol); m != nil {
		return m[1]
	}
	return file
}

// divide makes of PTX that nvcc wrote one module for each family of its kernels. What is neither a
// kernel nor the words of a kernel's launch is in all of them.
func divide(ptx []byte, family func(symbol string) string) (map[string][]byte, error) {
	parts := map[string]*bytes.Buffer{}
	for line := range bytes.Lines(ptx) {
		if m := entry.FindSubmatch(line); m != nil {
			parts[family(string(m[1]))] = new(bytes.Buffer)
		}
	}
	current, depth := "", 0 // the family that a line is of, "" for all; open braces of its kernel
	for line := range bytes.Lines(ptx) {
		if m := entry.FindSubmatch(line); m != nil {
			if current != "" {
				return nil, fmt.Errorf("kernel %s begins inside of another", m[1])
			}
			current = family(string(m[1]))
		}
		of := current
		if m := launchWords.FindSubmatch(line); m != nil {
			of = family(string(m[1]))
		}
		for name, part := range parts {
			if of == "" || of == name {
				part.Write(line)
			}
		}
		if current != "" { // inline assembly may have braces at the begin of lines, too
			depth += bytes.Count(line, []byte("{")) - bytes.Count(line, []byte("}"))
			if depth == 0 && bytes.HasPrefix(line, []byte("}")) {
				current = ""
			}
		}
	}
	if current != "" {
		return nil, fmt.Errorf("the last kernel, of %s, has no end", current)
	}
	modules := map[string][]byte{}
	for name, part := range parts {
		modules[name] = part.Bytes()
	}
	return modules, nil
}
