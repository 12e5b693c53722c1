//go:build linux && cgo && !nometal && metalsimt

package metal

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// What PlanAttend was asked for is there when Attend runs, whether or not its keys are split, and
// nothing else was compiled for it.
func TestPlanCompilesWhatAttentionNeeds(t *testing.T) {
	found := emulator().Found
	for _, c := range []struct {
		has  features
		int8 bool
		made int // a pipeline for the kind of the step, with scores one more, both again for parts, and what merges these
	}{
		{with(abi.WithTable, abi.WithOffsets, abi.Paged), false, 3},
		{with(abi.WithTable, abi.WithOffsets, abi.Paged), true, 3},
		{with(abi.WithTable, abi.WithOffsets), false, 3},
		{with(abi.WithTable, abi.WithOffsets, abi.Paged, abi.WithFinalLSE), false, 5},
		{with(abi.WithTable, abi.WithOffsets, abi.Paged, abi.WithFinalLSE), true, 5},
	} {
		for _, parts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%#x %v %v", c.has, c.int8, parts), func(t *testing.T) {
				w := newWorld(t, open(t))
				w.int8 = c.int8
				planned := uint64(0)
				w.plan = func(s backend.AttendShape, _ features) (backend.AttendPlan, error) {
					before := found()
					_, err := w.be.PlanAttend(s)
					require.NoError(t, err)
					require.EqualValues(t, c.made, found()-before)
					planned = found()
					blocks := 1
					if parts {
						blocks = 1000
					}
					p, err := plan.Attend(s, plan.Capacity{blocks, blocks, blocks}.Resident)
					require.Equal(t, parts, p.Parts > 0)
					return p, err
				}
				w.call("attend", c.has)
				require.Equal(t, planned, found(), "compiled by Attend")
			})
		}
	}
}

// The kernels for a plan of a part of the keys are those of calls whose results are merged.
func TestUsualConstants(t *testing.T) {
	base := with(abi.WithTable, abi.WithOffsets)
	paged, merged := base|with(abi.Paged), base|with(abi.Paged, abi.WithLSE)
	shape := func(part backend.Part, stride int, scores bool) *backend.AttendShape {
		return &backend.AttendShape{BlockSize: 16, ContextLens: []uint32{3, 16}, Part: part, TableStride: stride, Scores: scores}
	}
	for _, c := range []struct {
		shape         *backend.AttendShape
		first, second features
	}{
		{shape(backend.AllKeys, 0, false), base, base},
		{shape(backend.AllKeys, 1, false), base, base},
		{shape(backend.AllKeys, 2, false), paged, paged},
		{shape(backend.AllKeys, 2, true), paged | with(abi.WithFinalLSE), paged | with(abi.WithFinalLSE)},
		{shape(backend.OlderKeys, 2, true), merged, merged},
		{shape(backend.ResidualKeys, 2, true), paged | with(abi.WithFinalLSE), merged},
		{&backend.AttendShape{BlockSize: 16, ContextLens: []uint32{17, 3}}, paged, paged},
		{&backend.AttendShape{Views: []uint32{0, 1}}, base | with(abi.WithViews), base | with(abi.WithViews)},
		{&backend.AttendShape{TreeWords: 1, Part: backend.ResidualKeys}, base | with(abi.WithTree), base | with(abi.WithTree, abi.WithLSE)},
	} {
		require.Equal(t, [2]uint32{uint32(c.first), uint32(c.second)}, usual(c.shape), "%+v", c.shape)
	}
}
