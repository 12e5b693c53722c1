package offload

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/stretchr/testify/require"
)

// A late part is replaced, as often as allowed, and closed when it comes back.
func TestLateParts(t *testing.T) {
	be, err := cpu.Open(cpu.Options{Threads: 1})
	require.NoError(t, err)
	const bytes = 1 << 12
	l := &lane[*cpu.Buffer]{}
	require.NoError(t, l.open(be, bytes, 1))
	host := func() int64 { return be.Info().Host.Pinned + be.Info().Host.Other }
	one := host() / laneParts
	var out []*part
	for i := range spareParts(1) + laneParts {
		p, err := l.part(t.Context())
		require.NoError(t, err)
		out = append(out, p)
		l.late(p, p.lent-1) // of an earlier job
		require.Len(t, l.parts, max(laneParts-1-max(i-spareParts(1), 0), 0))
		l.late(p, p.lent)
		l.late(p, p.lent)
		require.LessOrEqual(t, l.more, l.most)
	}
	require.Empty(t, l.parts)
	require.Equal(t, int64(spareParts(1)+laneParts)*one, host(), "as much as allowed is out")
	for i, p := range out[:len(out)-1] {
		l.back(p)
		l.late(p, p.lent-1) // from a call that had returned
		require.Equal(t, int64(max(len(out)-1-i, laneParts))*one, host(), i)
	}
	require.Len(t, l.parts, laneParts-1)
	require.Zero(t, l.more)
	require.NoError(t, l.close())
	require.Equal(t, one, host())
	l.back(out[len(out)-1])
	require.Zero(t, host())
	require.NoError(t, be.Close())
}
