// Package kernels holds what the kernels of all kinds of devices have in common: the
// header that says how they are called.
package kernels

import _ "embed"

// ABI is abi.h.
//
//go:embed abi.h
var ABI string
