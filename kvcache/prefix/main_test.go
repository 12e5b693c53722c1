package prefix

import (
	"flag"
	"os"
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
)

// TestMain makes property tests run thousands of histories in all, unless told
// otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	checks := flag.Lookup("rapid.checks")
	if !testing.Short() && !race.Enabled && checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("250"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
