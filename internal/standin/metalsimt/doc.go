// Package metalsimt is for tests that run on the stand-in for Apple's Metal
// (kernels/simt/metal): it makes calls fail, removes devices, and counts what is left,
// through functions that the stand-in exports beside Metal's own.
//
// A program runs on the stand-in when it is built with the tag metalsimt and linked with
// build/simt/libmetal-simt.so or one of its variants (kernels/simt/README.md). Without the
// tag the package has [Counts] alone, and tests of failures have nothing to do.
package metalsimt

// Counts are the objects that are alive in the stand-in, and what has happened since
// the process began.
type Counts struct {
	Buffers, Bytes uint64 // also what only work under way holds

	Queues, CommandBuffers, Encoders, Events uint64
	Libraries, Functions, Pipelines          uint64
	Others                                   uint64 // strings, arrays, errors, pools; references to devices

	Commits    uint64
	Dispatches uint64 // encoded
	Completed  uint64 // command buffers, also those that failed
	Failed     uint64
	Injected   uint64 // failures that were asked for and have happened
}

// Live is the number of objects that somebody has yet to give back.
func (c Counts) Live() uint64 {
	return c.Buffers + c.Queues + c.CommandBuffers + c.Encoders + c.Events +
		c.Libraries + c.Functions + c.Pipelines + c.Others
}
