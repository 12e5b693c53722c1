package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/spf13/cobra"
)

// Variables of the CPU and CUDA backends; envCUDADriver names the file that is opened in place of NVIDIA's driver library.
const (
	envCPUKernels      = "FERRUM_CPU_KERNELS"
	envCUDADriver      = "FERRUM_CUDA_DRIVER"
	envCUDAPinnedBytes = "FERRUM_CUDA_PINNED_BYTES"
)

// envAPIKey is the key that clients of serve send.
const envAPIKey = "FERRUM_API_KEY"

// variables are the environment variables that the library and this program read.
var variables = []string{config.EnvPaged, config.EnvCapacity, config.EnvMaxSeqs, config.EnvMaxBlocks, config.EnvDType, config.EnvPrefix,
	config.EnvHostBytes, config.EnvDiskDir, config.EnvDiskBytes, envCPUKernels, envCUDADriver, envCUDAPinnedBytes, envAPIKey}

// variablesOfTests are the beginnings, after FERRUM_, of those that tests and tools have besides.
var variablesOfTests = []string{"TEST_", "SIMT_", "PACK", "PEERS_", "CUDA_TOOLKIT"}

// unknownVariables are the variables of an environment that look like ours and that nothing reads, each with the one that may have been meant.
func unknownVariables(environment []string) (out []string) {
	for _, v := range environment {
		name, _, _ := strings.Cut(v, "=")
		rest, ours := strings.CutPrefix(name, "FERRUM_")
		known := !ours || slices.Contains(variables, name) ||
			slices.ContainsFunc(variablesOfTests, func(beginning string) bool { return strings.HasPrefix(rest, beginning) })
		if !known {
			out = append(out, name+" is not a variable of this program"+didYouMean(closest(name, variables)))
		}
	}
	slices.Sort(out)
	return out
}

// checkSet names variables that are set and do nothing, before a command runs, and refuses paths that are empty.
func checkSet(cmd *cobra.Command, _ []string) error {
	for _, name := range []string{"model", "save", "api-key-file"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
			return fmt.Errorf("--%s: is empty, such as from a variable that is not set; name a path, or leave the flag out", name)
		}
	}
	for _, unknown := range unknownVariables(os.Environ()) {
		fmt.Fprintln(cmd.ErrOrStderr(), "note: "+unknown)
	}
	return nil
}
