// Package quantized shows caches in fewer bits: the same tokens in a quarter of the
// memory of 16-bit floats and less, what that costs in accuracy, and a window of recent
// tokens that stay exact.
package quantized
