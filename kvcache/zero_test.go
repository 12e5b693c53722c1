package kvcache

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/internal/testutil/zerotest"
)

// What no constructor made returns errors.
func TestZeroValues(t *testing.T) {
	zerotest.Check(t, zerotest.Types{
		Made:  []any{&Batch[*cpu.Buffer]{}, &Pool[*cpu.Buffer]{}, &Sequence[*cpu.Buffer]{}, &Standalone[*cpu.Buffer]{}},
		Free:  []string{"Pool.NewBatch"}, // a batch that is closed
		Plain: []any{&ErrStep{}, &ErrPrompt{}, &ErrPoolSize{}, &ErrResume{}, &ErrGone{}, &ErrSpan{}, &ErrView{}},
	})
}
