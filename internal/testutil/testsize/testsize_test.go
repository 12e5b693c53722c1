package testsize

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestFull(t *testing.T) {
	for value, want := range map[string]bool{"": false, "chosen": false, "full": true} {
		t.Setenv(Env, value)
		require.Equal(t, want, Full(), value)
	}
}

// A property is tried as often as was asked for, and four times as often in full.
func TestHistories(t *testing.T) {
	Long(t) // with -short, Histories changes nothing
	checks := flag.Lookup("rapid.checks")
	was := checks.Value.String()
	defer func() { require.NoError(t, checks.Value.Set(was)) }()
	run := func() (n int) {
		rapid.Check(t, func(*rapid.T) { n++ })
		return n
	}
	for value, want := range map[string]int{"": 7, "full": 28} {
		require.NoError(t, checks.Value.Set(checks.DefValue))
		t.Setenv(Env, value)
		Histories(7)
		require.Equal(t, want, run())
	}
	require.NoError(t, checks.Value.Set("3"))
	Histories(7)
	require.Equal(t, 3, run(), "the flag was set")
}
