// Package testsize says how much tests try. By default they try what is chosen to find mistakes
// in minutes: pairs of values, some hundred histories. With go test -short they leave out what is long, which is how
// make test-cpu runs them. With FERRUM_TEST_GRID=full in the environment they try the whole of it, for nights: all of a matrix
// on all kernels and on emulated devices, and several times as many histories.
package testsize

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// Env is the variable that asks for everything where its value is "full".
const Env = "FERRUM_TEST_GRID"

// Full reports whether tests are to try everything.
func Full() bool { return os.Getenv(Env) == "full" }

// Long skips a test with -short: it takes seconds on a quiet machine. scripts/test-long runs the packages that call it.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
}

// fullHistories is how many times more histories full tests run.
const fullHistories = 4

// Histories has property tests run n histories each, more in full tests, unless the flag
// -rapid.checks says how many, or -short that few will do. A TestMain calls it before m.Run.
func Histories(n int) {
	flag.Parse()
	checks := flag.Lookup("rapid.checks")
	short := flag.Lookup("test.short")
	if short.Value.String() == "true" || checks.Value.String() != checks.DefValue {
		return
	}
	if Full() {
		n *= fullHistories
	}
	if err := checks.Value.Set(strconv.Itoa(n)); err != nil {
		panic(err)
	}
}
