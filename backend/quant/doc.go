// Package quant has the codecs of the storage formats of keys and values: conversion between
// float32 and half precision, floats of 8 and 4 bits, and integers of 2, 3, 4 and 8 bits that share
// scales in groups.
//
// Every device makes the same codes of the same values and reads the same values from the same
// codes: the arithmetic is float32, and each operation is rounded.
package quant
