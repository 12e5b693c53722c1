package runner

import (
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/stretchr/testify/require"
)

// A step that a scheduler plans has the logits of Forward, of the sequences that it asks for.
func TestStep(t *testing.T) {
	be := openDevice(t)
	m, tok, cases := loadDemo(t)
	r := newRunner(t, be, m, Options{Cache: kvcache.Config{Memory: kvcache.Memory{Layout: kvcache.Paged, Capacity: 64, MaxSeqs: 6}}})
	open := func() (work []Work[backend.AnyBuffer]) {
		for _, c := range cases {
			seq, _, err := r.Pool().Open(tok.Encode(c.Prompt)[:8], kvcache.OpenOptions{NoReuse: true, NoPublish: true})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, seq.Release()) })
			work = append(work, Work[backend.AnyBuffer]{Seq: seq, Tokens: tok.Encode(c.Prompt)[:8]})
		}
		return work
	}
	logits, err := r.Forward(open(), false)
	require.NoError(t, err)
	want := append(slices.Clone(logits.Row(0)), logits.Row(2)...)

	work := open()
	for _, w := range work {
		require.NoError(t, r.Batch().Add(w.Seq, w.Tokens))
	}
	require.NoError(t, r.Batch().Plan(r.Stream()))
	got, err := r.Step(work, func(i int) bool { return i != 1 })
	require.NoError(t, err)
	require.Equal(t, Logits{2, m.Vocab, want}, got)
	require.NoError(t, r.Batch().Commit())
	require.Equal(t, 8, work[1].Seq.Len())

	work[0].Tokens = []uint32{uint32(m.Vocab)}
	require.NoError(t, r.Batch().Add(work[0].Seq, work[0].Tokens))
	require.NoError(t, r.Batch().Plan(r.Stream()))
	_, err = r.Step(work[:1], func(int) bool { return true })
	require.ErrorContains(t, err, "the vocabulary has 259")
	require.NoError(t, r.Batch().Reset())
}
