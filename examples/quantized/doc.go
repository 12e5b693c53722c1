// Package quantized shows caches in fewer bits: the same tokens in half the memory of
// 16-bit floats and less, what that costs in accuracy, and KIVI, which keeps the newest
// tokens as floats.
package quantized
