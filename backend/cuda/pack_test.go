//go:build linux && cgo && !nocuda

package cuda

import (
	"context"
	"errors"
	"fmt"
	"os"
	process "os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/pack"
)

// Where a process that runs a part of a pack finds it, and the folder of its results.
const packVariable, resultsVariable = "FERRUM_PACK", "RESULTS"

// TestPack runs the experiments of the pack that FERRUM_PACK names: see docs/kernels.md. It fails where they cannot
// run, and not where a variant is dropped.
func TestPack(t *testing.T) {
	path := os.Getenv(packVariable)
	if path == "" {
		t.Skip("FERRUM_PACK names no pack")
	}
	folder := os.Getenv(resultsVariable)
	require.NotEmpty(t, folder, "RESULTS names no folder")
	finishPack(t, path, folder, "TestPackPart", 30*time.Second)
}

// finishPack runs a pack by processes of this program that run a test. They write results.json and chosen whenever something was
// learned, so that both are there if this process is killed.
func finishPack(t *testing.T, path, folder, part string, patience time.Duration) pack.Results {
	self, err := os.Executable()
	require.NoError(t, err)
	r, err := pack.Finish(filepath.Join(folder, "results.json"), patience, func(ctx context.Context) error {
		cmd := process.CommandContext(ctx, self, "-test.run=^"+part+"$", "-test.count=1", "-test.timeout=0")
		cmd.Env = append(os.Environ(), packVariable+"="+path, resultsVariable+"="+folder, "FERRUM_TEST_CHILD=1")
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = os.Stdout, os.Stderr, time.Second
		return cmd.Run()
	}, os.Stdout)
	require.NoError(t, err)
	fmt.Println(pack.Table(r))
	return r
}

// TestPackPart runs a pack until the device is lost.
func TestPackPart(t *testing.T) {
	if os.Getenv("FERRUM_TEST_CHILD") == "" {
		t.Skip("TestPack runs it")
	}
	runPackPart(t, func(l *lab) pack.Lab { return l })
}

// runPackPart runs a pack from where its results end.
func runPackPart(t *testing.T, of func(*lab) pack.Lab) {
	path, folder := os.Getenv(packVariable), os.Getenv(resultsVariable)
	results := filepath.Join(folder, "results.json")
	p, err := pack.Read(path)
	require.NoError(t, err)
	earlier, err := pack.ReadResults(results)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	if most, err := strconv.ParseFloat(os.Getenv("FERRUM_PACK_SECONDS"), 64); err == nil {
		p.BudgetSeconds = min(p.BudgetSeconds, most)
	}
	l := newLab(t, filepath.Dir(path), p)
	l.without = os.Getenv("FERRUM_PACK_WITHOUT")
	save := func(r pack.Results) error {
		return errors.Join(r.Write(results), r.WriteChosen(filepath.Join(folder, "chosen"), p))
	}
	_, err = pack.Run(t.Context(), of(l), p, earlier, save, os.Stdout)
	require.NoError(t, err)
	l.close()
}
