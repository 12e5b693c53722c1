package quality

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/kvcache"
	modeldata "github.com/ferrumkv/ferrumkv/testdata/model"
	"github.com/stretchr/testify/require"
)

// told is the embedded model with a story of that many tokens, and one that is too short for
// any scene.
func told(t *testing.T, tokens int) *Meter[backend.AnyBuffer] {
	model, tok, err := runner.LoadFS(modeldata.Files, ".")
	require.NoError(t, err)
	stories, err := modeldata.Files.ReadFile("stories.txt")
	require.NoError(t, err)
	texts, err := Texts(string(stories), model, tok)
	require.NoError(t, err)
	return NewMeter(openCPU(t), model, [][]uint32{texts[1][:tokens], texts[2][:8]}, 0)
}

func in(t *testing.T, m *Meter[backend.AnyBuffer], name string, context int) *Meter[backend.AnyBuffer] {
	scene, err := ParseScene(name)
	require.NoError(t, err)
	staged, err := m.In(scene.Within(context))
	require.NoError(t, err)
	require.Equal(t, 1, staged.Texts())
	return staged
}

func scored(t *testing.T, m *Meter[backend.AnyBuffer], format string) Score {
	s := measure(t, m, format, everything())
	require.Equal(t, []any{m.scene.Name, m.scene.Context}, []any{s.Scene, s.Context})
	return s
}

// What is reused of a cache in f32 is what would be computed, and of one in few bits what was
// stored; that the window in front of it is exact no more is all that is lost.
func TestSceneReuse(t *testing.T) {
	m := told(t, 141)
	afresh, reuse := in(t, m, "afresh", 0), in(t, m, "reuse", 0)
	require.Equal(t, 140-64, reuse.Tokens())
	for _, format := range []string{"f32", "int4", "int4-residual", "kivi4", "kivi4-int8"} {
		want, got := scored(t, afresh, format), scored(t, reuse, format)
		require.Zero(t, want.Reused)
		require.Equal(t, 64, got.Reused, format)
		f, err := ParseFormat(format)
		require.NoError(t, err)
		if f.residual == 0 {
			require.InDelta(t, want.NLL, got.NLL, 1e-4, format)
			require.InDelta(t, want.KL, got.KL, 1e-4, format)
			require.LessOrEqual(t, got.Bytes, want.Bytes)
		} else {
			require.NotEqual(t, want.KL, got.KL, "%s: the window was not brought back from few bits", format)
			require.Less(t, got.KL, 2e-3, format)
		}
	}
	f32 := scored(t, reuse, Reference)
	require.Less(t, f32.KL, 1e-9)
	require.Equal(t, 1., f32.Top1)
}

// A window of n tokens is what a cache of the newest n shows.
func TestSceneWindow(t *testing.T) {
	m := told(t, 80)
	const context = 7 // a policy with as little drops one token at a time
	window := in(t, m, "window", context)
	m.texts = m.texts[:1]
	recency, err := ParsePolicy("recency")
	require.NoError(t, err)
	f32, newest, all := scored(t, window, Reference), measure(t, m, Reference, recency.Under(context)), measure(t, m, Reference, everything())
	require.InDelta(t, newest.NLL, f32.NLL, 1e-4)
	require.Greater(t, f32.NLL, all.NLL+0.05)

	window = in(t, m, "window", 40)
	int4, kivi := scored(t, window, "int4"), scored(t, window, "kivi4")
	require.Less(t, kivi.KL, int4.KL)
	require.Positive(t, kivi.KL)
}

// A shift leaves what is left when a policy keeps the same tokens and turns their keys back.
func TestSceneShift(t *testing.T) {
	m := told(t, 180)
	const context, drop = 96, 46
	shift := in(t, m, "shift", context)
	f32 := scored(t, shift, Reference)
	require.Equal(t, 2, f32.Shifts) // with 96 and 142 of 179 tokens
	perToken := int64(4 * 2 * 2 * 64 * 4)
	require.Equal(t, context*perToken, f32.Bytes)

	var want Score
	f, err := ParseFormat(Reference)
	require.NoError(t, err)
	r, err := runner.New(m.be, m.model, runner.Options{Cache: f.config(180)})
	require.NoError(t, err)
	seq, _, err := r.Pool().Open(nil, kvcache.OpenOptions{})
	require.NoError(t, err)
	for _, token := range m.texts[0][:179] {
		if seq.Len() == context {
			kept := []int{0, 1, 2, 3}
			for i := sinks + drop; i < context; i++ {
				kept = append(kept, i)
			}
			require.NoError(t, seq.Retain(r.Stream(), [][]int{kept}, kvcache.RetainOptions{Reposition: true}))
		}
		logits, err := r.Forward([]runner.Work[backend.AnyBuffer]{{Seq: seq, Tokens: []uint32{token}}}, true)
		require.NoError(t, err)
		want.add(logits.Data, logits.Data, m.texts[0][want.Tokens+1])
	}
	require.NoError(t, r.Close())
	require.InDelta(t, want.NLL/float64(want.Tokens), f32.NLL, 1e-4)

	for _, format := range []string{"int4", "int4-residual", "kivi4"} {
		s := scored(t, shift, format)
		require.Equal(t, f32.Shifts, s.Shifts, format)
		require.Positive(t, s.KL, format)
		require.Less(t, s.KL, 0.01, format)
	}
}

// What a scene did not do is an error, not a row.
func TestSceneErrors(t *testing.T) {
	m := told(t, 140)
	for _, name := range []string{"window", "shift"} {
		scene, err := ParseScene(name)
		require.NoError(t, err)
		_, err = m.In(scene.Within(138))
		require.NoError(t, err)
		_, err = m.In(scene.Within(139))
		require.EqualError(t, err, "scene "+name+": needs a text of 141 tokens")
	}
	m.texts[0] = m.texts[0][:63]
	reuse, err := ParseScene("reuse")
	require.NoError(t, err)
	require.Zero(t, reuse.Within(9).Context)
	_, err = m.In(reuse)
	require.EqualError(t, err, "scene reuse: needs a text of 64 tokens")

	recency, err := ParsePolicy("recency")
	require.NoError(t, err)
	f, err := ParseFormat("kivi4")
	require.NoError(t, err)
	_, err = in(t, told(t, 140), "reuse", 0).Measure(t.Context(), f, recency.Under(9))
	require.EqualError(t, err, "scene reuse under policy recency: scenes keep everything")
	_, err = ParseScene("whole")
	require.EqualError(t, err, "scene whole: accepts "+SceneNames())

	f.block = 128 // nothing of a first half of 64 tokens can be found
	_, err = in(t, told(t, 140), "reuse", 0).Measure(t.Context(), f, everything())
	require.EqualError(t, err, "scene reuse in kivi4: 0 tokens of 64 were found")
}
