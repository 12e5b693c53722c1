//go:build cgo && !nometal && (darwin || metalsimt)

package mtl

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Each error stands for the one of package backend that a caller acts on.
func TestErrorKinds(t *testing.T) {
	for e, want := range map[Error][]error{
		{Call: "MTLCommandBuffer", Domain: "MTLCommandBufferErrorDomain", Code: 3}: {backend.ErrLost},
		{Call: "MTLCommandBuffer", Domain: "MTLCommandBufferErrorDomain", Code: 8}: {backend.ErrLost, backend.ErrOutOfMemory{}},
		{Call: "MTLCommandBuffer", Text: "failed without a reason"}:                {backend.ErrLost},
		{Call: "newBufferWithLength"}:                                              {backend.ErrOutOfMemory{}},
		{Call: "newLibraryWithSource", Domain: "MTLLibraryErrorDomain", Code: 3}:   nil,
		{Call: "newLibraryWithSource", Domain: "MTLLibraryErrorDomain", Code: 8}:   nil,
		{Call: "commandBuffer"}: nil,
	} {
		for _, kind := range []error{backend.ErrLost, backend.ErrOutOfMemory{}} {
			if slices.Contains(want, kind) {
				require.ErrorIs(t, e, kind)
			} else {
				require.NotErrorIs(t, e, kind)
			}
		}
	}
}

func TestErrorWords(t *testing.T) {
	require.EqualError(t, Error{Call: "commandBuffer", Text: "failed without a reason"}, "commandBuffer: failed without a reason")
	require.EqualError(t, Error{Call: "MTLCommandBuffer", Domain: "MTLCommandBufferErrorDomain", Code: 3, Text: "page fault"},
		"MTLCommandBuffer: page fault (MTLCommandBufferErrorDomain 3)")
}
