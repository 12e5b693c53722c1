// What it costs.

package pubsub

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvevents"
	"github.com/ferrumkv/ferrumkv/kvevents/internal/zmtp"
)

// BenchmarkPublish publishes batches of a block of 16 tokens that comes and one that goes, until all subscribers have received them.
func BenchmarkPublish(b *testing.B) {
	for _, n := range []int{0, 1, 32} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := listen(b, PublisherOptions{})
			store := &kvevents.Stored{Hashes: make([]kvevents.Hash, 1), Tokens: make([]uint32, 16), BlockSize: 16, Medium: "GPU"}
			remove := &kvevents.Removed{Hashes: make([]kvevents.Hash, 1), Medium: "GPU"}
			var received sync.WaitGroup
			last := uint64(b.N)
			for range n {
				s := follow(b, SubscriberOptions{Events: of(p).Events, Replay: of(p).Replay, times: usualTimes})
				_, err := s.Next(b.Context())
				require.NoError(b, err)
				received.Go(func() {
					var d kvevents.Decoder
					for done := false; !done; {
						m, err := s.Next(b.Context())
						if err != nil {
							b.Error(err)
							return
						}
						if _, err := d.Decode(m.Payload, func(_ kvevents.Batch, e kvevents.Event) error {
							if e, ok := e.(*kvevents.Stored); ok && e.Hashes[0].Number == last {
								done = true
							}
							return nil
						}); err != nil {
							b.Error(err)
						}
					}
				})
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				store.Hashes[0].Number, remove.Hashes[0].Number = uint64(i+1), uint64(i)
				if err := p.Publish(store, remove); err != nil {
					b.Fatal(err)
				}
			}
			received.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "batches/s")
		})
	}
}

// BenchmarkReplay is a subscriber that joins a publisher of a full log.
func BenchmarkReplay(b *testing.B) {
	p := listen(b, PublisherOptions{})
	for i := range 9000 {
		require.NoError(b, p.Publish(block(uint64(i+1), 0)))
	}
	for b.Loop() {
		s := follow(b, SubscriberOptions{Events: of(p).Events, Replay: of(p).Replay, times: usualTimes})
		for {
			m, err := s.Next(b.Context())
			require.NoError(b, err)
			if m.Sequence == 9000 {
				break
			}
		}
		require.NoError(b, s.Close())
	}
	b.ReportMetric(9001*float64(b.N)/b.Elapsed().Seconds(), "batches/s")
}

// BenchmarkEpoch begins an epoch with 100,000 blocks of 16 tokens.
func BenchmarkEpoch(b *testing.B) {
	p := listen(b, PublisherOptions{LogBytes: 1}) // the log is as small as it can be
	before := heap()
	e := &kvevents.Stored{Hashes: make([]kvevents.Hash, 10), Tokens: make([]uint32, 160), BlockSize: 16, Medium: "GPU"}
	for i := range 10_000 {
		for j := range e.Hashes {
			e.Hashes[j].Number = uint64(i*10+j) * 0x9e3779b97f4a7c15
		}
		for j := range e.Tokens {
			e.Tokens[j] = uint32(i+j) % 30000
		}
		require.NoError(b, p.Publish(e))
	}
	p.begin()
	held := float64(heap()-before-p.Stats().LogBytes) / 100_000
	for b.Loop() {
		p.begin()
	}
	b.ReportMetric(float64(p.Stats().LogBytes), "bytes")
	b.ReportMetric(held, "bytes/block")
}

// BenchmarkStalled reports what a subscriber that reads nothing holds.
func BenchmarkStalled(b *testing.B) {
	p := listen(b, PublisherOptions{LogBytes: 2 << 20})
	publish := func() {
		for i := range 2000 {
			require.NoError(b, p.Publish(large(i)...))
		}
	}
	publish()
	before := heap() - p.Stats().LogBytes
	for range 32 {
		stalled(b, of(p).Events, zmtp.Sub)
	}
	publish()
	b.ReportMetric(float64(heap()-p.Stats().LogBytes-before)/32, "bytes/peer")
}
