// Package backendtest is the conformance suite of package backend: one call,
//
//	func TestConformance(t *testing.T) {
//		backendtest.Run(t, func(t testing.TB) backend.Backend[*mydev.Buffer] {
//			be, err := mydev.Open()
//			require.NoError(t, err)
//			return be
//		})
//	}
//
// checks every sentence of the contract that can be observed from outside, on
// the typed device and on its erased form. What a device's Caps do not list
// (a format, a pair of head dims, a block size) is skipped by name. Of the pairs of
// quantized types a device may list hundreds: ten go through everything, of the others
// some are tried (see sampled).
//
// # What is compared with what
//
// Attention, merging and rotation are compared with a float64 reference
// (oracle.go, written with mathgl's mgl64) that reads the values as the device
// stores them, so that rounding of inputs is nobody's error. The error of an
// output row is ‖out − ref‖ / max(‖ref‖, 0.01), at most 1e-5, 2e-3 and 1e-2 for
// f32, f16 and bf16; log-sum-exps may differ by 1e-4. Moving data is bit-exact.
//
// Over quantized caches the reference reads what the codes are worth, with the same
// limits, which are those of log-sum-exps, too: a device may round the values to the
// activation type. What a device quantizes has the bits that package quant makes of it; keys that
// are rotated on their way may be half a step from their place, of a step that is
// no longer than it has to be (see settle). A mode that rounds queries, too, and attention
// against the values before they were quantized have limits of their own.
//
// # What must not matter
//
// Slots that no sequence uses, blocks that no table names, gaps between strided
// rows, unused table entries and outputs before they are written hold poison
// (NaN, a scale of NaN, or an index far outside). Every buffer is larger than the operand in it;
// the rest is guard elements. After each operation every buffer is downloaded
// and compared bit by bit with what it must hold, inputs included.
//
// # Devices that are late, and that fail
//
// For tests of programs that use a device there are two that wrap another one: Late runs
// what is enqueued when somebody waits, in an order of its own; Faulty fails when it is told,
// runs out of memory, or is lost. Both are devices like any other: kvcache.NewPool takes
// them (examples/failures).
//
// # What a device needs
//
// Offsets and strides of rows are multiples of 16 elements. Memory use stays
// below 300 MB. Devices that are slow, as emulators are, limit the size of the
// attention cases with Options.
package backendtest
