package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRecordsAreKept(t *testing.T) {
	f := recordFile(t.TempDir() + "/folder/passed")
	at := time.Date(2026, 11, 23, 4, 5, 6, 0, time.UTC)
	_, ok, err := f.find("b")
	require.NoError(t, err)
	require.False(t, ok)
	b := record{name: "b", hash: "01", when: at, took: 90 * time.Second, tools: []string{"go=go version go1.26.8", "g++=12 (Debian)"}}
	a := record{name: "a", hash: "02", when: at, took: time.Second}
	require.NoError(t, f.write(b))
	require.NoError(t, f.write(a))
	all, err := f.read()
	require.NoError(t, err)
	require.Equal(t, []record{a, b}, all)
	b.hash = "03"
	require.NoError(t, f.write(b))
	all, err = f.read()
	require.NoError(t, err)
	require.Equal(t, []record{a, b}, all)
}

func TestRecordsOfManyWriters(t *testing.T) {
	f := recordFile(t.TempDir() + "/passed")
	var writers sync.WaitGroup
	for i := range 20 {
		writers.Go(func() {
			assert.NoError(t, f.write(record{name: fmt.Sprint(i), hash: "01", when: time.Unix(0, 0).UTC()}))
		})
	}
	writers.Wait()
	all, err := f.read()
	require.NoError(t, err)
	require.Len(t, all, 20)
	files, err := os.ReadDir(filepath.Dir(string(f)))
	require.NoError(t, err)
	require.Len(t, files, 1, "nothing is left beside it")
}

func TestBrokenRecordsAreNamed(t *testing.T) {
	for _, line := range []string{"a", "a\tb\tc\td", "a\t01\tyesterday\t1s\t", "a\t01\t2026-11-23T04:05:06Z\tlong\t", "a\t01\t2026-11-23T04:05:06Z\t1s\t\tmore"} {
		f := recordFile(t.TempDir() + "/passed")
		require.NoError(t, os.WriteFile(string(f), []byte(recordHead+line+"\n"), 0o644))
		_, err := f.read()
		require.ErrorContains(t, err, "passed:3: ", line)
	}
}

func TestRecordHolds(t *testing.T) {
	r := record{hash: "01", tools: []string{"go=1.26", "nvcc=11.8"}}
	versions := map[string]string{"go": "1.26"}
	version := func(tool string) string { return versions[tool] }
	require.Empty(t, r.holds("01", version), "a tool that is not here is no other one")
	require.Equal(t, "inputs changed", r.holds("02", version))
	versions["nvcc"] = "13.0"
	require.Equal(t, "another nvcc", r.holds("01", version))
}
