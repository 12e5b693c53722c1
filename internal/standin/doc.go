// Package standin is for tests that run on the stand-in for the CUDA driver library
// (kernels/simt/driver): it makes calls fail, loses devices, and counts what is
// left, through functions that the stand-in exports beside the driver's own.
//
// The stand-in is the library that the environment variable FERRUM_CUDA_DRIVER
// names. Where it names another, or none, [Open] says so, and tests of failures
// have nothing to do.
package standin

import "os"

// Path is the driver library that the environment names, empty when it names none.
func Path() string { return os.Getenv("FERRUM_CUDA_DRIVER") }

// Counts are the objects that exist in the stand-in, and what has happened since
// it was loaded.
type Counts struct {
	DeviceAllocations, DeviceBytes uint64
	HostAllocations, HostBytes     uint64 // of pinned memory

	Contexts, Streams, Events, Modules, Pools uint64
	Graphs, Execs                             uint64 // captured, and made to be launched

	Launches  uint64 // accepted
	Injected  uint64 // failures that were asked for and have happened
	Misuse    uint64 // calls that hardware would let pass and suffer from later
	Abandoned uint64 // objects that were alive when their context ended without an error
	Spins     uint64 // waits of the host that burn its thread, of whatever length

	Interrupts uint64 // records that interrupt the host once they are reached, in case it waits
	Remembered uint64 // streams, also ones that are gone, that the stand-in's order of operations knows of
}

// Live is the number of objects that somebody has yet to give back.
func (c Counts) Live() uint64 {
	return c.DeviceAllocations + c.HostAllocations + c.Contexts + c.Streams + c.Events + c.Modules + c.Pools + c.Graphs + c.Execs
}
