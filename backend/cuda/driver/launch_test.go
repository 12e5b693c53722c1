//go:build linux && cgo && !nocuda

package driver

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Launches run in their order, up to the first that is refused.
func TestLaunchAll(t *testing.T) {
	ctx := retain(t)
	p := memory(t, ctx, 64)
	one, two, none := fill(t, ctx, p, 64, 1), fill(t, ctx, p, 32, 2), fill(t, ctx, p, 64, 3)
	two.Stream, none.Stream = one.Stream, one.Stream
	host, err := ctx.AllocHost(64)
	require.NoError(t, err)
	defer func() { require.NoError(t, ctx.FreeHost(host)) }()

	require.NoError(t, ctx.LaunchAll(nil))
	require.NoError(t, ctx.LaunchAll([]Launch{*one, *two}))
	broken := *one
	broken.Block = 0
	var refused Error
	require.ErrorAs(t, ctx.LaunchAll([]Launch{*two, broken, *none}), &refused)
	require.Equal(t, "cuLaunchKernel", refused.Call)
	require.NoError(t, ctx.CopyToHost(host, p, one.Stream))
	require.NoError(t, ctx.Sync(one.Stream))
	for i, v := range host {
		require.EqualValues(t, map[bool]int{true: 2, false: 1}[i < 32], v, "byte %d", i)
	}
}
