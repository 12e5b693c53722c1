package pack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const written = `{
  "commit": "34970b6",
  "budget_s": 480,
  "variants": [
    {"name": "wide-box", "folder": "variants/wide-box", "what": "boxes of a tensor map", "shapes": "^prefill/bf16/",
     "conform": "^attend/prompts", "predict_us": {"prefill/bf16/paged16/group=4/batch=1/context=8192/query=8192": [1100, 1300]}},
    {"name": "codes_turn.2", "folder": "variants/codes", "shapes": "^decode/f16-(int8|int4)/", "conform": "quantized"}
  ]
}`

func file(t *testing.T, content string) string {
	path := filepath.Join(t.TempDir(), "pack.json")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestRead(t *testing.T) {
	p, err := Read(file(t, written))
	require.NoError(t, err)
	require.Equal(t, Pack{Commit: "34970b6", BudgetSeconds: 480, Variants: []Variant{
		{Name: "wide-box", Folder: "variants/wide-box", What: "boxes of a tensor map", Shapes: "^prefill/bf16/",
			Conform: "^attend/prompts", PredictUS: map[string][2]float64{long: {1100, 1300}}},
		{Name: "codes_turn.2", Folder: "variants/codes", Shapes: "^decode/f16-(int8|int4)/", Conform: "quantized"},
	}}, p)
}

// What is written wrong is found where the pack is built, and the error says what it is.
func TestReadRejects(t *testing.T) {
	for _, c := range []struct{ old, by, says string }{
		{`"what"`, `"why"`, `unknown field "why"`},
		{`"budget_s"`, `"errors": 0, "budget_s"`, `unknown field "errors"`},
		{"]\n}", "]\n} {}", "there is more after the end"},
		{`480,`, `480`, "byte "},
		{`34970b6`, ``, "commit is empty"},
		{`480`, `0`, "budget_s is 0"},
		{`codes_turn.2`, `wide-box`, `variants[1] "wide-box": another variant has this name`},
		{`codes_turn.2`, `../codes`, `variants[1] "../codes": name is`},
		{`codes_turn.2`, ``, `variants[1] "": name is`},
		{`variants/codes`, `/tmp/codes`, `folder "/tmp/codes" is not inside the pack`},
		{`variants/codes`, ``, `folder "" is not inside the pack`},
		{`(int8|int4)`, `(int8|int4`, `variants[1] "codes_turn.2": shapes: error parsing regexp`},
		{`^decode/f16-(int8|int4)/`, ``, `shapes is empty`},
		{`"quantized"`, `"[a"`, `variants[1] "codes_turn.2": conform: error parsing regexp`},
		{`"quantized"`, `""`, `conform is empty`},
		{`query=8192": [`, `query=8192": [0, `, `is [0, 1100]; give the least and the most`},
		{`[1100, 1300]`, `[1300, 1100]`, `is [1300, 1100]; give the least and the most`},
		{`"shapes": "^prefill/bf16/"`, `"shapes": "^prefill/f16/"`, `query=8192" is not measured: shapes does not match it`},
	} {
		require.Equal(t, 1, strings.Count(written, c.old), c.old)
		path := file(t, strings.Replace(written, c.old, c.by, 1))
		p, err := Read(path)
		require.ErrorContains(t, err, c.says, c.by)
		require.ErrorContains(t, err, path)
		require.Zero(t, p)
	}
	_, err := Read(file(t, `{"commit": "a", "budget_s": 1}`))
	require.ErrorContains(t, err, "variants is empty")
	_, err = Read(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
