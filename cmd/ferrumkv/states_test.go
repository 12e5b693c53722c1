package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/states"
	"github.com/stretchr/testify/require"
)

// keep stores three states, of two salts.
func keep(t *testing.T, secret []byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "states")
	s, err := states.Open(dir, states.Options{Bytes: 1 << 20, Floor: 1, Network: true, Secret: secret})
	require.NoError(t, err)
	for i, salt := range []string{"hers", "hers", "his"} {
		k := states.Key{Identity: states.Identity{Model: "0123456789abcdef", Engine: "llama.cpp", Version: "b5000", Salt: salt}, Name: "chat\x1b[2J", Tokens: make([]uint32, 100*i)}
		_, err := s.Put(t.Context(), k, states.PutOptions{Pin: i == 1}, states.Source{Name: "target", Content: bytes.NewReader(make([]byte, 10_000))})
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	return dir
}

func TestStates(t *testing.T) {
	secret := make([]byte, secretBytes)
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, secret, 0o600))
	for _, given := range [][]string{nil, {"--secret", file}} {
		var key []byte
		if given != nil {
			key = secret
		}
		dir := keep(t, key)
		r := succeeds(t, append([]string{"states", "list", dir}, given...)...)
		require.Regexp(t, `^state        model        engine               name                  tokens      bytes  last use
([0-9a-f]{12} 0123456789ab llama.cpp b5000      chat\?\[2J            +\d+    9\.8 KiB  20\d\d-\d\d-\d\d \d\d:\d\d(, pinned)?
){3}29\.3 KiB of 3 states in \d\d\.0 KiB
$`, r.stdout)
		list := jsonLines(t, succeeds(t, append([]string{"states", "list", dir, "--json"}, given...)...).stdout)[0]
		require.Len(t, list["states"], 3)
		require.NotContains(t, r.stdout+r.stderr, "hers")

		require.Contains(t, succeeds(t, append([]string{"states", "clear", dir, "--salt", "none"}, given...)...).stdout, "removed 0 states, 0 B")
		require.Contains(t, succeeds(t, append([]string{"states", "clear", dir, "--unused", "1h"}, given...)...).stdout, "removed 0 states, 0 B")
		require.Contains(t, succeeds(t, append([]string{"states", "clear", dir, "--salt", "hers"}, given...)...).stdout, "removed 2 states")
		require.Regexp(t, `removed 1 state, .*; 0 B left`, succeeds(t, append([]string{"states", "clear", dir}, given...)...).stdout)
	}
}

// list changes nothing, also where states are damaged, of which it tells, and where a program has the directory open; clear does not while one has.
func TestStatesLook(t *testing.T) {
	dir := keep(t, nil)
	s, err := states.Open(dir, states.Options{Bytes: 1 << 20, Floor: 1, Network: true})
	require.NoError(t, err)
	require.Regexp(t, `29\.3 KiB of 3 states in \d\d\.0 KiB, open now\n$`, succeeds(t, "states", "list", dir).stdout)
	fails(t, []string{"states", "clear", dir}, "is open in a program, which has to end first")
	_, err = s.Put(t.Context(), states.Key{Name: "short"}, states.PutOptions{TTL: time.Hour}, states.Source{Name: "target", Content: bytes.NewReader(nil)})
	require.NoError(t, err)
	require.Regexp(t, `short +0 +0 B  [-0-9]{10} [0-9:]{5}, until [-0-9]{10} [0-9:]{5}\n`, succeeds(t, "states", "list", dir).stdout)
	require.NoError(t, s.Close())
	manifests, err := filepath.Glob(filepath.Join(dir, "states", "*"))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(manifests[0], 100))
	for range 2 {
		fails(t, []string{"states", "list", dir}, "1 state damaged")
		require.Equal(t, exitError, inProcess("states", "list", dir, "--json").code)
	}
	after, err := filepath.Glob(filepath.Join(dir, "states", "*"))
	require.NoError(t, err)
	require.Equal(t, manifests, after)
	fails(t, []string{"states", "list", keep(t, make([]byte, secretBytes))}, "is sealed; give the --secret")
}

// clear without --unused removes all, also what a clock that was wrong says was used later than now; --unused is as that of cache clear.
func TestStatesClearTimes(t *testing.T) {
	dir := keep(t, nil)
	manifests, err := filepath.Glob(filepath.Join(dir, "states", "*"))
	require.NoError(t, err)
	for i, path := range manifests {
		at := time.Now().Add(time.Hour)
		if i == 0 {
			at = time.Now().Add(-31 * 24 * time.Hour)
		}
		require.NoError(t, os.Chtimes(path, at, at))
	}
	require.Contains(t, succeeds(t, "states", "clear", dir, "--unused", "32d").stdout, "removed 0 states")
	require.Contains(t, succeeds(t, "states", "clear", dir, "--unused", "30d").stdout, "removed 1 state,")
	require.Regexp(t, `removed 2 states, .*; 0 B left`, succeeds(t, "states", "clear", dir).stdout)
}

// What is no directory of states, is sealed, or is open, is refused, and is as it was.
func TestStatesRefuses(t *testing.T) {
	empty := t.TempDir()
	for _, args := range [][]string{{"states", "list"}, {"states", "list", empty}, {"states", "clear", filepath.Join(empty, "none")}, {"states", "clear", empty, "--unused", "-1h"}} {
		require.Equal(t, exitError, inProcess(args...).code, args)
	}
	all, err := os.ReadDir(empty)
	require.NoError(t, err)
	require.Empty(t, all)
	dir := keep(t, make([]byte, secretBytes))
	r := inProcess("states", "clear", dir)
	require.Contains(t, r.stderr, "is sealed")
	s, err := states.Open(dir, states.Options{Secret: make([]byte, secretBytes), Floor: 1, Bytes: 1 << 20, Network: true})
	require.NoError(t, err)
	require.Equal(t, 3, s.Stats().States)
	require.Contains(t, inProcess("states", "list", dir, "--secret", "none").stderr, "none")
	require.NoError(t, s.Close())
}
