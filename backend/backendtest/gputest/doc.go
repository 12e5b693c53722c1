// Package gputest is the tests that the backends of all GPUs share, beside the suite of
// package backendtest, which holds for every device:
//
//	func TestGPU(t *testing.T) {
//		gputest.Run(t, gputest.Device[*Buffer]{Kind: "mygpu", Open: openAt, ...})
//	}
//
// They look at what a GPU's backend has to get right behind the contract: transfers
// through staging memory, operands that are imported or freed while work uses them,
// operations that allocate nothing, plans of any number of parts, graphs, and, where the
// device is a stand-in that can be made to fail (kernels/simt), every failure at every
// point.
package gputest
