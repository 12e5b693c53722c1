package host

import (
	"os"
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
)

// TestMain makes property tests run hundreds of histories unless told otherwise, and
// fewer where each takes long.
func TestMain(m *testing.M) {
	if race.Enabled {
		testsize.Histories(50)
	} else {
		testsize.Histories(300)
	}
	os.Exit(m.Run())
}
