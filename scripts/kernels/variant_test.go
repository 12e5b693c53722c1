package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	experiments "github.com/ferrumkv/ferrumkv/internal/pack"
)

const wideEntry = `{"name": "wide", "what": "tries", "sources": "wide", "patch": "wide.diff", "units": ["demo.cu"], "defines": ["A=1", "B"],
	"architecture": "sm_90a", "shapes": "^prefill/", "conform": "^attend/", "predict_us": {"prefill/f16": [10, 20.5]}}`

const plainEntry = `{"name": "plain", "what": "nothing", "units": ["fill.cu"], "architecture": "sm_90", "shapes": "^append/", "conform": "^append/"}`

// variantsIn is a folder with that text as variants.json.
func variantsIn(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "wide"), 0o755))
	put(t, dir, "wide.diff", "")
	put(t, dir, variantsFile, text)
	return dir
}

func TestReadVariants(t *testing.T) {
	all, err := readVariants(variantsIn(t, `{"variants": [`+wideEntry+`]}`))
	require.NoError(t, err)
	require.Equal(t, []variant{{
		Variant: experiments.Variant{
			Name: "wide", Folder: "variants/wide", What: "tries", Shapes: "^prefill/", Conform: "^attend/",
			PredictUS: map[string][2]float64{"prefill/f16": {10, 20.5}},
		},
		Sources: "wide", Patch: "wide.diff", Units: []string{"demo.cu"}, Defines: []string{"A=1", "B"}, Architecture: "sm_90a",
	}}, all)
	to := all[0].target()
	require.Equal(t, []string{"-O3", "-std=c++17", "-DA=1", "-DB"}, to.options)
	require.Equal(t, []string{"sm_90a"}, to.architectures)
	require.Equal(t, "compute_90a", virtual("sm_90a"))
	require.Len(t, embedded.options, 2)
}

// The committed list can be read.
func TestCommittedVariants(t *testing.T) {
	all, err := readVariants("../../kernels/cuda/variants")
	require.NoError(t, err)
	for _, v := range all {
		folder, err := overlay("../../kernels/cuda", t.TempDir(), v)
		require.NoError(t, err, v.Name)
		for _, unit := range v.Units {
			found, err := sources(folder, unit)
			require.NoError(t, err)
			require.Contains(t, paths(found), header)
		}
	}
}

func TestReadVariantsRefuses(t *testing.T) {
	entry := func(old, new string) string {
		require.Contains(t, wideEntry, old)
		return `{"variants": [` + strings.Replace(wideEntry, old, new, 1) + `]}`
	}
	for _, c := range []struct{ name, text, want string }{
		{"unknown field", entry(`"what"`, `"why"`), `unknown field "why"; the fields are those of variant`},
		{"no JSON", `{`, "unexpected EOF"},
		{"two objects", `{"variants": []} {}`, "more follows the object; write one"},
		{"duplicate", `{"variants": [` + wideEntry + `,` + wideEntry + `]}`, `two variants are called "wide"; rename one`},
		{"name", entry(`"name": "wide"`, `"name": "Wide_1"`), `variant "Wide_1": write the name of a-z, 0-9 and -`},
		{"name of a flag", entry(`"name": "wide"`, `"name": "-o"`), "write the name of"},
		{"no name", entry(`"name": "wide", `, ``), "write the name of"},
		{"no words", entry(`"tries"`, `""`), "say what it tries"},
		{"architecture", entry(`sm_90a`, `compute_90`), `architecture is "compute_90"; write sm_90, or sm_90a`},
		{"shapes", entry(`^prefill/`, `[`), "shapes: error parsing regexp"},
		{"no shapes", entry(`^prefill/`, ``), "shapes is empty"},
		{"conform", entry(`^attend/`, `(`), "conform: error parsing regexp"},
		{"no conform", entry(`"conform": "^attend/", `, ``), "conform is empty"},
		{"no units", entry(`["demo.cu"]`, `[]`), "units is empty; name the .cu files"},
		{"unit elsewhere", entry(`demo.cu`, `../demo.cu`), `unit "../demo.cu" is no name of a .cu file`},
		{"header as unit", entry(`demo.cu`, `demo.cuh`), `unit "demo.cuh" is no name`},
		{"unit twice", entry(`"demo.cu"`, `"demo.cu", "demo.cu"`), "unit demo.cu is there twice"},
		{"define", entry(`A=1`, `A=1 2`), `define "A=1 2" is no macro`},
		{"option", entry(`A=1`, `-DA`), `define "-DA" is no macro; write NAME`},
		{"folder of images", entry(`"sources": "wide"`, `"folder": "wide"`), `write "sources" for its files`},
		{"sources", entry(`"sources": "wide"`, `"sources": "narrow"`), `no folder "narrow" beside variants.json; make it`},
		{"sources elsewhere", entry(`"sources": "wide"`, `"sources": "../wide"`), `no folder "../wide"`},
		{"file as sources", entry(`"sources": "wide"`, `"sources": "wide.diff"`), `no folder "wide.diff"`},
		{"patch", entry(`wide.diff`, `other.diff`), `no patch "other.diff" beside`},
		{"prediction", entry(`[10, 20.5]`, `[10]`), `predict_us "prefill/f16" is [10, 0]; give the least and the most`},
		{"prediction in disorder", entry(`[10, 20.5]`, `[30, 20.5]`), "give the least and the most"},
		{"prediction of what is not measured", entry(`prefill/f16`, `decode/f16`), `predict_us "decode/f16" is not measured`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readVariants(variantsIn(t, c.text))
			require.ErrorContains(t, err, variantsFile)
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := readVariants(t.TempDir())
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "repository's root")
	_, err = readVariants(variantsIn(t, entry(`"name": "wide", "what": "tries"`, `"name": "W", "what": ""`)))
	require.ErrorContains(t, err, "write the name")
	require.ErrorContains(t, err, "say what") // all at once
}

func TestChoose(t *testing.T) {
	a, b := variant{Variant: experiments.Variant{Name: "a"}}, variant{Variant: experiments.Variant{Name: "b"}}
	for _, c := range []struct {
		names []string
		want  []variant
		err   string
	}{
		{nil, []variant{a, b}, ""},
		{[]string{"b"}, []variant{b}, ""},
		{[]string{"b", "a", "b"}, []variant{a, b}, ""},
		{[]string{"a", "c"}, nil, `no variant "c" in variants.json; it has a, b`},
	} {
		chosen, err := choose([]variant{a, b}, c.names)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, chosen)
	}
	_, err := choose(nil, nil)
	require.ErrorContains(t, err, "has no variants")
}
