package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/spf13/cobra"
)

func newCache() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "List, bound and clear what --disk left in a directory",
		Long: `cache shows what a directory of --disk, or of FERRUM_KV_DISK_DIR, has for all models
and formats, each of which has a folder of its own there, and removes it. Nothing is lost
but the time to compute it again.`,
		Example: `  ferrumkv cache list --disk ~/.cache/ferrumkv

  # what was not used last, until all together is no more than 20 GiB
  ferrumkv cache clear --disk ~/.cache/ferrumkv --keep 20GiB

  # what was not used for 30 days
  ferrumkv cache clear --disk ~/.cache/ferrumkv --unused 30d`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCacheList(), newCacheClear())
	return cmd
}

// cacheDir is the directory that is looked into.
type cacheDir struct{ dir string }

func (d *cacheDir) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.dir, "disk", "", "`DIR` that generate and chat were given by --disk (default: what "+config.EnvDiskDir+" says)")
}

// caches are those of the directory; an error for one that has other things, and nothing of ours.
func (d *cacheDir) caches() ([]*diskCache, error) {
	if d.dir = cmp.Or(d.dir, os.Getenv(config.EnvDiskDir)); d.dir == "" {
		return nil, errors.New("no directory; name one with --disk, or set " + config.EnvDiskDir)
	}
	caches, err := diskCaches(d.dir)
	if err != nil {
		return nil, fmt.Errorf("--disk: %w", err)
	}
	if len(caches) > 0 {
		return caches, nil
	}
	if _, ok := readDiskCache(filepath.Clean(d.dir)); ok {
		return nil, fmt.Errorf("--disk %s: has the blocks of one model; name the directory that it is in", d.dir)
	}
	if others, err := os.ReadDir(d.dir); err != nil || len(others) > 0 {
		return nil, errors.Join(err, fmt.Errorf("--disk %s: has files, and none that --disk wrote", d.dir))
	}
	return nil, nil
}

// bytesOf is what caches take together.
func bytesOf(caches []*diskCache) (sum int64) {
	for _, c := range caches {
		sum += c.Bytes
	}
	return sum
}

func newCacheList() *cobra.Command {
	var d cacheDir
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show what a directory has, the least recently used first",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			caches, err := d.caches()
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), map[string]any{"dir": d.dir, "bytes": bytesOf(caches), "caches": append([]*diskCache{}, caches...)})
			}
			return d.list(cmd, caches)
		},
	}
	d.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// list prints a table for people.
func (d *cacheDir) list(cmd *cobra.Command, caches []*diskCache) error {
	var w strings.Builder
	if len(caches) > 0 {
		fmt.Fprintf(&w, "%-20s %-12s %6s  %-28s %8s %10s  %s\n", "folder", "model", "layers", "format", "blocks", "bytes", "last use")
	}
	for _, c := range caches {
		blocks := fmt.Sprint(c.Blocks)
		if c.Blocks < 0 {
			blocks = "sealed"
		}
		use := c.LastUse.Format("2006-01-02 15:04")
		if c.Open {
			use += ", open now"
		}
		fmt.Fprintf(&w, "%-20s %-12.12s %6s  %-28s %8s %10s  %s\n", c.Folder, c.About["digest"], c.About["layers"], c.format(), blocks, byteSize(c.Bytes), use)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s%s in %s\n", w.String(), byteSize(bytesOf(caches)), count(len(caches), "folder"))
	return err
}

// clearFlags say what is removed; all, where none is given.
type clearFlags struct {
	cacheDir
	unused time.Duration
	keep   string
}

func newCacheClear() *cobra.Command {
	var f clearFlags
	cmd := &cobra.Command{
		Use:   "clear",
		Short: "Remove what a directory has, all or what was not used lately",
		Long: `clear removes all folders of a directory that --disk made, or with --unused those that
were not used for a time, and with --keep those that were not used for longest until the
others take no more bytes. What a process has open stays, and so does what others put there.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.register(cmd)
	cmd.Flags().Var((*age)(&f.unused), "unused", "what was not used for a `TIME` such as 30d or 12h")
	cmd.Flags().StringVar(&f.keep, "keep", "", "what was not used for longest, until the rest takes at most `BYTES`, such as 20GiB")
	return cmd
}

func (f *clearFlags) run(cmd *cobra.Command) error {
	keep, err := parseBytes("keep", f.keep, "20GiB", 1)
	if err != nil {
		return err
	}
	if f.unused < 0 {
		return fmt.Errorf("--unused %v: need a time from 0 on", f.unused)
	}
	caches, err := f.caches()
	if err != nil {
		return err
	}
	all := f.keep == "" && !cmd.Flags().Changed("unused")
	left, removed, open := bytesOf(caches), int64(0), 0
	n := 0
	for _, c := range caches {
		old := cmd.Flags().Changed("unused") && time.Since(c.LastUse) >= f.unused
		if !all && !old && (f.keep == "" || left <= keep) {
			continue
		}
		if c.Open {
			open++
			continue
		}
		bytes, failed := c.remove()
		if removed, left = removed+bytes, left-bytes; failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		n++
	}
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "removed %s, %s; %s left\n", count(n, "folder"), byteSize(removed), byteSize(left)); err != nil {
		return err
	}
	if open > 0 {
		err = errors.Join(err, fmt.Errorf("%s stayed, which another process has open; end that, and try again", count(open, "folder")))
	}
	return err
}
