package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/spf13/cobra"
)

type anyBackend = backend.Backend[backend.AnyBuffer]

// maxThreads is the most threads that the cpu backend starts.
const maxThreads = 4096

// deviceFlags choose the device and how much of the host works.
type deviceFlags struct {
	backend string
	threads int
}

func (f *deviceFlags) register(cmd *cobra.Command) {
	registerBackend(cmd, &f.backend)
	cmd.Flags().IntVarP(&f.threads, "threads", "t", 0, "`N` host threads; 0: one for each CPU")
}

func registerBackend(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "backend", "", "`NAME` of a device, as 'ferrumkv doctor' lists them (default: the best one)")
}

// open opens the device. Threads apply to the cpu backend; another device has its own units.
func (f deviceFlags) open() (backend.Backend[backend.AnyBuffer], error) {
	name := f.backend
	if f.threads < 0 || f.threads > maxThreads {
		return nil, fmt.Errorf("--threads %d: accepts 0 (one for each CPU) to %d", f.threads, maxThreads)
	}
	if name == "" {
		name = bestDevice()
	}
	if f.threads > 0 && name == "cpu" {
		name = fmt.Sprintf("cpu:threads=%d", f.threads)
	}
	if name == "" {
		return backend.Default() // says why there is none
	}
	return backend.Open(name)
}

// bestDevice is the first device that there is, by name.
func bestDevice() string {
	for _, e := range backend.List() {
		if e.Err == nil {
			return e.Name
		}
	}
	return ""
}

// heldType is the type called name, which the flag or variable origin asks for. The
// error says in what be can hold keys and values, where that is not one of them.
func heldType(be anyBackend, origin, name string) (backend.DType, error) {
	dt, err := config.ParseKVType(name)
	held := heldTypes(be.Caps())
	if err == nil && slices.Contains(held, dt.String()) {
		return dt, nil
	}
	like := map[string]string{"q8_0": "int8", "q4_0": "int4"}[strings.ToLower(name)] // llama.cpp's
	return dt, fmt.Errorf("%s%s: %s holds keys and values in %s%s", origin, name, be.Info().Name, strings.Join(held, ", "), didYouMean(like))
}

// heldTypes lists the types in which a device can hold keys and values.
func heldTypes(caps backend.Caps) []string {
	var names []string
	for dt := range backend.StorageTypes {
		for _, f := range caps.Formats {
			if f.K == dt && f.V == dt.Coding().Values {
				names = append(names, dt.String())
				break
			}
		}
	}
	return names
}
