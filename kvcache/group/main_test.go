package group

import (
	"flag"
	"os"
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
)

// TestMain makes property tests run hundreds of histories of 60 operations, unless told otherwise. A million
// operations are
//
//	go test ./kvcache/group -run Histories -rapid.checks 17000
func TestMain(m *testing.M) {
	if race.Enabled {
		testsize.Histories(30)
	} else {
		testsize.Histories(200)
	}
	if steps := flag.Lookup("rapid.steps"); steps.Value.String() == steps.DefValue {
		if err := steps.Value.Set("60"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
