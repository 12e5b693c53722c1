package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/states"
	"github.com/stretchr/testify/require"
)

// A directory of states is shown by identity, also while it is open, without its tokens and salts; what is damaged is an error.
func TestInspectStates(t *testing.T) {
	dir := keep(t, nil)
	s, err := states.Open(dir, states.Options{Bytes: 1 << 20, Floor: 1, Network: true})
	require.NoError(t, err)
	r := succeeds(t, "inspect", dir, "--verify")
	const state = `  [0-9a-f]{12} \d+ tokens?, target 9\.8 KiB, used 20\d\d-\d\d-\d\d \d\d:\d\d, named chat\?\[2J(, pinned)?\n`
	require.Regexp(t, `^states       version 2, in the clear, [\d.]+ KiB of files, open now
content      29\.3 KiB in 3 states, 19\.5 KiB without duplicates
(identity     model 0123456789ab, engine llama\.cpp b5000, salted
(`+state+`)+){2}verified     every chunk is as it was stored
$`, r.stdout)
	require.NotContains(t, r.stdout, "hers")
	require.NoError(t, s.Close())
	x := jsonLines(t, succeeds(t, "inspect", dir, "--json").stdout)[0]
	require.Len(t, x["states"], 3)
	require.Equal(t, false, x["open"])

	packs, err := filepath.Glob(filepath.Join(dir, "packs", "*"))
	require.NoError(t, err)
	for _, path := range packs {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		b[0] ^= 1
		require.NoError(t, os.WriteFile(path, b, 0o600))
	}
	succeeds(t, "inspect", dir)
	fails(t, []string{"inspect", dir, "--verify"}, "3 states damaged")
	require.Equal(t, exitError, inProcess("inspect", dir, "--verify", "--json").code)

	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, make([]byte, secretBytes), 0o600))
	dir = keep(t, make([]byte, secretBytes))
	require.Contains(t, succeeds(t, "inspect", dir).stdout, "give the --secret")
	require.Nil(t, jsonLines(t, succeeds(t, "inspect", dir, "--json").stdout)[0]["states"])
	fails(t, []string{"inspect", dir, "--verify"}, "is sealed; give the --secret") // nothing was verified
	require.Equal(t, exitError, inProcess("inspect", dir, "--verify", "--json").code)
	require.Contains(t, succeeds(t, "inspect", dir, "--secret", file, "--verify").stdout, "in 3 states")
}

// Other directories, and flags that are not for them, are errors that say what to do.
func TestInspectForeign(t *testing.T) {
	dir := t.TempDir()
	fails(t, []string{"inspect", dir}, "neither a directory of states nor one of --disk")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "meta.json"), []byte(`{"format":"ferrumkv states","version":7}`), 0o600))
	fails(t, []string{"inspect", dir}, "has version 7")
	fails(t, []string{"inspect", dir, "--content"}, "--content is for snapshots")
	fails(t, []string{"inspect", filepath.Join(dir, "meta.json"), "--verify"}, "--verify is for a directory")
}
