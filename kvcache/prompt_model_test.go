package kvcache

import (
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Mistake adds any tokens to a sequence: they are accepted if they continue its prompt, and otherwise are an
// ErrPrompt with the place where they differ.
// Nothing is computed.
func (m *reuseMachine[B]) Mistake(t *rapid.T) {
	x := m.pick(t)
	prompt := append(slices.Clip(x.tokens), x.rest...)
	ids := rapid.OneOf(
		rapid.SliceOfN(rapid.Uint32Range(1, 2), 1, 3),
		rapid.SampledFrom([][]uint32{prompt, x.rest, append(slices.Clip(x.rest), 1), append(slices.Clip(prompt), 2)}),
	).Draw(t, "ids")
	if len(ids) == 0 || len(ids) > m.pool.cfg.Memory.Capacity-x.seq.NextPosition() {
		t.Skip("nothing to add, or no room")
	}
	differs := 0
	for differs < min(len(ids), len(x.rest)) && ids[differs] == x.rest[differs] {
		differs++
	}
	before := m.stats()
	err := m.step.Reset()
	require.NoError(t, err)
	err = m.step.Add(x.seq, ids)
	if differs == min(len(ids), len(x.rest)) {
		require.NoError(t, err)
	} else {
		at := len(x.tokens) + differs
		require.ErrorIs(t, err, ErrPrompt{Have: len(x.tokens), Prompt: len(prompt), Position: at, Want: prompt[at], Got: ids[differs]})
	}
	require.NoError(t, m.step.Reset())
	after := m.stats() // the device may have gone on
	require.Equal(t, before.Logical, after.Logical)
	require.Equal(t, before.Reserved, after.Reserved)
	require.Equal(t, len(x.tokens), x.seq.Len())
}
