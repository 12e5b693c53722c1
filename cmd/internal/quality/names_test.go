package quality

import (
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	modeldata "github.com/ferrumkv/ferrumkv/testdata/model"
	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	require.Equal(t, Reference, Formats()[0].Name)
	require.Equal(t, Everything, Policies()[0].Name)
	seen := map[string]bool{}
	for _, f := range Formats() {
		got, err := ParseFormat(f.Name)
		require.NoError(t, err)
		require.Equal(t, f, got)
		require.False(t, seen[f.Name])
		require.NotEmpty(t, f.About)
		seen[f.Name] = true
	}
	for _, p := range Policies() {
		got, err := ParsePolicy(p.Name)
		require.NoError(t, err)
		require.Equal(t, []any{p.Name, p.About, p.Evicts()}, []any{got.Name, got.About, got.Evicts()})
		require.False(t, seen[p.Name])
		seen[p.Name] = true
	}
	_, err := ParseFormat("int9")
	require.EqualError(t, err, "format int9: accepts "+FormatNames())
	_, err = ParsePolicy("")
	require.EqualError(t, err, "policy : accepts "+PolicyNames())
}

// Every policy can be made for every budget, however small.
func TestPoliciesAreValid(t *testing.T) {
	for _, p := range Policies() {
		require.Equal(t, p.Evicts(), p.Under(9).Budget == 9)
		for budget := 1; budget <= 300 && p.Evicts(); budget++ {
			policy := p.make(budget)
			require.NoError(t, policy.Validate(), "%s under %d", p.Name, budget)
			require.Equal(t, budget, policy.Limit(budget))
		}
	}
}

func TestFormatsOfADevice(t *testing.T) {
	f32 := backend.Caps{Formats: []backend.Format{{Act: backend.F32, K: backend.F32, V: backend.F32}, {Act: backend.F16, K: backend.Int8, V: backend.Int8}}}
	var has []string
	for _, f := range Formats() {
		if f.On(f32) {
			has = append(has, f.Name)
		}
		require.True(t, f.On(openCPU(t).Caps()), f.Name)
	}
	require.Equal(t, []string{"f32"}, has, "activations are in f32")
}

func TestTexts(t *testing.T) {
	m, tok, err := runner.LoadFS(modeldata.Files, ".")
	require.NoError(t, err)
	long := strings.Repeat("a", 3000)
	texts, err := Texts("\n one \n<|endoftext|><|endoftext|>\n\n<|endoftext|>"+long, m, tok)
	require.NoError(t, err)
	require.Len(t, texts, 2)
	require.Equal(t, tok.Encode("one"), texts[0])
	require.Len(t, texts[1], m.Context)
	for _, nothing := range []string{"", " \n", "<|endoftext|>"} {
		_, err = Texts(nothing, m, tok)
		require.EqualError(t, err, "no text of two tokens; texts are separated by <|endoftext|>")
	}
}
