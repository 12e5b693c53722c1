package bench

import (
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain keeps benchmarks from being repeated: they only report what the rounds measured.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.benchtime", "1x"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// Every kernel of the CPU against the limits of the machine. All of it is measured first; there
// is nothing left to do for the benchmarks of its trials.
func BenchmarkCPU(b *testing.B) {
	r, err := newProcessor(testing.Short(), chosen(flag.Lookup("test.bench").Value.String()))
	require.NoError(b, err)
	defer func() { require.NoError(b, r.close()) }()
	require.NoError(b, r.run())
	r.describe(os.Stdout)
	for _, t := range r.trials {
		b.Run(t.String(), func(b *testing.B) {
			for unit, value := range t.metrics() {
				b.ReportMetric(value, unit)
			}
		})
	}
}
