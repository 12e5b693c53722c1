package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A model that loads fast shows no bar; that of another one has bytes, and is written where its percentage changes.
func TestLoadBar(t *testing.T) {
	var shown strings.Builder
	bar := &loadBar{line: &progress{out: &shown}, begin: time.Now()}
	bar.show(1<<29, 1<<30)
	require.Empty(t, shown.String())
	bar.begin = bar.begin.Add(-time.Second)
	bar.show(1<<29, 1<<30)
	bar.show(1<<29+1, 1<<30)
	require.Equal(t, "\rloading 512.0 MiB of 1.0 GiB [###############...............]  50%", shown.String())
}
