package gputest

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// Run runs every test on a device, as a subtest named after what it checks.
func Run[B launch.Buffer](t *testing.T, d Device[B]) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, d *Device[B])
	}{
		{"alloc is aligned and counted", testAlloc[B]},
		{"alloc errors", testAllocErrors[B]},
		{"freed memory is allocated again", testFreedMemory[B]},
		{"freed memory is free", testFreedIsFree[B]},
		{"import", testImport[B]},
		{"import stream", testImportStream[B]},
		{"another device", testAnotherDevice[B]},
		{"two backends of a device", testTwoBackends[B]},
		{"open errors", testOpenErrors[B]},
		{"listed", testListed[B]},
		{"streams and events", testStreamsAndEvents[B]},
		{"values that are not finite", testNonFinite[B]},
		{"after close", testAfterClose[B]},
		{"close while in use", testCloseWhileInUse[B]},
		{"transfers are those of a slice", testTransfers[B]},
		{"half-byte elements", testHalfBytes[B]},
		{"fill rounds or says no", testFill[B]},
		{"transfers allocate nothing", testTransfersAllocateNothing[B]},
		{"operations allocate nothing", testOperationsAllocateNothing[B]},
		{"operands that kernels cannot take", testOperands[B]},
		{"splits agree", testSplits[B]},
		{"garbage in device memory", testGarbage[B]},
		{"attention after failures", testAttendAfterFailures[B]},
		{"failures anywhere", testFailures[B]},
		{"lost device", testLost[B]},
		{"loss found by close", testLossFoundByClose[B]},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, &d) })
	}
}
