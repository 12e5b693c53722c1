package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/spf13/cobra"
)

// doctorFlags describe the cache whose configuration is shown; without any it is
// that of the embedded model.
type doctorFlags struct {
	backend                          string
	layers, qHeads, kvHeads, headDim int
	cache                            cacheFlags
	room                             roomFlags
	file                             string    // of the configuration; empty: flags make one
	model                            string    // folder whose config.json says what the layers are
	tiers                            tierFlags // host memory alone
	disk                             string    // directory that is measured
	json                             bool
}

// diagnosis is what doctor finds, as --json prints it.
type diagnosis struct {
	Version    string          `json:"version"`
	CPUs       int             `json:"cpus"`
	CUDADriver string          `json:"cuda_driver,omitempty"` // of envCUDADriver
	Backends   []backendStatus `json:"backends"`
	Cache      cacheStatus     `json:"cache"`
	Unknown    []string        `json:"unknown_variables,omitempty"` // set, and read by nothing
	Disk       *diskStatus     `json:"disk,omitempty"`              // with --disk
	Problems   []string        `json:"problems"`                    // why the cache could not be made, or the disk not be used
}

// backendStatus is one device, or a kind of device that is missing and why.
type backendStatus struct {
	Name        string   `json:"name"`
	Available   bool     `json:"available"`
	Why         string   `json:"why,omitempty"` // it is not
	Device      string   `json:"device,omitempty"`
	Kernels     string   `json:"kernels,omitempty"`
	Units       int      `json:"units,omitempty"`
	TotalMemory int64    `json:"total_memory,omitempty"`
	FreeMemory  int64    `json:"free_memory,omitempty"`
	PinnedLimit int64    `json:"pinned_limit,omitempty"` // bytes of host memory that the device copies by itself
	KVTypes     []string `json:"kv_types,omitempty"`
	Driver      string   `json:"driver,omitempty"`
	Bus         string   `json:"bus,omitempty"`
	Condition   string   `json:"condition,omitempty"`
	StandIn     bool     `json:"stand_in,omitempty"`
	Shared      bool     `json:"shared_memory,omitempty"` // the device is a GPU whose memory is the host's
}

func newDoctor() *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show devices, their memory, and the configuration with its origins",
		Long: `doctor shows every backend, with the reason where one is not available, and the
configuration that a cache would get: each value, and whether an option, the model,
an environment variable or a default set it. A variable with a bad value is an error,
and so is a cache that the device cannot hold, the best one or that of --backend.
Without flags it is a cache for the embedded model, whose capacity is at most what that
was made for; generate makes one for its prompts alone, as far as variables leave that
open. Of another model only the shape is known, and its runner may lower the capacity too.
--context sizes the cache of one text, as generate does.

With tiers below the device, of --host-bytes or the variables, the layout is paged, and its
origin says so; a device whose memory is the host's has no tier of host memory.

--disk writes some 128 MiB to a directory in blocks of that cache, reads them and
removes them. It says below which rate of computing prompts it is faster to load them
from there, and refuses what a tier would refuse.`,
		Example: `  ferrumkv doctor
  FERRUM_METAL_PAGED_KV=1 ferrumkv doctor

  # does the cache of the embedded model fit the first NVIDIA device, or the GPU of a Mac?
  ferrumkv doctor --backend cuda:0
  ferrumkv doctor --backend metal:0

  # how large is the cache of a model with 32 layers and 8 KV heads of 128?
  ferrumkv doctor --layers 32 --q-heads 32 --kv-heads 8 --head-dim 128

  # what becomes of the config.json of a model, or of a configuration of the cache?
  ferrumkv doctor --model gemma-3-1b
  ferrumkv doctor --config gemma.json

  # is it worth keeping the blocks of a model on the disk of a directory?
  ferrumkv doctor --model gemma-3-1b --disk ~/.cache/ferrumkv`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	registerBackend(cmd, &f.backend)
	flags.IntVar(&f.layers, "layers", 0, "layers (default: the embedded model's)")
	flags.IntVar(&f.qHeads, "q-heads", 0, "query heads (default: the embedded model's)")
	flags.IntVar(&f.kvHeads, "kv-heads", 0, "key and value heads (default: the embedded model's)")
	flags.IntVar(&f.headDim, "head-dim", 0, "elements of a head (default: the embedded model's)")
	f.cache.register(cmd)
	f.room.register(cmd, "8 sequences of 4096")
	f.tiers.registerHost(cmd)
	flags.StringVar(&f.file, "config", "", "`FILE` with a configuration as JSON (kvcache.ParseConfig), in place of the model and flags")
	flags.StringVarP(&f.model, "model", "m", "", "`PATH` of a model, whose layers and masks are shown in place of the embedded model's, also where generate does not run it: a folder with config.json, or a .gguf file, of which the header is read")
	flags.StringVar(&f.disk, "disk", "", "`DIR` whose disk is measured with the cache's blocks, as a place for them; it is left as it was")
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	return cmd
}

