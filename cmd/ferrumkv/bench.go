package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv/internal/bench"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/spf13/cobra"
)

// benchFlags are the settings of bench.
type benchFlags struct {
	backend string
	lists   benchLists
	budget  time.Duration
	memory  int64 // MiB
	json    bool
	model   modelBench
}

func newBench() *cobra.Command {
	var f benchFlags
	var about []string
	for _, k := range kernels {
		about = append(about, fmt.Sprintf("  %-8s %s", k.name, k.what))
	}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the cache's kernels against the machine's memory bandwidth, or a whole model",
		Long: `bench runs kernels on one layer of a cache and says which fraction of the memory
bandwidth they reach. The bandwidth is measured in the same run, alternating with
the kernel; attention is compared with reading, append with copying (bytes read and
written), on a GPU both with copying. Flags take lists; every combination is a row.

With --model it measures tokens a second of a whole model, as llama-bench does: pp512 computes
a prompt of 512 tokens, tg128 decodes 128 tokens, and -p, -n, -r, -t, --layout and
--kv-dtype say other numbers, and lists of them.

` + strings.Join(about, "\n"),
		Example: `  ferrumkv bench
  ferrumkv bench --kernel attend --layout paged --block-size 8,16,32 --context 1024,8192
  ferrumkv bench --backend metal:0 --batch 1,8
  ferrumkv bench --kv-dtype f32,f16 --threads 1,2 --json > rows.jsonl

  # pp512 and tg128 of a model
  ferrumkv bench -m Llama-3.2-1B -t 1,2`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags, l := cmd.Flags(), &f.lists
	registerBackend(cmd, &f.backend)
	flags.StringSliceVar(&l.kernels, "kernel", []string{"attend", "prefill", "append"}, "kernels")
	flags.StringSliceVar(&l.dtypes, "kv-dtype", []string{"f16"}, "storage types of keys and values")
	flags.StringSliceVar(&l.layouts, "layout", []string{"contiguous", "paged"}, "layouts")
	flags.IntSliceVar(&l.batch, "batch", []int{1}, "sequences")
	flags.IntSliceVarP(&l.context, "context", "c", []int{4096}, "tokens of each sequence")
	flags.IntSliceVar(&l.qHeads, "q-heads", []int{32}, "query heads")
	flags.IntSliceVar(&l.kvHeads, "kv-heads", []int{8}, "key and value heads")
	flags.IntSliceVar(&l.headDim, "head-dim", []int{128}, "elements of a head")
	flags.IntSliceVar(&l.blockSize, "block-size", []int{16}, "tokens of a block, paged only")
	flags.IntSliceVarP(&l.threads, "threads", "t", []int{0}, "host threads; 0: one for each CPU")
	flags.DurationVar(&f.budget, "time", 2*time.Second, "about how long to measure a row")
	flags.Int64Var(&f.memory, "footprint", 512, "`MiB` that the calls go through before they use any of it again; more than the processor's caches hold, at most a quarter of the memory")
	flags.BoolVar(&f.json, "json", false, "print one JSON object for each row")
	f.model.register(cmd)
	return cmd
}

func (f benchFlags) run(cmd *cobra.Command) error {
	// The flags leave nothing to the environment, but a bad value is an error everywhere.
	if _, err := config.ParseEnvironment(os.LookupEnv); err != nil {
		return err
	}
	if err := f.model.check(cmd.Flags().Changed); err != nil {
		return err
	}
	if f.model.model != "" {
		return f.model.run(cmd, f)
	}
	shapes, err := f.lists.shapes()
	if err != nil {
		return err
	}
	var selected []kernel
	for _, name := range f.lists.kernels {
		k, err := kernelByName(name)
		if err != nil {
			return err
		}
		selected = append(selected, k)
	}
	if f.budget <= 0 {
		return fmt.Errorf("--time %s: need more than 0", f.budget)
	}
	if f.memory < 1 || f.memory > 1<<20 {
		return fmt.Errorf("--footprint %d: accepts 1 to %d", f.memory, 1<<20)
	}
	table := benchTable{out: cmd.OutOrStdout()}
	b := benchmark{cmd: cmd, budget: f.budget, footprint: f.memory << 20, progress: newProgress(cmd.ErrOrStderr()), write: table.write}
	if f.json {
		b.write = func(r row) error { return writeJSON(cmd.OutOrStdout(), r) }
	}
	for _, threads := range f.lists.threads {
		if err := b.device(deviceFlags{f.backend, threads}, shapes, selected); err != nil {
			return err
		}
	}
	return nil
}

