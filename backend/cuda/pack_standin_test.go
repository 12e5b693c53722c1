//go:build linux && cgo && !nocuda

package cuda

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/internal/bench"
	"github.com/ferrumkv/ferrumkv/internal/pack"
	"github.com/ferrumkv/ferrumkv/internal/standin"
	cudakernels "github.com/ferrumkv/ferrumkv/kernels/cuda"
)

const (
	wideBF16          = "fkv_attend_wide_bf16_bf16_128_128"
	decodeF16         = "fkv_attend_decode_f16_f16_128_128"
	aPrompt           = "^prefill/bf16/paged16/group=4/batch=1/"
	aDecode           = "^decode/f16/paged16/group=4/batch=1/"
	aPromptReduced    = "prefill/bf16/paged16/group=4/batch=1/context=256/queries=32"
	aPromptOfTheSuite = "^attend/noncausal prefill in bf16"
)

// planted are variants that must be dropped, one that is slower than the baseline, and one that is faster than it.
var planted = []struct {
	pack.Variant
	as map[string]string
}{
	{pack.Variant{Name: "endless", Shapes: aPrompt, Conform: aPromptOfTheSuite}, map[string]string{wideBF16: "trial_endless"}},
	{pack.Variant{Name: "illegal", Shapes: aPrompt, Conform: aPromptOfTheSuite}, map[string]string{wideBF16: "trial_illegal"}},
	{pack.Variant{Name: "wrong", Shapes: aPrompt, Conform: aPromptOfTheSuite}, map[string]string{wideBF16: "trial_wrong"}},
	{pack.Variant{Name: "untested", Shapes: aPrompt, Conform: "merge/"}, map[string]string{wideBF16: "trial_wrong"}},
	{pack.Variant{Name: "slow", Shapes: aPrompt, Conform: aPromptOfTheSuite, PredictUS: map[string][2]float64{aPromptReduced: {0.1, 0.2}}}, map[string]string{wideBF16: "trial_slow"}},
	{pack.Variant{Name: "fast", Shapes: aDecode, Conform: "^attend/one to four rows in f16"}, map[string]string{decodeF16: decodeF16}},
}

// writePlanted makes a pack of the variants that are planted in a folder.
func writePlanted(t *testing.T, c *standin.Control, folder string) string {
	p := pack.Pack{Commit: "planted", BudgetSeconds: 600}
	for _, v := range planted {
		files, err := c.Files(v.as)
		require.NoError(t, err)
		v.Folder = filepath.Join("variants", v.Name)
		require.NoError(t, os.CopyFS(filepath.Join(folder, v.Folder), files))
		p.Variants = append(p.Variants, v.Variant)
	}
	text, err := json.Marshal(p)
	require.NoError(t, err)
	path := filepath.Join(folder, "pack.json")
	require.NoError(t, os.WriteFile(path, text, 0o644))
	return path
}

