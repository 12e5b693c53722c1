// Package backendtest is the conformance suite of package backend. One call,
//
//	func TestConformance(t *testing.T) {
//		backendtest.Run(t, func(t testing.TB) backend.Backend[*mydev.Buffer] {
//			be, err := mydev.Open()
//			require.NoError(t, err)
//			return be
//		})
//	}
//
// checks every statement of the contract that can be observed from outside, on the typed device and
// on its erased form. Formats, head dims, block sizes and masks that are not in the device's Caps are
// skipped, and named. Of the pairs of quantized types, which may be hundreds, ten are tested in
// full and some of the others are sampled (see sampled). A device whose Caps have no latent caches has to refuse them.
//
// # What is compared with what
//
// Attention, merging and rotation are compared with a float64 reference (oracle.go, written with
// mathgl's mgl64) that reads the values as the device stores them, so that the rounding of inputs
// does not count as an error. The error of an output row is ‖out − ref‖ / max(‖ref‖, 0.01), at most
// 1e-5, 2e-3 and 1e-2 for f32, f16 and bf16; log-sum-exps may differ by 1e-4. Moving data is
// bit-exact.
//
// Over quantized caches the reference reads the values that the codes stand for. The limits are the
// same, for log-sum-exps too, as a device may round the values to the activation type. What a
// device quantizes has the bits that package quant computes; keys that are rotated before they are
// quantized may differ by half a step, and the step may not be longer than necessary (see settle).
// Finite values at the ends of a type's range are stored and read as finite ones in every format that a
// device lists. Attention with activations of 16 bits is asked for less: up to 60000 in f16, and 2^119 in bf16.
// Modes that also round queries, and attention compared with the values before quantization, have
// limits of their own.
//
// # What must not matter
//
// Slots that no sequence uses, blocks in no table, gaps between strided rows, unused table entries
// and outputs before they are written are filled with poison (NaN, a scale of NaN, or an index far
// out of range). Every buffer is larger than its operand; the rest is guard elements. After each
// operation every buffer, inputs included, is downloaded and compared bit by bit with what it must
// hold.
//
// # Late and failing devices
//
// Two devices wrap another one, for tests of programs that use a device: Late runs enqueued work as
// late as possible, in a random order; Faulty fails when a test says so, runs out of memory, or is
// lost. Both can be used like any other device, for instance with kvcache.NewPool
// (examples/failures).
//
// # What a device needs
//
// Offsets and strides of rows are multiples of 16 elements. Memory use stays below 300 MB. For slow
// devices, such as emulators, Options limits the size of the attention cases.
package backendtest
