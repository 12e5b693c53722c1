// Command ferrumkv-nvml prints the state of this machine's NVIDIA devices as a JSON array, as
// the driver's management library reports it: temperature, power, clocks and why they are
// held back, memory errors. Where that library is missing the array is empty.
//
// It is a program of its own because its bindings, go-nvml, are heavy to compile, and
// bind symbols when they are first called: a program that is linked with -z now, as some
// hardened toolchains do, does not start with them. Link this one with
// -ldflags=-extldflags=-Wl,-z,lazy there; it needs cgo and glibc.
//
// go.mod ignores this folder, so that no pattern with ... compiles it: name it.
//
//	go install ./cmd/ferrumkv-nvml     in a checkout
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/ferrumkv/ferrumkv/internal/nvml"
	"github.com/ferrumkv/ferrumkv/internal/nvml/library"
)

func main() {
	readings, err := library.Devices()
	if err == nil {
		err = write(os.Stdout, readings)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ferrumkv-nvml:", err)
		os.Exit(1)
	}
}

// write prints the readings as nvml.Read decodes them.
func write(out io.Writer, readings []nvml.Reading) error {
	if readings == nil {
		readings = []nvml.Reading{}
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(readings)
}
