package kvcache

import (
	"flag"
	"os"
	"strings"
	"testing"
)

// TestMain makes property tests run thousands of histories unless told otherwise,
// and fewer where each takes long.
func TestMain(m *testing.M) {
	flag.Parse()
	checks := flag.Lookup("rapid.checks")
	if !testing.Short() && checks.Value.String() == checks.DefValue {
		n := "1000"
		switch {
		case strings.HasPrefix(deviceName(), "cpu") && !raceEnabled:
		case emulated(testDevice().Info):
			n = "30"
		default:
			n = "100"
		}
		if err := checks.Value.Set(n); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
