package disk

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// old makes directories older than what may be new.
func old(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		at := time.Now().Add(-2 * youngest)
		require.NoError(t, os.Chtimes(dir, at, at))
	}
}

// What a killed Measure left goes with the next use of the place, whatever that is, once nobody can be about to use it.
func TestMeasureKilled(t *testing.T) {
	base := t.TempDir()
	for use, do := range map[string]func() error{
		"Prepare": func() error { return Prepare(base) },
		"Open": func() error {
			d, err := Open(onDisk(base))
			if err == nil {
				err = d.Close()
			}
			return err
		},
		"Measure": func() error {
			_, err := Measure(ctx, Options{Dir: base, Payload: 20_000, Floor: 1})
			return err
		},
	} {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), "FERRUM_TEST_CHILD="+measureIn+base)
		require.NoError(t, c.Start())
		var left []string
		require.Eventually(t, func() bool {
			left, _ = filepath.Glob(filepath.Join(base, "measure-*", "data"))
			return len(left) == 1
		}, time.Minute, 100*time.Microsecond)
		dir := filepath.Dir(left[0])
		old(t, dir)
		if runtime.GOOS == "linux" { // it is locked before there is data, and elsewhere a file more may make it new again
			require.NoError(t, Prepare(base))
			require.DirExists(t, dir, "a process has it open")
		}
		require.NoError(t, c.Process.Kill())
		require.Error(t, c.Wait(), "it was killed")
		require.DirExists(t, dir)
		now := time.Now()
		require.NoError(t, os.Chtimes(dir, now, now))
		require.NoError(t, do(), use)
		require.DirExists(t, dir, "it may be one that is not locked yet")
		old(t, dir)
		require.NoError(t, do(), use)
		require.NoDirExists(t, dir, use)
	}
}

// What is not certainly a tier's stays, and what somebody has open.
func TestMeasureLeavesOthersAlone(t *testing.T) {
	base := t.TempDir()
	at := func(path ...string) string { return filepath.Join(append([]string{base}, path...)...) }
	file := func(text string, path ...string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Dir(at(path...)), 0o700))
		require.NoError(t, os.WriteFile(at(path...), []byte(text), 0o600))
	}
	tiers := func(path ...string) *Tier { // with blocks
		t.Helper()
		o := onDisk(at(path...))
		if path[0] != "measure-12" {
			o.Namespace.About = map[string]string{purpose: "may be removed"}
		}
		d, err := Open(o)
		require.NoError(t, err)
		require.NoError(t, d.Put(ctx, chainOf(1, 5)))
		return d
	}
	in := tiers("measure-1") // open
	require.NoError(t, tiers("measure-x").Close())
	require.NoError(t, tiers("measure-").Close())
	require.NoError(t, tiers("other-2").Close())
	require.NoError(t, tiers("measure-12").Close()) // a tier's, with a name like that
	require.NoError(t, tiers("measure-3").Close())
	file("mine", "measure-3", "notes")
	require.NoError(t, tiers("measure-4").Close())
	require.NoError(t, os.Mkdir(at("measure-4", "more"), 0o700))
	file("mine", "measure-5", "data")
	file(`{"format":"mine","about":{"to measure the disk":"x"}}`, "measure-6", "meta.json")
	file("mine", "measure-7")
	require.NoError(t, tiers("measure-8").Close())
	require.NoError(t, os.Rename(at("measure-8", "lock"), at("measure-8", "meta.json.1")))
	if runtime.GOOS != "windows" {
		require.NoError(t, os.Symlink(at("other-2"), at("measure-9")))
		require.NoError(t, tiers("measure-10").Close())
		require.NoError(t, os.Chmod(at("measure-10"), 0o770))
		require.NoError(t, tiers("measure-11").Close())
		require.NoError(t, os.Chmod(at("measure-11", "lock"), 0o666))
	}
	all, err := filepath.Glob(at("*"))
	require.NoError(t, err)
	old(t, all...)
	before := names(t, base)
	require.NoError(t, Prepare(base))
	require.Equal(t, before, names(t, base))
	require.Len(t, found(t, in, 5), 5)
	require.NoError(t, in.Close())

	old(t, at("measure-1"))
	require.NoError(t, os.Mkdir(at("measure-20"), 0o700)) // killed at once
	file("", "measure-21", "lock")                        // a little later
	file("", "measure-22", "lock")
	file("", "measure-22", "table")
	file(`{"form`, "measure-22", newMeta)
	old(t, at("measure-20"), at("measure-21"), at("measure-22"))
	require.NoError(t, Prepare(base))
	for _, n := range []string{"measure-1", "measure-20", "measure-21", "measure-22"} {
		require.NoDirExists(t, at(n))
	}
	require.Len(t, names(t, at("other-2")), 5, "what a link leads to is as it was")
}

// What a process that was killed left of a meta.json is replaced by the next one's.
func TestMetaHalfWritten(t *testing.T) {
	o := onDisk(t.TempDir())
	for _, text := range []string{"", `{"format":`} {
		require.NoError(t, os.WriteFile(filepath.Join(o.Dir, newMeta), []byte(text), 0o600))
		d, err := Open(o)
		require.NoError(t, err)
		require.NoError(t, d.Close())
		require.NoFileExists(t, filepath.Join(o.Dir, newMeta))
		for _, f := range []string{"meta.json", "table", "data"} {
			require.NoError(t, os.Remove(filepath.Join(o.Dir, f)))
		}
	}
}
