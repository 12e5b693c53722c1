package disk

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/seal"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

const (
	benchPayload = 2 << 20
	benchSlots   = 64
)

// rate is payloads of benchPayload a second, in MB/s.
func rate(n int, d time.Duration) float64 { return float64(n) * benchPayload / 1e6 / d.Seconds() }

func benchBlocks(first int) []tier.Block {
	out := make([]tier.Block, benchSlots)
	for i := range out {
		out[i] = tier.Block{Key: keyOf(first + i), Bytes: content(keyOf(i), benchPayload)}
		out[i].Sum = out[i].Summed()
	}
	return out
}

// BenchmarkTier writes 128 MiB in blocks of 2 MiB, replaces all of them, and reads them back from the page cache and, where the
// system lets go of it, from the disk. It does the same with plain calls on a file of its own, synced as often, by turns. The fractions are those
// of the tier's rates and the plain ones.
func BenchmarkTier(b *testing.B) {
	for _, encrypted := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "encrypted"}[encrypted], func(b *testing.B) {
			first, later := benchBlocks(1), benchBlocks(1+benchSlots)
			phases := []string{"put", "churn", "get", "cold"}
			took, plain := make([]time.Duration, len(phases)), make([]time.Duration, len(phases))
			cold := true
			for b.Loop() {
				dir := b.TempDir()
				o := Options{Dir: dir, Payload: benchPayload, Bytes: 3*page + benchSlots*(benchPayload+entryBytes), Floor: 1}
				if encrypted {
					o.Secret = make([]byte, seal.SecretBytes)
				}
				d, err := Open(o)
				require.NoError(b, err)
				f := &plainFile{b: b, at: filepath.Join(dir, "plain")}
				f.open()
				dst := make([]byte, benchPayload)
				get, read := func() { getAll(b, d, later, dst) }, func() { f.read(dst) }
				for i, calls := range [][2]func(){
					{func() { putAll(b, d, first) }, func() { f.write(first) }},
					{func() { putAll(b, d, later) }, func() { f.write(later) }},
					{get, read}, {get, read},
				} {
					if phases[i] == "cold" {
						require.NoError(b, f.f.Sync())
						cold = d.uncached() && f.f.forget() && cold
					}
					took[i] += timed(calls[0])
					plain[i] += timed(calls[1])
				}
				require.NoError(b, d.Close())
				require.NoError(b, f.f.Close())
				require.NoError(b, os.RemoveAll(dir))
			}
			for i, name := range phases {
				if name != "cold" || cold {
					b.ReportMetric(rate(b.N*benchSlots, took[i]), name+"-MB/s")
					b.ReportMetric(plain[i].Seconds()/took[i].Seconds(), name+"-fraction")
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func timed(call func()) time.Duration {
	began := time.Now()
	call()
	return time.Since(began)
}

func putAll(b *testing.B, d *Tier, blocks []tier.Block) {
	for i := 0; i < len(blocks); i += 4 {
		require.NoError(b, d.Put(ctx, blocks[i:i+4]))
	}
	require.NoError(b, d.Sync())
}

func getAll(b *testing.B, d *Tier, blocks []tier.Block, dst []byte) {
	for i := range blocks {
		n, err := d.Get(ctx, []tier.Block{{Key: blocks[i].Key, Bytes: dst}})
		require.NoError(b, err)
		require.Equal(b, 1, n)
	}
}

// plainFile is what the tier is compared with.
type plainFile struct {
	b  *testing.B
	at string
	f  *osFile
}

func (p *plainFile) open() {
	f, err := machine{}.Open(p.at)
	require.NoError(p.b, err)
	p.f = f.(*osFile)
}

func (p *plainFile) write(blocks []tier.Block) {
	for i := range blocks {
		_, err := p.f.WriteAt(blocks[i].Bytes, int64(i)*benchPayload)
		require.NoError(p.b, err)
		if (i+1)*benchPayload%(64<<20) == 0 {
			require.NoError(p.b, p.f.Sync())
		}
	}
}

func (p *plainFile) read(dst []byte) {
	for i := range benchSlots {
		_, err := p.f.ReadAt(dst, int64(i)*benchPayload)
		require.NoError(p.b, err)
	}
}
