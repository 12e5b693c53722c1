// Package variants lets test programs run CUDA kernels that are compiled and not chosen yet, in place of the embedded ones
// or beside them. In every other program there are none.
package variants

import (
	"slices"
	"sync"

	cudakernels "github.com/ferrumkv/ferrumkv/kernels/cuda"
)

var (
	mu     sync.Mutex
	chosen []*cudakernels.Set // guarded by mu
)

// Choose sets the kernels that devices opened from here on look for first, in this order.
func Choose(sets ...*cudakernels.Set) {
	mu.Lock()
	defer mu.Unlock()
	chosen = slices.Clone(sets)
}

// Chosen are those.
func Chosen() []*cudakernels.Set {
	mu.Lock()
	defer mu.Unlock()
	return chosen
}
