// Command metal-headers compares the headers that stand in for Apple's
// (kernels/simt/metal/include) with a checkout of Apple's metal-cpp:
//
//	go run ./scripts/metal-headers DIR     DIR holds metal-cpp's Metal/ and Foundation/
//
// What a declaration's comment says to be in a header of metal-cpp must be there: a method in
// its class with the types of its result and arguments, an enum with its type and values, a
// struct with its fields, a type with its base. What metal-cpp lacks names a page of
// documentation instead, and is counted.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// A fact is what a line of a header declares, spelled the same way for both sides.
type fact struct {
	header string // of metal-cpp: "MTLDevice.hpp"
	text   string // "method Device newSharedEvent SharedEvent*()"
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./scripts/metal-headers DIR, where metal-cpp lies")
		os.Exit(2)
	}
	wrong, err := run(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "metal-headers:", err)
	}
	if wrong > 0 || err != nil {
		os.Exit(1)
	}
}

// run reports every difference and returns how many there are.
func run(metalCPP string) (wrong int, err error) {
	var known []fact
	for _, folder := range []string{"Foundation", "Metal"} {
		headers, _ := filepath.Glob(filepath.Join(metalCPP, folder, "*.hpp")) // the pattern is good
		for _, name := range headers {
			text, err := os.ReadFile(name)
			if err != nil {
				return 0, err
			}
			known = append(known, defined(filepath.Base(name), string(text))...)
		}
	}
	if len(known) == 0 {
		return 0, fmt.Errorf("%s holds no metal-cpp", metalCPP)
	}
	var compared, pages int
	for _, name := range []string{"Foundation/Foundation.h", "Metal/Metal.h"} {
		text, err := os.ReadFile(filepath.Join("kernels/simt/metal/include", name))
		if err != nil {
			return 0, err
		}
		for _, f := range declared(string(text)) {
			switch {
			case f.header == page:
				pages++
				continue
			case !slices.Contains(known, f):
				wrong++
				fmt.Fprintf(os.Stderr, "%s: not in %s: %s\n", name, f.header, f.text)
			}
			compared++
		}
	}
	fmt.Printf("metal-headers: %d declarations compared with metal-cpp, %d differ; %d more name a page\n", compared, wrong, pages)
	return wrong, nil
}
