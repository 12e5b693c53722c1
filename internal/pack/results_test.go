package pack

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// predicted is a run with predictions that are hit, too low, too high, and of what was not measured.
func predicted(t *testing.T) Results {
	f := newFake(map[string]kernels{"fast": {ratio: 0.8}, "same": {}, "wrong": {conform: func() error { return errPlanted }}})
	fast, same := of("fast", "^prefill"), of("same", "^decode")
	fast.PredictUS = map[string][2]float64{long: {1000, 1200}, short: {10, 25.6}}
	same.PredictUS = map[string][2]float64{steps: {150, 160}, "decode/none": {1, 2}}
	return runs(t, f, Pack{Commit: "34970b6", Variants: []Variant{fast, same, of("wrong", ".")}})
}

func TestPredictions(t *testing.T) {
	out := predicted(t)
	shapes := out.result(t, "fast").Shapes
	require.Equal(t, &Prediction{Least: 1000, Most: 1200, Hit: true}, shapes[0].Prediction, "the ends belong to it")
	require.False(t, shapes[1].Prediction.Hit)
	require.InDelta(t, 0.25, shapes[1].Prediction.Off, 1e-9, "32 µs")
	below := out.result(t, "same").Shapes[0].Prediction
	require.False(t, below.Hit)
	require.InDelta(t, -0.2, below.Off, 1e-9, "120 µs")
	require.Equal(t, []string{"fast"}, out.Chosen, "a wrong prediction is no reason to drop a variant")
}

func TestTable(t *testing.T) {
	out := predicted(t)
	out.Variants = append(out.Variants, VariantResult{Name: "text", Dropped: "a|b\nc"})
	require.Equal(t, `| Variant | Shape | Predicted, µs | Measured, µs | Of the baseline's time | Prediction |
| --- | --- | ---: | ---: | ---: | --- |
| fast | `+long+` | 1000 to 1200 | 1200 (1200 to 1200) | 0.800 (0.800 to 0.800) | hit |
| fast | `+short+` | 10 to 25.6 | 32 (32 to 32) | 0.800 (0.800 to 0.800) | missed: 25.0 % above |
| same | `+steps+` | 150 to 160 | 120 (120 to 120) | 1.000 (1.000 to 1.000) | missed: 20.0 % below |
| same | decode/none | 1 to 2 | not measured: there is no such benchmark |  |  |
| wrong |  |  | does not conform: attend/quantized/int8/group=4: place 17 is 0.5, want 0.25 |  |  |
| text |  |  | a\|b c |  |  |
`, Table(out))
	out = runs(t, newFake(nil), Pack{Variants: []Variant{of("new", long)}})
	require.Contains(t, Table(out), "| new | "+long+" |  | 1500 (1500 to 1500) | 1.000 (1.000 to 1.000) |  |\n", "nothing was predicted")
}

func TestResultsAreReadAsWritten(t *testing.T) {
	out := predicted(t)
	path := filepath.Join(t.TempDir(), "results.json")
	require.NoError(t, os.WriteFile(path, []byte("older, and longer"+strings.Repeat(".", 1<<16)), 0o600))
	require.NoError(t, out.Write(path))
	read, err := ReadResults(path)
	require.NoError(t, err)
	require.Equal(t, out, read)
	require.Equal(t, Table(out), Table(read))
	onlyFile(t, path)

	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, part := range []string{`"chosen": [`, `"started": "2030-01-02T03:04:05Z"`, `"baseline_us": {`, `"median": 1500`, `"hit": true`, `"conform": "passed"`} {
		require.Contains(t, string(text), part)
	}
	chosen := filepath.Join(t.TempDir(), "chosen")
	require.NoError(t, Results{Chosen: []string{"b", "a"}}.WriteChosen(chosen, Pack{Variants: []Variant{{Name: "a", Folder: "variants/a"}, {Name: "c"}, {Name: "b", Folder: "variants/b"}}}))
	text, err = os.ReadFile(chosen)
	require.NoError(t, err)
	require.Equal(t, "variants/a\nvariants/b\n", string(text))
	none := Results{}
	none.choose()
	require.NoError(t, none.Write(path))
	text, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), `"chosen": []`, "scripts find a list in any case")

	require.NoError(t, os.WriteFile(path, text[:len(text)/2], 0o600))
	_, err = ReadResults(path)
	require.ErrorContains(t, err, path)
}

// onlyFile says that a folder has this file and no other.
func onlyFile(t *testing.T, path string) {
	t.Helper()
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Equal(t, filepath.Base(path), files[0].Name())
}

func TestOldFileStaysWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	err := replace(path, func(w io.Writer) error {
		_, err := w.Write([]byte("a disk that is full after ha"))
		require.NoError(t, err)
		return syscall.ENOSPC
	})
	require.ErrorIs(t, err, syscall.ENOSPC)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old", string(text))
	onlyFile(t, path)

	folder := filepath.Join(t.TempDir(), "folder")
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "full"), 0o700))
	require.Error(t, Results{}.Write(folder), "a folder is in its place")
	onlyFile(t, folder)
	require.ErrorIs(t, Results{}.Write(filepath.Join(folder, "none", "results.json")), os.ErrNotExist)
}
