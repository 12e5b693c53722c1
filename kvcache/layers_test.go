package kvcache

import (
	"reflect"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// A layer of a sequence can be read, not changed on its own: it has no methods.
func TestLayerOfSequence(t *testing.T) {
	r := deviceRig(t, small(Paged))
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, []uint32{1, 2, 3, 4, 5}}))
	layers, err := a.Layers(r.s)
	require.NoError(t, err)
	require.Len(t, layers, 2)
	require.Equal(t, a.Blocks(nil), layers[1].PagedBlockIndices)
	require.True(t, layers[0].BlockTable.Set && layers[0].ContextLens.Set)
	require.NotEqual(t, layers[0].K, layers[1].K)
	require.Zero(t, reflect.TypeOf(&layers[0]).NumMethod())
	_, err = a.Layers(nil)
	require.ErrorIs(t, err, backend.ErrArgument{})
	k, v := layers[0].K, layers[0].V
	for _, layer := range []int{-1, 2} {
		require.ErrorIs(t, a.Gather(r.s, layer, k, v), backend.ErrArgument{})
	}
	require.ErrorIs(t, a.Gather(nil, 0, k, v), backend.ErrArgument{})
	require.NoError(t, a.Release())
	require.ErrorIs(t, a.Gather(r.s, 0, k, v), ErrReleased)
	r.close()
}
