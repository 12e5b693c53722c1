package main

import (
	"fmt"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// Storages is the C side of abi.Storage: what the bits of its words say, and the words of all
// quantized types, for the tests of the kernels.
func Storages() []byte {
	var b strings.Builder
	b.WriteString(`/* Code generated from backend/coding.go by backend/internal/abi/gen. DO NOT EDIT. */
/*
 * How a plane of the cache is stored, as kernels look it up when they run: a type's row in
 * backend/coding.go as a word. Kernels test its bits and know no type by number.
 */
#ifndef FKV_STORAGE_H
#define FKV_STORAGE_H

`)
	for i, bit := range abi.StorageBits {
		fmt.Fprintf(&b, "#define FKV_%s %#x /* %s */\n", bit.Name, 1<<i, bit.Says)
	}
	fmt.Fprintf(&b, `
/* word >> FKV_SHARE is the logarithm of the octets, 8 elements of a row each, that have a word of scales together. */
#define FKV_SHARE %d

/* Every type: its name, and its word. */
#define FKV_EACH_STORAGE(f)`, abi.ShareShift)
	var each, words strings.Builder
	for dt := range backend.StorageTypes {
		if dt.Quantized() {
			name := "FKV_STORAGE_" + strings.ToUpper(dt.String())
			fmt.Fprintf(&each, " \\\n    f(%s, %s)", dt, name)
			fmt.Fprintf(&words, "#define %s %#xu\n", name, abi.Storage(dt))
		}
	}
	b.WriteString(each.String() + "\n\n" + words.String() + "\n#endif\n")
	return []byte(b.String())
}
