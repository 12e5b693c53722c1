package main

import (
	"fmt"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/spf13/cobra"
)

// deviceFlags choose the device and how much of the host works.
type deviceFlags struct {
	backend string
	threads int
}

func (f *deviceFlags) register(cmd *cobra.Command) {
	registerBackend(cmd, &f.backend)
	cmd.Flags().IntVar(&f.threads, "threads", 0, "`N` host threads; 0: one for each CPU")
}

func registerBackend(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "backend", "", "`NAME` of a device, as 'ferrumkv doctor' lists them (default: the best one)")
}

// open opens the device. Threads apply to the cpu backend; another device has its own units.
func (f deviceFlags) open() (backend.Backend[backend.AnyBuffer], error) {
	name := f.backend
	if f.threads < 0 {
		return nil, fmt.Errorf("--threads %d: accepts 0 (all) and positive numbers", f.threads)
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

// checkKVType is an error that says what the device can hold, where it cannot hold
// keys and values in kv; an unset kv is left to the library.
func checkKVType(be backend.Backend[backend.AnyBuffer], act, kv backend.DType) error {
	caps := be.Caps()
	if kv == backend.Invalid || caps.Supports(backend.Format{Act: act, K: kv, V: kv}) {
		return nil
	}
	return fmt.Errorf("--kv-dtype %s: %s holds keys and values in %s", kv, be.Info().Name, dtypesOf(caps))
}

// dtypesOf lists the types in which a device can hold keys and values.
func dtypesOf(caps backend.Caps) string {
	var names []string
	for dt := backend.F32; dt <= backend.Int4; dt++ {
		for _, f := range caps.Formats {
			if f.K == dt && f.V == dt {
				names = append(names, dt.String())
				break
			}
		}
	}
	return strings.Join(names, ", ")
}
