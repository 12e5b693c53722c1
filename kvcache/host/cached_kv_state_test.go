package host

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

func TestCachedKvState(t *testing.T) {
	m := hostCache(0, hostShape, prompt(0, 20))
	s, err := NewCachedKvState(m.keys, m.values, 20)
	require.NoError(t, err)
	m.keys[0][0]++ // it has a copy
	require.Equal(t, []int{20, 2, 3}, []int{s.Len(), s.NumLayers(), s.KVDim()})
	requireState(t, 0, s, prompt(0, 20))

	keys, values, err := s.Rows(1, 14)
	require.NoError(t, err)
	require.Equal(t, m.keys[1][14*3:16*3], keys)
	require.Equal(t, m.values[1][14*3:16*3], values)
	require.Equal(t, len(keys), cap(keys), "an append does not write into the state")
	for _, layer := range []int{-1, 2} {
		_, err = s.Keys(layer)
		require.ErrorIs(t, err, backend.ErrArgument{})
		_, err = s.Values(layer)
		require.ErrorIs(t, err, backend.ErrArgument{})
	}
	for _, first := range []int{-1, 20} {
		_, _, err = s.Rows(0, first)
		require.Equal(t, ErrIndex{Index: first, Len: 20}, err)
	}
}

func TestCachedKvStateShape(t *testing.T) {
	row := make([]float32, 6)
	for _, bad := range []struct {
		keys, values [][]float32
		tokens       int
	}{
		{nil, nil, 1}, {[][]float32{row}, nil, 2}, {[][]float32{row}, [][]float32{row, row}, 2},
		{[][]float32{row}, [][]float32{row}, 0}, {[][]float32{row}, [][]float32{row}, -2},
		{[][]float32{row}, [][]float32{row}, 4}, {[][]float32{row}, [][]float32{row}, 7},
		{[][]float32{row}, [][]float32{row[:4]}, 2}, {[][]float32{row, row[:3]}, [][]float32{row, row}, 2},
	} {
		s, err := NewCachedKvState(bad.keys, bad.values, bad.tokens)
		require.ErrorIs(t, err, backend.ErrArgument{})
		require.Nil(t, s)
	}
}
