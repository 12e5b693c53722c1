package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
)

// Whatever the compiler reads for one half of kernels/simt counts for that half: what is left out
// is the other's alone. In full tests the builds with sanitizers are looked at, too.
func TestHalvesOfTheStandIn(t *testing.T) {
	t.Chdir("../..")
	variants := "VARIANTS=plain"
	if testsize.Full() {
		variants = "VARIANTS=plain asan tsan"
	}
	for _, half := range []struct {
		target, compiler string
		counts           []string
		own, shared      string // files that are read for it
	}{
		{"inputs", "g++", simtCUDA, "kernels/simt/test/cuda/planted/planted.h", "kernels/simt/test/rig.h"},
		{"inputs-metal", "clang++-19", simtMetal, "kernels/simt/test/metal/launch.h", "kernels/simt/test/append_test.cpp"},
	} {
		t.Run(half.target, func(t *testing.T) {
			if runtime.GOOS != "linux" {
				t.Skip("the stand-ins are built on Linux")
			}
			for _, tool := range []string{"make", half.compiler} {
				if _, err := exec.LookPath(tool); err != nil {
					t.Skip(err)
				}
			}
			rules, err := output("make", "-s", "-C", "kernels/simt", half.target, variants)
			require.NoError(t, err)
			included := sourcesOf(t, rules)
			for _, f := range []string{half.own, half.shared} {
				require.Contains(t, included, f)
				require.Equal(t, []string{f}, uncounted(t, included, append(slices.Clone(half.counts), ":(exclude)"+f)), "a file that does not count is found")
			}
			require.Empty(t, uncounted(t, included, half.counts), "the compiler reads them, and they do not count")
		})
	}
}

// sourcesOf is the files of this repository in rules that a compiler wrote, sorted.
func sourcesOf(t *testing.T, rules string) (files []string) {
	root, err := os.Getwd()
	require.NoError(t, err)
	for _, word := range strings.Fields(rules) {
		if rel, err := filepath.Rel(root, filepath.Clean(word)); err == nil && filepath.IsLocal(rel) {
			files = append(files, filepath.ToSlash(rel))
		}
	}
	slices.Sort(files)
	files = slices.Compact(files)
	require.Greater(t, len(files), 100, "of both kernels and tests: %v", files)
	return files
}

// uncounted is the files that pathspecs leave out. As in a hash, go.mod is with them: where all paths
// begin with one folder and an exclusion does not, git finds nothing.
func uncounted(t *testing.T, files, specs []string) []string {
	counted, err := tracked(append([]string{"go.mod"}, specs...))
	require.NoError(t, err)
	return slices.DeleteFunc(slices.Clone(files), func(f string) bool { return slices.Contains(counted, f) })
}
