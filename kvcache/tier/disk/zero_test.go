package disk

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/zerotest"
)

// What no constructor made returns errors.
func TestZeroValues(t *testing.T) {
	zerotest.Check(t, zerotest.Types{
		Made:  []any{&Tier{}, &Simulation{}},
		Free:  []string{"Tier.Close", "Tier.Info"}, // which does nothing a second time; what it is
		Plain: []any{&ErrInUse{}, &ErrGone{}},
	})
}
