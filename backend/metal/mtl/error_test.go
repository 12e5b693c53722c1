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
		{Call: "MTLCommandBuffer", Domain: "MTLCommandBufferErrorDomain", Code: 4}: {backend.ErrLost, backend.ErrUnavailable{}},
		{Call: "MTLCommandBuffer", Domain: "MTLCommandBufferErrorDomain", Code: 7}: {backend.ErrLost},
		{Call: "MTLCommandBuffer", Domain: "OtherDomain", Code: 4}:                 {backend.ErrLost},
		{Call: "MTLCommandBuffer", Domain: "OtherDomain", Code: 8}:                 {backend.ErrLost},
		{Call: "MTLCommandBuffer", Text: "failed without a reason"}:                {backend.ErrLost},
		{Call: "newBufferWithLength"}:                                              {backend.ErrOutOfMemory{}},
		{Call: "newLibraryWithSource", Domain: "MTLLibraryErrorDomain", Code: 3}:   nil,
		{Call: "newLibraryWithSource", Domain: "MTLLibraryErrorDomain", Code: 8}:   nil,
		{Call: "newLibraryWithSource", Domain: "MTLLibraryErrorDomain", Code: 4}:   nil,
		{Call: "commandBuffer"}: nil,
	} {
		for _, kind := range []error{backend.ErrLost, backend.ErrOutOfMemory{}, backend.ErrUnavailable{}} {
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
	require.EqualError(t, Error{Call: "newLibraryWithSource", Domain: "MTLLibraryErrorDomain", Code: 3, Text: "no such type"},
		"newLibraryWithSource: no such type (MTLLibraryErrorDomain 3)")
	require.EqualError(t, Error{Call: "MTLCommandBuffer", Domain: "MTLCommandBufferErrorDomain", Code: 5, Text: "what"},
		"MTLCommandBuffer: what (MTLCommandBufferErrorDomain 5)", "a code that Metal does not have")
	for code, words := range map[int64]string{1: "1, internal: ", 2: "2, timeout: ", 3: "3, page fault: ", 4: "4, access revoked: ", 7: "7, not permitted: ",
		8: "8, out of memory: ", 9: "9, invalid resource: ", 11: "11, device removed: ", 12: "12, stack overflow: "} {
		require.ErrorContains(t, Error{Call: "MTLCommandBuffer", Domain: "MTLCommandBufferErrorDomain", Code: code, Text: "what"},
			"MTLCommandBuffer: what (MTLCommandBufferErrorDomain "+words)
	}
	require.ErrorContains(t, Error{Call: "MTLCommandBuffer", Domain: "MTLCommandBufferErrorDomain", Code: 2}, "take fewer tokens in a step")
	require.ErrorContains(t, Error{Call: "MTLCommandBuffer", Domain: "MTLCommandBufferErrorDomain", Code: 4}, "restart the process")
}
