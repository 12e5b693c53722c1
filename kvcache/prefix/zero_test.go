package prefix

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/zerotest"
)

// What no constructor made returns errors.
func TestZeroValues(t *testing.T) {
	zerotest.Check(t, zerotest.Types{
		Made:  []any{&Tree{}},
		Free:  []string{"Tree.Subscribe"}, // a stream that has ended
		Plain: []any{&ErrPinned{}, &ErrInUse{}, &ErrArgument{}, new(MissReason), &Root{}, new(Policy), &Match{}, &Key{}, &Query{}, &Scope{}, &RetentionHint{}, &Fingerprint{}, &Part{}, new(EventKind), &Lease{}},
	})
}
