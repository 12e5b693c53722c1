package gputest

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// check is a test and what it checks.
type check[B launch.Buffer] struct {
	name string
	run  func(t *testing.T, d *Device[B])
}

// Run runs every test on a device, as a subtest named after what it checks.
func Run[B launch.Buffer](t *testing.T, d Device[B]) {
	checks := []check[B]{
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
		{"queries of NaN", testNaN[B]},
		{"attention after failures", testAttendAfterFailures[B]},
		{"failures anywhere", testFailures[B]},
		{"graphs or none", testCapture[B]},
		{"lost device", testLost[B]},
		{"loss found by close", testLossFoundByClose[B]},
	}
	if d.Graphs {
		checks = append(checks, []check[B]{
			{"graphs repeat steps", testReplay[B]},
			{"graphs freeze arguments", testFrozen[B]},
			{"graphs refuse what they cannot repeat", testRefusedInCapture[B]},
			{"graphs of records that fail", testFailedRecord[B]},
			{"graphs of freed buffers", testFreedInGraph[B]},
			{"graphs are closed", testGraphClose[B]},
			{"graphs report what is not finite", testGraphNonFinite[B]},
			{"launching a graph allocates nothing", testGraphsAllocateNothing[B]},
			{"graphs beside others", testGraphsBesideOthers[B]},
			{"graphs and failures", testGraphFailures[B]},
			{"graphs on a lost device", testGraphLost[B]},
		}...)
	}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) { c.run(t, &d) })
	}
}
