package cpubench

import (
	"flag"
	"os"
	"testing"
)

// TestMain keeps benchmarks from being repeated: they only report what the rounds measured.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.benchtime", "1x"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// Every kernel of the CPU against the limits of the machine.
func BenchmarkCPU(b *testing.B) { Run(b) }
