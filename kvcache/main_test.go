package kvcache

import (
	"flag"
	"os"
	"testing"
)

// TestMain makes property tests run thousands of histories unless told otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	checks := flag.Lookup("rapid.checks")
	if !testing.Short() && checks.Value.String() == checks.DefValue {
		n := "1000"
		if raceEnabled {
			n = "100"
		}
		if err := checks.Value.Set(n); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
