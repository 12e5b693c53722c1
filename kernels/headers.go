// Package kernels holds what the kernels of all kinds of devices have in common: the
// headers that say how they are called.
package kernels

import "embed"

// Headers is abi.h, and storage.h, which says what the types of a quantized cache are.
//
//go:embed abi.h storage.h
var Headers embed.FS
