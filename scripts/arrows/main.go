// Arrows counts how the files of a package depend on each other. An arrow is a name of one file that
// another one uses. Files are put in the order in which the fewest arrows run back up, that is from
// a file to one that stands after it: a reader of files in this order meets names before their uses, but for
// those. It prints the order, with how many arrows come from each file and run back up from it, and
// those names. With -most N it fails if more than N run back up.
//
//	go run ./scripts/arrows -most 10 ./kvcache
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

func main() {
	most := flag.Int("most", -1, "fail if more arrows run back up; −1: never")
	quiet := flag.Bool("q", false, "print the sums alone")
	flag.Parse()
	up, err := run(flag.Arg(0), *quiet)
	if err == nil && *most >= 0 && up > *most {
		err = fmt.Errorf("%d arrows run back up, at most %d may", up, *most)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "arrows:", err)
		os.Exit(1)
	}
}

func run(dir string, quiet bool) (up int, err error) {
	if dir == "" {
		return 0, fmt.Errorf("name a package's folder")
	}
	g, err := Load(dir)
	if err != nil {
		return 0, err
	}
	order := g.Order()
	back := g.Back(order)
	if !quiet {
		for _, f := range order {
			var names []string
			for _, a := range back {
				if a.From == f {
					names = append(names, a.Name+" ("+a.To+")")
				}
			}
			slices.Sort(names)
			fmt.Printf("%-24s %3d  %2d  %s\n", f, g.from(f), len(names), strings.Join(names, ", "))
		}
	}
	fmt.Printf("%s: %d files, %d arrows, %d run back up\n", dir, len(order), len(g.Arrows), len(back))
	return len(back), nil
}
