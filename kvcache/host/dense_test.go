package host

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// half is a runner's own type of 16 bits.
type half uint16

// A runner's tensors [batch, seq, heads, dim] of 16 bits go to a cache and come back to another sequence of the batch, bit by bit.
func TestDenseOfABatch(t *testing.T) {
	const batch, seq, heads, dim, layers, tokens = 3, 40, 2, 4, 2, 37
	size := seq * heads * dim
	tensors := func(fill func(i int) half) (all [][]half) {
		for layer := range layers {
			data := make([]half, batch*size)
			for i := range data {
				data[i] = fill(layer*len(data) + i)
			}
			all = append(all, data)
		}
		return all
	}
	keys, values := tensors(func(i int) half { return half(i) }), tensors(func(i int) half { return ^half(i) })
	of := func(b, tokens int) *Dense[half] {
		part := func(tensors [][]half) (parts [][]half) {
			for _, data := range tensors {
				parts = append(parts, data[b*size:(b+1)*size])
			}
			return parts
		}
		d, err := NewDense(part(keys), part(values), heads*dim, tokens)
		require.NoError(t, err)
		return d
	}
	c, err := NewPrefixKvCache[half](PrefixCacheConfig{})
	require.NoError(t, err)
	stored, err := c.Store(prompt(0, tokens), of(0, tokens))
	require.NoError(t, err)
	require.True(t, stored)
	require.Less(t, c.MemoryUsage(), int64(2*layers*tokens*heads*dim*4), "it takes two bytes for each element, and its tree")
	n, state, ok := c.Lookup(prompt(0, tokens))
	require.True(t, ok)
	require.Equal(t, tokens, n)
	to := of(2, 0)
	require.NoError(t, c.Restore(state, to))
	require.Equal(t, tokens, to.Len())
	for layer := range layers {
		for _, tensor := range [][]half{keys[layer], values[layer]} {
			require.Equal(t, tensor[:tokens*heads*dim], tensor[2*size:][:tokens*heads*dim])
			require.NotEqual(t, tensor[tokens*heads*dim:size], tensor[2*size+tokens*heads*dim:], "no more is written")
		}
	}

	short, err := NewDense(keys, values, batch*size/2, 2)
	require.NoError(t, err)
	require.ErrorIs(t, c.Restore(state, short), backend.ErrArgument{}, "another dim")
	small, err := NewDense([][]half{keys[0][:64], keys[1][:64]}, [][]half{values[0][:64], values[1][:64]}, heads*dim, 3)
	require.NoError(t, err)
	before := append([]half(nil), keys[0]...)
	require.ErrorIs(t, c.Restore(state, small), backend.ErrCapacity{})
	require.Equal(t, before, keys[0])
	require.Equal(t, 3, small.Len())
}

func TestDenseIsChecked(t *testing.T) {
	rows := func(n ...int) (all [][]float64) {
		for _, n := range n {
			all = append(all, make([]float64, n))
		}
		return all
	}
	for name, ask := range map[string]func() error{
		"no layers":         func() error { _, err := NewDense(rows(), rows(), 2, 0); return err },
		"layers differ":     func() error { _, err := NewDense(rows(4), rows(4, 4), 2, 0); return err },
		"no dim":            func() error { _, err := NewDense(rows(4), rows(4), 0, 0); return err },
		"parts of rows":     func() error { _, err := NewDense(rows(5), rows(5), 2, 0); return err },
		"values are fewer":  func() error { _, err := NewDense(rows(4), rows(2), 2, 0); return err },
		"a layer has more":  func() error { _, err := NewDense(rows(4, 6), rows(4, 6), 2, 0); return err },
		"a negative length": func() error { _, err := NewDense(rows(4), rows(4), 2, -1); return err },
	} {
		require.ErrorIs(t, ask(), backend.ErrArgument{}, name)
	}
	_, err := NewDense(rows(4), rows(4), 2, 3)
	require.ErrorIs(t, err, backend.ErrCapacity{})
	d, err := NewDense(rows(6), rows(6), 2, 2)
	require.NoError(t, err)
	for _, at := range []int{-1, 2} {
		_, _, err = d.Rows(0, at)
		require.ErrorIs(t, err, ErrIndex{})
		_, _, err = d.Rows(at, 0)
		require.ErrorIs(t, err, backend.ErrArgument{})
	}
	keys, values, err := d.Rows(0, 1)
	require.NoError(t, err)
	require.Equal(t, []int{2, 2, 2, 2}, []int{len(keys), cap(keys), len(values), cap(values)}, "the rest, which an append does not exceed")
	require.NoError(t, d.SetLen(3))
	require.ErrorIs(t, d.SetLen(4), backend.ErrCapacity{})
	require.Equal(t, 3, d.Len())
}
