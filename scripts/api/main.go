// Command api lists what the packages of the library export, one line an object, so that a change of it is
// seen: docs/api.txt has the list, a test compares, and make api writes it. The list is the same
// wherever it is made. What only some platforms have is marked with these, as in the files
// of Go's own API.
//
//	go run ./scripts/api           prints the list
//	go run ./scripts/api -w        writes docs/api.txt
//	go run ./scripts/api -count    counts types and objects per package
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const golden = "docs/api.txt"

func main() {
	write := flag.Bool("w", false, "write "+golden)
	sum := flag.Bool("count", false, "count exported types and all exported objects per package")
	flag.Parse()
	if err := run(*write, *sum); err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
}

func run(write, sum bool) error {
	root, path, err := moduleOf(".")
	if err != nil {
		return err
	}
	lines, err := List(root, path)
	if err != nil {
		return err
	}
	switch {
	case sum:
		fmt.Print(count(lines))
	case write:
		return os.WriteFile(filepath.Join(root, golden), []byte(strings.Join(lines, "\n")+"\n"), 0o644)
	default:
		fmt.Println(strings.Join(lines, "\n"))
	}
	return nil
}

// count is a table of how many types each package exports, and how many objects in all: constants,
// variables, functions, methods, fields and types.
func count(lines []string) string {
	types, all := map[string]map[string]bool{}, map[string]map[string]bool{}
	var order []string
	for _, line := range lines {
		head, object, _ := strings.Cut(line, ", ")
		pkg := strings.Fields(head)[1] // without the platforms
		if all[pkg] == nil {
			order = append(order, pkg)
			types[pkg], all[pkg] = map[string]bool{}, map[string]bool{}
		}
		all[pkg][object] = true
		if rest, is := strings.CutPrefix(object, "type "); is {
			types[pkg][rest[:strings.IndexAny(rest, " [")]] = true
		}
	}
	var out strings.Builder
	sums := [2]int{}
	fmt.Fprintf(&out, "%-24s %6s %8s\n", "package", "types", "objects")
	for _, pkg := range order {
		fmt.Fprintf(&out, "%-24s %6d %8d\n", pkg, len(types[pkg]), len(all[pkg]))
		sums[0] += len(types[pkg])
		sums[1] += len(all[pkg])
	}
	fmt.Fprintf(&out, "%-24s %6d %8d\n", "together", sums[0], sums[1])
	return out.String()
}