// The pack with the device that everybody has: what is wrong is dropped and named, whatever it does to the device, what is
// slow is not chosen, and what is fast is.
func TestPackOnTheStandIn(t *testing.T) {
	c, ok := standin.Open()
	if !ok {
		t.Skip("kernels are planted in the stand-in alone")
	}
	if strings.HasSuffix(standin.Path(), "san.so") {
		t.Skip("a sanitizer ends the process at a kernel's fault")
	}
	t.Setenv("FERRUM_SIMT_CAPABILITY", "9.0")
	folder, results := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(results, limitsFile), []byte("BenchmarkKernels/limit/matrix-wide-bf16-16 \t 1\t 5 ns/op\t 790.5 TFLOP/s\t 5 q1-ns\nBenchmarkKernels/limit/read \t 1\t 4402 GB/s\n"), 0o644))
	r := finishPack(t, writePlanted(t, c, folder), results, "TestPackPartOnTheStandIn", 30*time.Second)
	dropped, conform := map[string]string{}, map[string]string{}
	for _, v := range r.Variants {
		dropped[v.Name], conform[v.Name] = v.Dropped, v.Conform
	}
	require.Equal(t, "conform hung or crashed", dropped["endless"])
	require.Contains(t, dropped["illegal"], "does not conform: the device is lost: attend: ")
	require.Contains(t, dropped["illegal"], "CUDA_ERROR_ILLEGAL_ADDRESS")
	require.Contains(t, dropped["wrong"], "does not conform: attend: ")
	require.Equal(t, "does not conform: the checks that it passed launch none of its kernels", dropped["untested"])
	require.Equal(t, "passed", conform["slow"])
	require.Len(t, r.Variants[4].Shapes, 1)
	require.False(t, r.Variants[4].Shapes[0].Prediction.Hit, "nothing here takes a ten-millionth of a second")
	require.Regexp(t, `^slower: .* of the baseline's time in prefill/bf16/`, dropped["slow"])
	require.Empty(t, dropped["fast"])
	require.Equal(t, []string{"fast"}, r.Chosen)

	read, err := pack.ReadResults(filepath.Join(results, "results.json"))
	require.NoError(t, err)
	require.Equal(t, r, read)
	require.Contains(t, read.About["device"], "simt")
	require.Equal(t, "790.5 TFLOP/s", read.About["limit matrix-wide-bf16"])
	require.Equal(t, "4402 GB/s", read.About["limit read"])
	chosen, err := os.ReadFile(filepath.Join(results, "chosen"))
	require.NoError(t, err)
	require.Equal(t, "variants/fast\n", string(chosen))
	set, err := cudakernels.Open(os.DirFS(filepath.Join(folder, strings.TrimSpace(string(chosen)))))
	require.NoError(t, err)
	_, found := set.Find(decodeF16)
	require.True(t, found)
}

// Each committed variant asks for checks that there are for its kernels and for benchmarks that there are: one that asks for none would
// be dropped on the device.
func TestCommittedVariantsAsk(t *testing.T) {
	c, ok := standin.Open()
	if !ok {
		t.Skip("kernels of variants are in the stand-in alone")
	}
	text, err := os.ReadFile("../../kernels/cuda/variants/variants.json")
	require.NoError(t, err)
	var list struct {
		Variants []struct {
			pack.Variant
			Sources string `json:"sources"`
		} `json:"variants"`
	}
	require.NoError(t, json.Unmarshal(text, &list))
	require.NotEmpty(t, list.Variants)
	be := open(t)
	names := bench.Compared(bench.Device[*Buffer]{Backend: be}).Names()
	for _, v := range list.Variants {
		set, err := c.Set(v.Sources)
		require.NoError(t, err)
		conform, shapes, checks := regexp.MustCompile(v.Conform), regexp.MustCompile(v.Shapes), 0
		_ = backendtest.FirstFailure[*Buffer](concerned{Backend: be, set: set, launched: new(bool)}, backendtest.Options{Grid: backendtest.Values}, func(room, check string) bool {
			if conform.MatchString(room + "/" + check) {
				checks++
			}
			return false
		})
		require.Positive(t, checks, v.Name)
		require.True(t, slices.ContainsFunc(names, shapes.MatchString), v.Name)
		for name := range v.PredictUS {
			require.Contains(t, names, name, v.Name)
			require.Regexp(t, shapes, name, v.Name)
		}
	}
}

// TestPackPartOnTheStandIn runs a part of the planted pack.
func TestPackPartOnTheStandIn(t *testing.T) {
	if os.Getenv("FERRUM_TEST_CHILD") == "" {
		t.Skip("TestPackOnTheStandIn runs it")
	}
	runPackPart(t, func(l *lab) pack.Lab {
		l.conform = 3 * time.Second
		return slowDecode{l}
	})
}

// slowDecode is a lab whose baseline takes several times as long to decode.
type slowDecode struct{ *lab }

func (l slowDecode) Prepare(variant, shape string) (pack.Trial, error) {
	t, err := l.lab.Prepare(variant, shape)
	if err == nil && variant == "" && strings.HasPrefix(shape, "decode/") {
		t = severalTimes{t}
	}
	return t, err
}

type severalTimes struct{ pack.Trial }

func (t severalTimes) Sample() (sum float64, err error) {
	for range 3 {
		seconds, err := t.Trial.Sample()
		if err != nil {
			return 0, fmt.Errorf("a sample of several: %w", err)
		}
		sum += seconds
	}
	return sum, nil
}