// benchmark is the measurement on one device.
type benchmark struct {
	cmd       *cobra.Command
	budget    time.Duration
	footprint int64 // bytes
	progress  *progress
	write     func(row) error
	be        anyBackend
	cache     *bench.Cache
}

func (b *benchmark) device(f deviceFlags, shapes []shape, selected []kernel) (err error) {
	if b.be, err = f.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.be.Close()) }()
	if info := b.be.Info(); isStandIn(info) {
		fmt.Fprintf(b.cmd.ErrOrStderr(), "note: %s only stands in for a GPU; the figures say nothing about one\n", info.Name)
	}
	for i := range shapes {
		kv, err := heldType(b.be, "--kv-dtype ", shapes[i].DType)
		if err != nil {
			return err
		}
		if !kv.Float() {
			return fmt.Errorf("--kv-dtype %s: is not measured; accepts f32, f16, bf16", shapes[i].DType)
		}
		shapes[i].DType = kv.String() // one spelling
	}
	stream, err := b.be.NewStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	if b.cache, err = bench.NewCache(b.be, stream, b.footprint); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.cache.Close()) }()
	for _, s := range shapes { // rather than after hours of measuring
		if err := s.affordable(b.be.Info(), selected); err != nil {
			return err
		}
	}
	for _, s := range shapes {
		s.Threads = b.be.Info().ComputeUnits
		if err := b.shape(s, selected); err != nil {
			return err
		}
	}
	return nil
}

func (b *benchmark) shape(s shape, selected []kernel) error {
	defer b.progress.clear()
	of, err := s.cache()
	if err != nil {
		return err
	}
	for _, k := range selected {
		b.progress.show("measuring %s, %s, %d x %d tokens", k.name, s.Layout, s.Batch, s.Context)
		out := row{Kernel: k.name, shape: s, Bytes: s.bytes(of, k)}
		var got bench.Result
		if k.queries > 0 {
			got, err = b.cache.Attend(b.cmd.Context(), of, min(k.queries, s.Context), b.budget)
		} else {
			got, err = b.cache.Append(b.cmd.Context(), of, b.budget)
		}
		if err != nil {
			return err
		}
		out.Seconds, out.LimitGBps = got.Seconds, got.Limit/1e9
		out.GBps = float64(out.Bytes) / out.Seconds / 1e9
		out.Fraction = out.GBps / out.LimitGBps
		b.progress.clear()
		if err := b.write(out); err != nil {
			return err
		}
	}
	return nil
}

// benchTable prints rows for people, each as soon as it is measured.
type benchTable struct {
	out   io.Writer
	begun bool
}

func (t *benchTable) write(r row) error {
	if !t.begun {
		t.begun = true
		if _, err := fmt.Fprintf(t.out, "%-8s %-5s %-11s %5s %8s %7s %4s %5s %7s %10s %8s %8s %9s\n",
			"kernel", "dtype", "layout", "batch", "context", "heads", "dim", "block", "threads", "time", "GB/s", "limit", "fraction"); err != nil {
			return err
		}
	}
	block := "-"
	if r.BlockSize > 0 {
		block = fmt.Sprint(r.BlockSize)
	}
	_, err := fmt.Fprintf(t.out, "%-8s %-5s %-11s %5d %8d %7s %4d %5s %7d %10s %8.2f %8.1f %8.1f%%\n",
		r.Kernel, r.DType, r.Layout, r.Batch, r.Context, fmt.Sprintf("%d/%d", r.QHeads, r.KVHeads), r.HeadDim, block,
		r.Threads, seconds(r.Seconds), r.GBps, r.LimitGBps, 100*r.Fraction)
	return err
}
