package plan

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Space is the layout of a workspace, in f32 elements: where each part starts, and
// the length of all. Parts start at multiples of 16 bytes.
type Space struct {
	FinalLSE   int // [tokens, query heads], where the plan is good for attention mass
	PartialLSE int // [partial rows]
	Partial    int // [partial rows, V dim]
	Len        int
}

// align is the elements that parts of a workspace are aligned to.
const align = 4

// spaceOf lays a workspace out. It is false when the sizes overflow.
func spaceOf(tokens, qHeads, partialRows, vDim int, mass bool) (s Space, ok bool) {
	var finals int
	if mass {
		if finals, ok = backend.Mul(tokens, qHeads); !ok {
			return Space{}, false
		}
	}
	rows, ok := backend.Mul(partialRows, vDim)
	if !ok {
		return Space{}, false
	}
	if s.PartialLSE, ok = after(0, finals); !ok {
		return Space{}, false
	}
	if s.Partial, ok = after(s.PartialLSE, partialRows); !ok {
		return Space{}, false
	}
	s.Len, ok = after(s.Partial, rows)
	return s, ok
}

// after is the first aligned element after n elements from start on.
func after(start, n int) (int, bool) {
	if n > math.MaxInt-start-(align-1) {
		return 0, false
	}
	return (start + n + align - 1) / align * align, true
}
