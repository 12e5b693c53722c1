//go:build linux && cgo && !nometal && metalsimt

package metal

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest/gputest"
)

// TestChildOpens prints what opening and listing say, and the formats. It is run by
// TestUnavailable.
func TestChildOpens(t *testing.T) {
	gputest.PrintOpens(t, "metal", gpu().Open)
	if be, err := Open(0); err == nil {
		fmt.Printf("FORMATS %v\n", be.Caps().Formats)
		require.NoError(t, be.Close())
	}
}

// Whatever is missing is said in words, by Open and by List, and nothing crashes.
func TestUnavailable(t *testing.T) {
	for _, c := range []struct {
		env   []string
		words []string
	}{
		{[]string{"FERRUM_SIMT_DEVICES=0"}, []string{
			"OPEN metal: the system lists no Metal device\n",
			"LIST metal, , backend: metal is not available: the system lists no Metal device\n"}},
		{[]string{"FERRUM_SIMT_MACOS=12.6"}, []string{
			"OPEN metal:0: macOS 12.6, need 13 or newer\n",
			"LIST metal, , backend: metal:1 is not available: macOS 12.6, need 13 or newer\n"}},
		{[]string{"FERRUM_SIMT_APPLE=6"}, []string{
			"OPEN metal:0: simt device 0 (emulated on the CPU) is of a family before Apple7 and Metal 3, need an M1 or newer\n",
			"LIST metal, , backend: metal:1 is not available: simt device 1 "}},
		{[]string{"FERRUM_SIMT_UNIFIED=0"}, []string{
			"OPEN metal:0: simt device 0 (emulated on the CPU) does not share the host's memory\n",
			"LIST metal, , backend: metal:1 is not available: simt device 1 (emulated on the CPU) does not share the host's memory\n"}},
		{[]string{"FERRUM_SIMT_MACOS=13.0", "FERRUM_SIMT_APPLE=7"}, []string{
			"OPEN <nil>\n", "LIST metal:0, macOS 13.0, <nil>\nLIST metal:1, macOS 13.0, <nil>\n",
			"FORMATS [{f16 f16 f16} {f32 f32 f32} {f32 f16 f16} {f16 int8 int8} {f32 int8 int8} "}},
		{[]string{"FERRUM_SIMT_MACOS=15.1", "FERRUM_SIMT_APPLE=9", "FERRUM_SIMT_DEVICES=1"}, []string{
			"OPEN <nil>\n", "LIST metal:0, macOS 15.1, <nil>\n",
			"FORMATS [{f16 f16 f16} {bf16 bf16 bf16} {f32 f32 f32} {f32 f16 f16} {f32 bf16 bf16} {f16 int8 int8} {bf16 int8 int8} "}},
	} {
		out := gputest.Child(t, "^TestChildOpens$", c.env...)
		for _, words := range c.words {
			require.Contains(t, out, words, "%v", c.env)
		}
	}
}

// Where there is no bfloat, work in it is refused by type, and all other kernels compile.
func TestWithoutBFloat(t *testing.T) {
	if !gputest.InChild() {
		out := gputest.Child(t, "^(TestWithoutBFloat|TestGPU)$/^(transfers are|operands)", "FERRUM_SIMT_MACOS=13.0", "RAPID_CHECKS=10")
		require.Contains(t, out, "--- PASS: TestWithoutBFloat")
		require.Contains(t, out, "--- PASS: TestGPU/operands_that_kernels_cannot_take")
		return
	}
	be := open(t)
	if be.gpu.Info.BFloat {
		t.Skip("the body of a child process")
	}
	_, err := be.PlanAttend(backend.AttendShape{QHeads: 1, KVHeads: 1, KDim: 64, VDim: 64, BlockSize: 16,
		Format: backend.Format{Act: backend.BF16, K: backend.BF16, V: backend.BF16}, ContextLens: []uint32{1}, QueryLens: []uint32{1}})
	require.ErrorIs(t, err, backend.ErrUnsupported{})
}
