package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/llama"
	"github.com/ferrumkv/ferrumkv/kvcache"
	modeldata "github.com/ferrumkv/ferrumkv/testdata/model"
	"github.com/spf13/cobra"
)

// doctorFlags describe the cache whose configuration is shown; without any it is
// that of the embedded model.
type doctorFlags struct {
	layers, qHeads, kvHeads, headDim int
	cache                            cacheFlags
	json                             bool
}

// diagnosis is what doctor finds, as --json prints it.
type diagnosis struct {
	Version  string          `json:"version"`
	CPUs     int             `json:"cpus"`
	Backends []backendStatus `json:"backends"`
	Cache    cacheStatus     `json:"cache"`
}

// backendStatus is one device, or a kind of device that is missing and why.
type backendStatus struct {
	Name        string `json:"name"`
	Available   bool   `json:"available"`
	Why         string `json:"why,omitempty"` // it is not
	Device      string `json:"device,omitempty"`
	Units       int    `json:"units,omitempty"`
	TotalMemory int64  `json:"total_memory,omitempty"`
	FreeMemory  int64  `json:"free_memory,omitempty"`
	KVTypes     string `json:"kv_types,omitempty"`
}

// cacheStatus is the configuration that a program would get.
type cacheStatus struct {
	Model         string          `json:"model"`
	Error         string          `json:"error,omitempty"`
	Settings      []settingStatus `json:"settings,omitempty"`
	BytesPerToken int64           `json:"bytes_per_token,omitempty"`
	Bytes         int64           `json:"bytes,omitempty"`
}

type settingStatus struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	Source   string `json:"source"`
	Variable string `json:"variable,omitempty"`
}

func newDoctor() *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show devices, their memory, and the configuration with its origins",
		Long: `doctor shows every backend, with the reason where one is not available, and the
configuration that a cache would get: each value, and whether the program, an
environment variable or a default set it. A variable with a bad value is an error.
A model runner may lower the capacity to what its model was made for.`,
		Example: `  ferrumkv doctor
  FERRUM_METAL_PAGED_KV=1 ferrumkv doctor

  # how large is the cache of a model with 32 layers and 8 KV heads of 128?
  ferrumkv doctor --layers 32 --q-heads 32 --kv-heads 8 --head-dim 128`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	for _, n := range []struct {
		to         *int
		name, what string
	}{
		{&f.layers, "layers", "layers"}, {&f.qHeads, "q-heads", "query heads"},
		{&f.kvHeads, "kv-heads", "key and value heads"}, {&f.headDim, "head-dim", "elements of a head"},
	} {
		flags.IntVar(n.to, n.name, 0, n.what+" (default: the embedded model's)")
	}
	f.cache.register(cmd)
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	return cmd
}

func (f doctorFlags) run(cmd *cobra.Command) error {
	d := diagnosis{Version: version(), CPUs: runtime.NumCPU()}
	for _, e := range backend.List() {
		d.Backends = append(d.Backends, examine(e))
	}
	var bad error
	if d.Cache, bad = f.configuration(); bad != nil {
		d.Cache.Error = bad.Error()
	}
	write := d.write
	if f.json {
		write = func(w io.Writer) error { return writeJSON(w, d) }
	}
	return errors.Join(write(cmd.OutOrStdout()), bad)
}

// examine opens a device for a moment, to ask what it is.
func examine(e backend.Entry) backendStatus {
	s := backendStatus{Name: e.Name}
	err := e.Err
	if err == nil {
		var be backend.Backend[backend.AnyBuffer]
		if be, err = backend.Open(e.Name); err == nil {
			info := be.Info()
			s.Device, s.Units, s.TotalMemory, s.FreeMemory = info.Device, info.Units, info.TotalMemory, info.FreeMemory
			s.KVTypes = dtypesOf(be.Caps())
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

// configuration resolves what the flags leave open.
func (f doctorFlags) configuration() (cacheStatus, error) {
	var s cacheStatus
	cfg, err := f.cache.config()
	if err != nil {
		return s, err
	}
	cfg.Layers, cfg.QHeads, cfg.KVHeads, cfg.HeadDim = f.layers, f.qHeads, f.kvHeads, f.headDim
	if err := embeddedShape(&cfg); err != nil {
		return s, err
	}
	s.Model = fmt.Sprintf("%d layers, %d query heads, %d KV heads of %d", cfg.Layers, cfg.QHeads, cfg.KVHeads, cfg.HeadDim)
	if cfg, err = cfg.Resolve(); err != nil {
		return s, f.cache.explain(err)
	}
	for _, set := range cfg.Settings() {
		s.Settings = append(s.Settings, settingStatus{set.Name, set.Value, set.Source.String(), set.Variable})
	}
	if s.BytesPerToken, err = cfg.BytesPerToken(); err != nil {
		return s, err
	}
	s.Bytes, err = cfg.Bytes()
	return s, err
}

// embeddedShape fills in the embedded model's shape where cfg has none.
func embeddedShape(cfg *kvcache.Config) error {
	m, _, err := llama.LoadFS(modeldata.Files, ".")
	if err != nil {
		return err
	}
	for _, field := range []struct {
		to   *int
		from int
	}{{&cfg.Layers, len(m.Layers)}, {&cfg.QHeads, m.Heads}, {&cfg.KVHeads, m.KVHeads}, {&cfg.HeadDim, m.HeadDim}} {
		if *field.to == 0 {
			*field.to = field.from
		}
	}
	return nil
}

// write prints the diagnosis for people.
func (d diagnosis) write(out io.Writer) error {
	var w strings.Builder
	fmt.Fprintf(&w, "%s, %d CPUs\n\nbackends\n", d.Version, d.CPUs)
	for _, b := range d.Backends {
		if !b.Available {
			fmt.Fprintf(&w, "  %-8s not available: %s\n", b.Name, b.Why)
			continue
		}
		fmt.Fprintf(&w, "  %-8s %s, %d units, %s, keys and values in %s\n", b.Name, b.Device, b.Units, b.memory(), b.KVTypes)
	}
	d.Cache.write(&w)
	_, err := io.WriteString(out, w.String())
	return err
}

func (c cacheStatus) write(w *strings.Builder) {
	fmt.Fprintf(w, "\ncache, for %s\n", c.Model)
	if c.Error != "" {
		fmt.Fprintf(w, "  error: %s\n", c.Error)
		return
	}
	for _, s := range c.Settings {
		line := fmt.Sprintf("  %-16s %-11s %-12s %s", s.Name, s.Value, s.Source, s.Variable)
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	fmt.Fprintf(w, "  %-16s %s\n  %-16s %s\n", "bytes of a token", byteSize(c.BytesPerToken), "bytes of all", byteSize(c.Bytes))
}

func (b backendStatus) memory() string {
	if b.TotalMemory == 0 {
		return "memory unknown"
	}
	return fmt.Sprintf("%s of %s free", byteSize(b.FreeMemory), byteSize(b.TotalMemory))
}
