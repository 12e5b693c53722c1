package cpu

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// BenchmarkBlockSet packs and unpacks blocks of 2 MiB, more than caches hold, of the keys and values of 32 layers, and with scales, beside
// plain copies of as many bytes in one piece: of-copy is the set's bytes a second as a fraction of theirs.
func BenchmarkBlockSet(b *testing.B) {
	const block, blocks, layers = 2 << 20, 128, 32
	for _, c := range []struct {
		name   string
		planes []int // bytes of a block
	}{
		{"dense", []int{block / layers / 2, block / layers / 2}},
		{"quantized", []int{31 << 10, 1 << 10, 31 << 10, 1 << 10}},
	} {
		for _, threads := range []int{1, 0} {
			be, err := Open(Options{Threads: threads})
			require.NoError(b, err)
			s, err := be.NewStream()
			require.NoError(b, err)
			var planes []backend.BlockPlane[*Buffer]
			for range layers {
				for _, each := range c.planes {
					buf, err := be.Alloc(backend.Int8, each*blocks)
					require.NoError(b, err)
					require.NoError(b, be.Fill(s, buf, 0, buf.Len(), 1))
					planes = append(planes, backend.BlockPlane[*Buffer]{Buf: buf, Each: each})
				}
			}
			set, err := backend.NewBlockSet(be, planes)
			require.NoError(b, err)
			require.EqualValues(b, block, set.BlockBytes())
			host, err := backend.HostAlloc(be, blocks*block)
			require.NoError(b, err)
			plain := make([]byte, blocks*block)
			for i := range plain {
				plain[i] = byte(i)
			}
			copy(host.Bytes(), plain)
			from, to := rand.New(rand.NewPCG(1, 2)).Perm(blocks), rand.New(rand.NewPCG(3, 4)).Perm(blocks)
			name := c.name + "/all"
			if threads == 1 {
				name = c.name + "/one"
			}
			measure := func(name string, move func(i int) error, copies func(i int)) {
				b.Run(name, func(b *testing.B) {
					var own, copied []time.Duration
					for b.Loop() {
						n := len(own)
						begin := time.Now()
						err := move(n)
						middle := time.Now()
						copies(n + blocks/2)
						own, copied = append(own, middle.Sub(begin)), append(copied, time.Since(middle))
						if err != nil {
							b.Fatal(err)
						}
					}
					slices.Sort(own)
					slices.Sort(copied)
					ours, theirs := own[len(own)/4].Seconds(), copied[len(copied)/4].Seconds() // others use the machine, too
					b.ReportMetric(block/ours/1e9, "GB/s")
					b.ReportMetric(block/theirs/1e9, "copy-GB/s")
					b.ReportMetric(theirs/ours, "of-copy")
				})
			}
			mem := host.Bytes()
			measure("pack/"+name, func(i int) error {
				return set.Pack(s, []uint32{uint32(from[i%blocks])}, host, int64(to[i%blocks])*block)
			}, func(i int) { copy(mem[to[i%blocks]*block:][:block], plain[from[i%blocks]*block:]) })
			measure("unpack/"+name, func(i int) error {
				return set.Unpack(s, []uint32{uint32(from[i%blocks])}, host, int64(to[i%blocks])*block)
			}, func(i int) { copy(plain[from[i%blocks]*block:][:block], mem[to[i%blocks]*block:]) })
			require.NoError(b, set.Close())
			require.NoError(b, host.Close())
			require.NoError(b, be.Close())
		}
	}
}
