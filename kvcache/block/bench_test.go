package block

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every operation that succeeds works without the heap.
func TestZeroAllocations(t *testing.T) {
	a := open(t, 64)
	var c, d Claim
	rs := []Reservation{{&c, 8}, {&d, 8}, {&c, 4}}
	buf := make([]Block, 0, 64)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		b, err := a.Allocate()
		must(err)
		must(a.Retain(b))
		must(a.Release(b, true))
		must(a.Release(b, true))
		must(a.Take(b))
		must(a.Release(b, true))
		must(a.Discard(b))
		bs, err := a.AllocateN(buf, 16)
		must(err)
		must(a.Reserve(rs))
		bs, err = a.AllocateClaimed(&c, bs, 16)
		must(err)
		must(a.RetainN(bs))
		must(a.ReleaseN(bs, 20))
		must(a.ReleaseN(bs, 20))
		a.Cancel(&c)
		a.Cancel(&d)
		must(a.Check())
	}))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func BenchmarkAllocateRelease(b *testing.B) {
	a := open(b, 1<<12)
	b.ReportAllocs()
	for b.Loop() {
		blk, err := a.Allocate()
		if err != nil {
			b.Fatal(err)
		}
		if err := a.Release(blk, false); err != nil {
			b.Fatal(err)
		}
	}
}

// The same over every block in turn, where the free list is not in the cache.
func BenchmarkAllocateReleaseCached(b *testing.B) {
	a := open(b, 1<<20)
	b.ReportAllocs()
	for b.Loop() {
		blk, err := a.Allocate()
		if err != nil {
			b.Fatal(err)
		}
		if err := a.Release(blk, true); err != nil {
			b.Fatal(err)
		}
	}
}

// A sequence of 64 blocks comes and goes; the time is for all of them.
func BenchmarkSequence64(b *testing.B) {
	a := open(b, 1<<12)
	buf := make([]Block, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		bs, err := a.AllocateN(buf, 64)
		if err != nil {
			b.Fatal(err)
		}
		if err := a.ReleaseN(bs, 63); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTake(b *testing.B) {
	a := open(b, 1<<12)
	bs := take(b, a, 1<<12)
	must(a.ReleaseN(bs, len(bs)))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		at := bs[i%len(bs)]
		must(a.Take(at))
		must(a.Release(at, true))
	}
}
