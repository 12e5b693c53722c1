package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What the table names exists: scripts, targets, paths, and packages; each check can be recorded
// by its target.
func TestTable(t *testing.T) {
	t.Chdir("../..")
	makefile, err := os.ReadFile("Makefile")
	require.NoError(t, err)
	seen := map[string]bool{}
	in := newInputs()
	for _, c := range table {
		require.False(t, seen[c.name], "%s twice", c.name)
		seen[c.name] = true
		require.NotEmpty(t, c.what, c.name)
		require.NotZero(t, c.takes, c.name)
		for _, p := range append(c.paths, c.command[0]) {
			if strings.HasPrefix(p, "scripts/") {
				info, err := os.Stat(p)
				require.NoError(t, err, c.name)
				require.False(t, info.IsDir())
			}
		}
		for _, p := range c.paths {
			if !strings.HasPrefix(p, ":(exclude") {
				files, err := tracked([]string{p})
				require.NoError(t, err)
				require.NotEmpty(t, files, "%s: %s", c.name, p)
			}
		}
		if c.command[0] == "make" {
			for _, target := range c.command[1:] {
				if !strings.Contains(target, "=") {
					require.Regexp(t, "(?m)^"+regexp.QuoteMeta(target)+":", string(makefile), c.name)
				}
			}
		}
		if c.when != onChange {
			continue
		}
		require.Contains(t, c.tools, "go", c.name)
		require.NotEmpty(t, append(c.packages, c.paths...), "%s depends on nothing", c.name)
		require.Regexp(t, "(?m)^"+c.name+": ##", string(makefile), "make %s records", c.name)
		_, err := in.hash(c)
		require.NoError(t, err, c.name)
		if _, err := exec.LookPath("make"); err == nil && slices.Contains(c.tools, "clang++-19") {
			recipe, err := output("make", "-n", c.name)
			require.NoError(t, err)
			require.Contains(t, recipe, "scripts/install-metal-toolchain\n", "make %s brings its compiler", c.name)
		}
	}
}

// A change of the processor's kernels leaves the records of GPUs as they are: nothing that their
// tests and benchmarks import imports them.
func TestNoCheckOfAGPUDependsOnTheCPU(t *testing.T) {
	t.Chdir("../..")
	in := newInputs()
	for _, c := range table {
		if c.when != onChange || !strings.HasPrefix(c.name, "test-cuda") && !strings.HasPrefix(c.name, "test-metal") {
			continue
		}
		own, imported, err := in.packageFolders(c)
		require.NoError(t, err)
		require.NotContains(t, append(own, imported...), "backend/cpu", c.name)
	}
}

// What documents say of a night is the sum of the table, on two lanes.
func TestEstimateOfANight(t *testing.T) {
	var all time.Duration
	for _, c := range table {
		all += c.takes
	}
	for file, says := range map[string]string{
		"docs/checks.md": fmt.Sprintf("is %.0f minutes of a lane, of which there are two: %.0f minutes", all.Minutes(), all.Minutes()/2),
		"Makefile":       fmt.Sprintf("(an estimate: %.0f minutes on two quiet cores)", all.Minutes()/2),
	} {
		text, err := os.ReadFile("../../" + file)
		require.NoError(t, err)
		require.True(t, strings.Contains(strings.Join(strings.Fields(string(text)), " "), says), "%s: want %q", file, says)
	}
}

// Each check is in a part of the workflow of the night, and in one only.
func TestEveryCheckRunsAtNight(t *testing.T) {
	workflow, err := os.ReadFile("../../.github/workflows/nightly.yml")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^ +only: \[(.*)\]`).FindSubmatch(workflow)
	require.NotNil(t, line)
	parts := regexp.MustCompile(`"([^"]+)"`).FindAllSubmatch(line[1], -1)
	for _, c := range table {
		in := 0
		for _, part := range parts {
			names, err := begins(string(part[1]))
			require.NoError(t, err)
			if names.MatchString(c.name) {
				in++
			}
		}
		require.Equal(t, 1, in, c.name)
	}
}