func (f doctorFlags) run(cmd *cobra.Command) error {
	d := diagnosis{Version: version(), CPUs: runtime.NumCPU(), CUDADriver: os.Getenv(envCUDADriver), Problems: []string{}, Unknown: unknownVariables(os.Environ())}
	for _, e := range backend.List() {
		d.Backends = append(d.Backends, examine(e))
	}
	d.readConditions(cmd.Context())
	problems, err := d.Cache.on(f, cmd.Flags().Changed)
	if err != nil {
		d.Cache.Error = err.Error()
		problems = []error{err}
	}
	for _, p := range problems {
		d.Problems = append(d.Problems, p.Error())
	}
	if f.disk != "" && d.Cache.Error == "" {
		d.Disk = &diskStatus{}
		if err := d.Disk.on(cmd.Context(), f.disk, &d.Cache); err != nil {
			d.Problems, problems = append(d.Problems, err.Error()), append(problems, err)
		}
	}
	if err := cmd.Context().Err(); err != nil {
		return err // what was not looked at is no problem
	}
	if f.json {
		return errors.Join(writeJSON(cmd.OutOrStdout(), d), errors.Join(problems...))
	}
	err = d.write(cmd.OutOrStdout()) // without problems, which are errors of the program
	return errors.Join(err, errors.Join(problems...))
}

// examine opens a device for a moment, to ask what it is.
func examine(e backend.Entry) backendStatus {
	s := backendStatus{Name: e.Name, Driver: e.Driver, Bus: e.Bus}
	err := e.Err
	if err == nil {
		var be backend.Backend[backend.AnyBuffer]
		if be, err = backend.Open(e.Name); err == nil {
			info := be.Info()
			s.Device, s.Kernels, s.Units, s.TotalMemory, s.FreeMemory = info.Device, info.Kernels, info.ComputeUnits, info.TotalMemory, info.FreeMemory
			s.KVTypes, s.StandIn, s.PinnedLimit = heldTypes(be.Caps()), isStandIn(info), info.Host.Limit
			s.Shared = info.HostVisible && e.Name != "cpu"
			err = be.Close()
		}
	}
	var unavailable backend.ErrUnavailable
	switch {
	case errors.As(err, &unavailable):
		s.Why = unavailable.Why
	case err != nil:
		s.Why = err.Error()
	}
	s.Available = err == nil
	return s
}

// isStandIn reports whether a device only stands in for a GPU, as the driver of
// kernels/simt says in its devices' names.
func isStandIn(device backend.Info) bool { return strings.Contains(device.Device, "simt") }

// write prints the diagnosis for people.
func (d diagnosis) write(out io.Writer) error {
	var w strings.Builder
	fmt.Fprintf(&w, "%s, %s\n\nbackends\n", d.Version, count(d.CPUs, "CPU"))
	for _, b := range d.Backends {
		if !b.Available {
			fmt.Fprintf(&w, "  %-8s not available: %s\n", b.Name, b.Why)
			continue
		}
		fmt.Fprintln(&w, wrapped(fmt.Sprintf("  %-8s %s, %d units, %s, keys and values in ", b.Name, b.Device, b.Units, b.memory()), b.KVTypes, 11))
		for _, more := range b.details() {
			fmt.Fprintf(&w, "  %-8s %s\n", "", more)
		}
	}
	if d.CUDADriver != "" {
		fmt.Fprintf(&w, "  %s names %s, which is opened in place of the system's libcuda.so.1\n", envCUDADriver, d.CUDADriver)
	}
	if d.Cache.Error == "" {
		d.Cache.write(&w)
	}
	if d.Disk != nil && d.Disk.Error == "" {
		d.Disk.write(&w)
	}
	_, err := io.WriteString(out, w.String())
	return err
}

// details are the lines below that of a device.
func (b backendStatus) details() []string {
	var lines []string
	if b.Kernels != "" {
		lines = append(lines, "kernels: "+b.Kernels)
	}
	if b.Driver != "" {
		lines = append(lines, "driver: "+b.Driver)
	}
	if b.PinnedLimit > 0 {
		lines = append(lines, "host memory: up to "+byteSize(b.PinnedLimit)+" is pinned for copies, more is copied twice")
	}
	if b.Condition != "" {
		lines = append(lines, "condition: "+b.Condition)
	}
	if b.StandIn {
		lines = append(lines, "not a GPU: a stand-in that runs a GPU's kernels on the CPU, for tests")
	}
	if b.Shared {
		lines = append(lines, "no tier in host memory: it is the device's own, and what is kept there takes as much from it; a disk adds room")
	}
	return lines
}

// memory claims nothing about use by others where the device counts only its own,
// which is none yet.
func (b backendStatus) memory() string {
	switch {
	case b.TotalMemory == 0:
		return "memory unknown"
	case b.FreeMemory == 0 || byteSize(b.FreeMemory) == byteSize(b.TotalMemory): // but for a page
		return byteSize(b.TotalMemory) + " of memory"
	}
	return fmt.Sprintf("%s of %s of memory free", byteSize(b.FreeMemory), byteSize(b.TotalMemory))
}
