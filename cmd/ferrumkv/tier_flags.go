package main

import (
	"fmt"
	"os"

	"github.com/ferrumkv/ferrumkv/internal/hostmemory"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/disk"
	"github.com/spf13/cobra"
)

// tierFlags say what is below the device. What is not given is left to the environment.
type tierFlags struct {
	hostBytes                 string
	dir, diskBytes, admission string
}

func (f *tierFlags) registerHost(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.hostBytes, "host-bytes", "", "`BYTES` of host memory, such as 64MiB, or auto, for blocks that the device has no room for; paged only (default: what "+config.EnvHostBytes+" says, else none)")
}

func (f *tierFlags) register(cmd *cobra.Command) {
	f.registerHost(cmd)
	cmd.Flags().StringVar(&f.dir, "disk", "", "`DIR` where blocks are kept, also for the next run; paged only (default: what "+config.EnvDiskDir+" says, else none)")
	cmd.Flags().StringVar(&f.diskBytes, "disk-bytes", "", "the most `BYTES` that it takes for this model and format, such as 10GiB (default: what "+config.EnvDiskBytes+" says, else a tenth of the file system)")
	cmd.Flags().StringVar(&f.admission, "disk-admission", "", admissionUsage)
}

// admissionUsage describes --disk-admission.
var admissionUsage = fmt.Sprintf("what is written when the disk is full: %s, or what comes a second time, %s (default: %s)", disk.All, disk.SecondUse, disk.All)

// config puts the flags into a configuration.
func (f *tierFlags) config(cfg *kvcache.Config) (err error) {
	if f.dir == "" && os.Getenv(config.EnvDiskDir) == "" {
		for _, more := range [...]struct{ flag, value string }{{"disk-bytes", f.diskBytes}, {"disk-admission", f.admission}} {
			if more.value != "" {
				return fmt.Errorf("--%s %s: is for --disk", more.flag, more.value)
			}
		}
	}
	d := &cfg.Tiers.Disk
	if cfg.Tiers.HostBytes, err = parseBytes("host-bytes", f.hostBytes, "64MiB, auto", config.HostAuto); err != nil {
		return err
	}
	origin, text := "--host-bytes ", f.hostBytes
	if text == "" {
		origin, text = config.EnvHostBytes+"=", os.Getenv(config.EnvHostBytes)
	}
	n, _ := config.ParseBytes(text) // what is none in the variable is refused with all variables
	if most := hostmemory.Physical(); most > 0 && n > most {
		return fmt.Errorf("%s%s: this machine has %s of memory; name less, or auto", origin, text, byteSize(most))
	}
	if d.Bytes, err = parseBytes("disk-bytes", f.diskBytes, "10GiB", 1); err != nil {
		return err
	}
	d.Dir = f.dir
	d.Admission, err = parseAdmission(f.admission)
	return err
}

// parseBytes reads the bytes of a flag, from least on; 0: it is not given.
func parseBytes(flag, text, examples string, least int64) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := config.ParseBytes(text)
	if err != nil || n == 0 || n < least {
		return 0, fmt.Errorf("--%s %s: accepts bytes such as 1048576, %s", flag, text, examples)
	}
	return n, nil
}

func parseAdmission(text string) (disk.Admission, error) {
	switch a := disk.Admission(text); a {
	case "", disk.All, disk.SecondUse:
		return a, nil
	}
	return "", fmt.Errorf("--disk-admission %s: accepts %s and %s", text, disk.All, disk.SecondUse)
}
