package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	device "github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/internal/bench"
)

// sample is a run that was never made: its figures are round numbers and dice.
func sample(t *testing.T) gpu {
	printed, err := os.ReadFile(filepath.Join("testdata", "sample.txt"))
	require.NoError(t, err)
	r, err := parse(string(printed))
	require.NoError(t, err)
	return r.page().(gpu)
}

// The page and the plot of the sample are those beside it, and the JSON has its figures.
func TestSample(t *testing.T) {
	files, err := made(filepath.Join("testdata", "sample.txt"))
	require.NoError(t, err)
	for _, name := range []string{"sample.md", "sample.svg"} {
		got, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		require.Equal(t, files[name], string(got), "%s is stale: go run ./cmd/internal/benchpage cmd/internal/benchpage/testdata/sample.txt", name)
	}
	var figures struct {
		About  map[string]string
		Trials []struct {
			Name    string
			Metrics map[string]float64
		}
	}
	require.NoError(t, json.Unmarshal([]byte(files["sample.json"]), &figures))
	require.Equal(t, "A sample that nobody measured, 100 units, 80.0 GiB", figures.About["device"])
	require.Equal(t, "limit/read", figures.Trials[1].Name)
	require.Equal(t, 1000., figures.Trials[1].Metrics["GB/s"])
}

// The names of the sample are names of the benchmarks.
func TestNamesOfSample(t *testing.T) {
	be, err := device.Open(device.Options{Threads: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, be.Close()) }()
	host := func(*device.Buffer, backend.HostMemory, bool) error { return nil }
	names := (&bench.GPU[*device.Buffer]{Device: bench.Device[*device.Buffer]{Backend: be, Host: host}}).Names()
	sample, err := os.ReadFile(filepath.Join("testdata", "sample.txt"))
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^BenchmarkKernels/(\S+)-16 `).FindAllStringSubmatch(string(sample), -1)
	require.NotEmpty(t, found)
	for _, m := range found {
		if !strings.HasPrefix(m[1], "limit/") {
			require.Contains(t, names, m[1])
		}
	}
}

// A run that has no document yet gets one, with every table.
func TestFirstDocument(t *testing.T) {
	folder := t.TempDir()
	printed, err := os.ReadFile(filepath.Join("testdata", "sample.txt"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "metal.txt"), printed, 0o644))
	require.NoError(t, write(filepath.Join(folder, "metal.txt")))
	text, err := os.ReadFile(filepath.Join(folder, "metal.md"))
	require.NoError(t, err)
	require.Contains(t, string(text), "make bench-metal\n")
	require.Contains(t, string(text), "](metal.svg)\n")
	for name := range (gpu{}).tables() {
		require.Contains(t, string(text), "<!-- "+name+" -->\n|")
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "cpu.txt"), []byte(printedCPU), 0o644))
	require.ErrorIs(t, write(filepath.Join(folder, "cpu.txt")), os.ErrNotExist, "is written by hand")
}

// With the results of experiments beside it, as the pack's test on the stand-in wrote them, the page has what was predicted and what
// was measured.
func TestExperimentsOnThePage(t *testing.T) {
	folder := t.TempDir()
	for from, to := range map[string]string{"sample.txt": "cuda.txt", "planted-pack.json": "cuda-pack.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", from))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, to), text, 0o644))
	}
	require.NoError(t, write(filepath.Join(folder, "cuda.txt")))
	text, err := os.ReadFile(filepath.Join(folder, "cuda.md"))
	require.NoError(t, err)
	for _, line := range []string{
		`\| chosen \| fast \|`, `\| device \| .*simt.* \|`, `\| commit \| planted \|`,
		`\| endless \|  \|  \| conform hung or crashed \|  \|  \|`,
		`\| illegal \|  \|  \| does not conform: the device is lost: .* \|  \|  \|`,
		`\| slow \| prefill/bf16/\S+ \| 0\.1 to 0\.2 \| \d+ \(\d+ to \d+\) \| \d\.\d{3} \(\d\.\d{3} to \d\.\d{3}\) \| missed: \d+\.\d % above \|`,
		`\| fast \| decode/f16/\S+ \|  \| \d+ \(\d+ to \d+\) \| 0\.\d{3} \(.*\) \|  \|`,
	} {
		require.Regexp(t, "(?m)^"+line+"$", string(text))
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "cuda-pack.json"), []byte(`{"budget": 1}`), 0o644))
	require.ErrorContains(t, write(filepath.Join(folder, "cuda.txt")), "cuda-pack.json")
}

// What is in the documents was measured on a device, and is what the run beside them says.
func TestDocumentOfGPU(t *testing.T) {
	results := filepath.Join("..", "..", "..", "docs", "benchmarks", "cuda.txt")
	printed, err := os.ReadFile(results)
	if err != nil {
		t.Skipf("no results to compare with: %v", err)
	}
	require.NotContains(t, string(printed), "\nemulated: ")
	files, err := made(results)
	require.NoError(t, err)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(filepath.Dir(results), name))
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%s is stale: go run ./cmd/internal/benchpage docs/benchmarks/cuda.txt", name)
	}
}

// Every aim is measured, in the unit it is about.
func TestEveryAimIsMeasured(t *testing.T) {
	for _, a := range sample(t).wanted() {
		require.NotEmpty(t, a.reached, a.what)
	}
}

// Figures are compared with their twins alone.
func TestComparisons(t *testing.T) {
	r := gpu{&run{}}
	for _, line := range []string{
		"decode/f16/contiguous/group=4/batch=8/context=8192/queries=1 9 1000 ns/op 268 MB",
		"decode/f16/paged16/group=4/batch=8/context=8192/queries=1 9 1250 ns/op 268 MB",
		"decode/f16/paged16/group=8/batch=8/context=8192/queries=1 9 5000 ns/op 268 MB",
		"decode/f16-int8/paged16/group=4/batch=8/context=8192/queries=1 9 625 ns/op 138 MB",
		"verify/f16/paged16/group=4/batch=8/context=8192/queries=4 9 1500 ns/op 268 MB",
		"mass/f16/paged16/group=4/batch=8/context=8192/queries=1 9 1375 ns/op 402 MB",
		"decode-merge/f16/paged16/group=4/batch=8/context=8192/queries=1 9 25 ns/op",
		"flat/f16/paged16/group=4/batch=64/context=8320/queries=1/shared=8192 9 6000 ns/op",
		"cascade/f16/paged16/group=4/batch=64/context=8320/queries=1/shared=8192 9 1000 ns/op",
	} {
		trial, err := parseTrial(line)
		require.NoError(t, err)
		r.trials = append(r.trials, trial)
	}
	for what, want := range map[string]float64{
		"decode, blocks of 16": 0.8, "decode, int8": 2, "verify": 1.2, "64 sequences": 6, "attention mass": 1.1, "merge": 0.02,
	} {
		i := slices.IndexFunc(r.wanted(), func(a aim) bool { return strings.HasPrefix(a.what, what) })
		require.InDeltaSlice(t, []float64{want}, r.wanted()[i].reached, 1e-9, what)
	}
	require.Empty(t, r.roofline(), "no limits")
}

func TestNoisyFiguresAreMarked(t *testing.T) {
	calm := trial{metrics: map[string]float64{"ns/op": 100, "q1-ns": 98, "q3-ns": 102, "of-limit": 0.5}}
	require.Equal(t, "0.50", fraction(calm))
	calm.metrics["q3-ns"] = 104
	require.Equal(t, "0.50 (!)", fraction(calm))
}
