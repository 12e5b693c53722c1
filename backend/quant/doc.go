// Package quant has the codecs of the storage formats of keys and values: conversion between
// float32 and half precision, floats of 8 and 4 bits, and integers of 2, 3, 4 and 8 bits that share
// scales in groups.
//
// Every device makes the same codes of the same values and reads the same values from the same
// codes: the arithmetic is float32, and each operation is rounded.
//
// Finite values are stored as finite values. Scales cover magnitudes up to 0x1.ep127 (3.19e38), and larger ones
// saturate; a group of MX reaches 1.5 * 2^127. What is stored with a scale that
// the caller gives (EncodeFP8) is finite as long as the scale times the type's largest code is.
//
// Codecs do not check sizes: they panic, or return nothing useful, where codes, scales or rows are shorter than the
// format requires, for an empty group, for codes of less than 2 or more than 8 bits, and for a type that is not theirs.
package quant
