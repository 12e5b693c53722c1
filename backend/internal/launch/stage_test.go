package launch

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// The launch has the planes, the list and what is staged, and a grid over what a plane has of a block and over planes and blocks.
func TestStageBlocksCall(t *testing.T) {
	c := newCalls()
	s := Stage{Planes: Place{1, 0}, List: Place{2, 8}, Staging: Place{3, 16}, Count: 64, Blocks: 100, BlockBytes: 64 << 15, Largest: 1 << 15,
		Listed: 4, Begin: 48, Bytes: 7 << 20}
	require.NoError(t, StageBlocks(c, &s))
	require.Len(t, c.List(), 1)
	call := &c.List()[0]
	require.Equal(t, Kernel{Op: OpStageBlocks}, call.Kernel)
	require.Equal(t, "fkv_stage_blocks", call.Kernel.Symbol())
	require.Equal(t, [3]uint32{2, 256, 1}, call.Grid)
	require.Equal(t, []Place{s.Planes, s.List, s.Staging}, call.Buffers())
	want := abi.StageBlocksArgs{BlockBytes: 64 << 15, Begin: 48, Bytes: 7 << 20, Planes: 64, Listed: 4, Blocks: 100}
	want.Encode()
	require.Equal(t, want, argsOf[abi.StageBlocksArgs](call))

	s.Back, s.Bytes = true, 100
	require.NoError(t, StageBlocks(c, &s))
	require.EqualValues(t, abi.Unstage, argsOf[abi.StageBlocksArgs](&c.List()[0]).Flags)
	require.Equal(t, [3]uint32{1, 256, 1}, c.List()[0].Grid)

	s.Count, s.Listed = 1<<20, 4096
	require.ErrorIs(t, StageBlocks(c, &s), backend.ErrUnsupported{})
	require.Empty(t, c.List())
	s.Listed = 4095
	require.NoError(t, StageBlocks(c, &s))
	require.Equal(t, [3]uint32{1, MaxGridY, 1}, c.List()[0].Grid)
	s.Blocks = math.MaxUint32 + 1
	require.ErrorIs(t, StageBlocks(c, &s), backend.ErrUnsupported{})
}
