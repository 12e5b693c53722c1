package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The committed files are what the header generates.
func TestUpToDate(t *testing.T) {
	text, err := os.ReadFile("../../../../kernels/abi.h")
	require.NoError(t, err)
	h, err := Parse(string(text))
	require.NoError(t, err)
	for file, emit := range map[string]func(*Header) ([]byte, error){"abi.go": Source, "header_test.go": Tables} {
		want, err := emit(h)
		require.NoError(t, err)
		have, err := os.ReadFile(filepath.Join("..", file))
		require.NoError(t, err)
		require.Equal(t, string(want), string(have), "%s is stale: go generate ./backend/internal/abi", file)
	}
	have, err := os.ReadFile("../../../../kernels/storage.h")
	require.NoError(t, err)
	require.Equal(t, string(Storages()), string(have), "storage.h is stale: go generate ./backend/internal/abi")
}

var spaces = regexp.MustCompile(` +`) // of aligned fields

func TestParse(t *testing.T) {
	h, err := Parse(`/* Top. */
#ifndef GUARD
#define GUARD
#include <stdint.h>

/* The version. */
#define FKV_ABI_VERSION 0x10

/*
 * Two
 * lines.
 */
enum { FKV_A_K, FKV_A_ROPE };

struct fkv_a_args {
    uint32_t size; /* own */
    uint32_t rope_dims;
    int64_t k_stride, lse; /* from one
                              row to the next */
    float scale;
    uint32_t pad;
};
#endif
`)
	require.NoError(t, err)
	require.Equal(t, []Decl{
		{Doc: "The version.", Names: []string{"FKV_ABI_VERSION"}, Value: "0x10"},
		{Doc: "Two\nlines.", Names: []string{"FKV_A_K", "FKV_A_ROPE"}},
		{Names: []string{"fkv_a_args"}, Lines: []Line{
			{Names: []string{"size"}, Type: "uint32_t", Note: "own"},
			{Names: []string{"rope_dims"}, Type: "uint32_t"},
			{Names: []string{"k_stride", "lse"}, Type: "int64_t", Note: "from one row to the next"},
			{Names: []string{"scale"}, Type: "float"},
			{Names: []string{"pad"}, Type: "uint32_t"},
		}},
	}, h.Decls)
	require.Equal(t, 32, h.Decls[2].Size())
	source, err := Source(h)
	require.NoError(t, err)
	for _, want := range []string{"Version = 0x10", "ARoPE\n", "RoPEDims uint32", "KStride, LSE int64 // from one row to the next", "MaxArgs = 32"} {
		require.Contains(t, spaces.ReplaceAllString(string(source), " "), want)
	}
}

func TestRejected(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"gap":             {"struct fkv_a_args { uint32_t size; int64_t n; };", "n at offset 4 leaves a gap"},
		"odd size":        {"struct fkv_a_args { uint32_t size; };", "4 bytes: append a field pad"},
		"empty":           {"struct fkv_a_args { };", "0 bytes"},
		"no size":         {"struct fkv_a_args { uint32_t n, m; };", "first field"},
		"size of 64 bits": {"struct fkv_a_args { int64_t size; };", "first field"},
		"double":          {"struct fkv_a_args { uint32_t size, n; double d; };", "type double"},
		"pointer":         {"struct fkv_a_args { uint32_t size, n; float *p; };", "not understood"},
		"array":           {"struct fkv_a_args { uint32_t size, n[3]; };", "not understood"},
		"nested":          {"struct fkv_a_args { uint32_t size, n; struct fkv_b b; };", "type struct"},
		"bit field":       {"struct fkv_a_args { uint32_t size : 4; };", "not understood"},
		"field twice":     {"struct fkv_a_args { uint32_t size, size; };", "a second size"},
		"struct twice":    {"struct fkv_a { uint32_t n, m; };\nstruct fkv_a { uint32_t n, m; };", "line 2: a second fkv_a"},
		"clash in Go":     {"enum { FKV_A };\n#define FKV_ABI_A 1", "a second FKV_ABI_A (A in Go)"},
		"enum value":      {"enum { FKV_A = 3 };", "not understood"},
		"foreign name":    {"enum { A };", "begin with FKV_"},
		"define of text":  {"#define FKV_A \"a\"", "no number"},
		"define of 64":    {"#define FKV_A 0x100000000", "no number"},
		"macro":           {"#define FKV_A(x) x", "FKV_A(x)"},
		"condition":       {"#if FKV_A", "#if FKV_A is not understood"},
		"typedef":         {"typedef int fkv_t;", "\"typedef\" begins no"},
		"cut off":         {"struct fkv_a_args { uint32_t size,", "want a name"},
		"open comment":    {"/* never closed", "not understood"},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := Parse(c.text)
			require.ErrorContains(t, err, c.want)
			require.Nil(t, h)
		})
	}
}
