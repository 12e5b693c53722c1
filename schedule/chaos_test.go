package schedule

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"pgregory.net/rapid"
)

// Whatever is lost, closed or taken by others of the pool, every request ends.
func TestChaos(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bubble(t, func() {
			cfg, o := drawConfig(rt)
			var m *moody
			if cfg.Memory.Layout != kvcache.Contiguous && cfg.Memory.Prefix == 0 && rapid.Bool().Draw(rt, "tiers") {
				m = newMoody(rt)
				cfg.Tiers.More = []tier.Tier{m}
				o.Flush = time.Duration(rapid.IntRange(0, 1).Draw(rt, "flush")) * time.Second
			}
			dev := backendtest.NewFaulty[buffer](openCPU(rt))
			h := newHistory(rt, dev, cfg, o)
			h.patience = 24 * time.Hour
			var hogs []*kvcache.Sequence[buffer]
			var closing atomic.Bool // the batch, by the goroutine that uses it
			faults := []func(){
				func() { _ = h.pool.Close() },
				func() { closing.Store(true) },
				func() { _ = h.pool.Clear(true) },
				func() { dev.SetFault(func(backendtest.Call) error { return backend.ErrLost }) },
				func() {
					if seq, _, err := h.pool.Open([]uint32{1}, kvcache.OpenOptions{}); err == nil {
						_ = h.pool.Reserve(kvcache.Reservation[buffer]{Seq: seq, Tokens: 60})
						hogs = append(hogs, seq)
					}
				},
			}
			h.model.forward = func(s *Step[buffer]) error {
				time.Sleep(time.Millisecond)
				if closing.Load() {
					_ = s.Batch.Close()
				}
				return nil
			}
			h.schedule(rt, true, rapid.SampledFrom(faults).Draw(rt, "fault"))
			h.live(context.Background())
			dev.SetFault(nil)
			for _, g := range h.answers {
				g.most = 0
				g.check(rt, h.pool.Config().Memory.Capacity)
			}
			for _, seq := range hogs {
				_ = seq.Release()
			}
			_ = h.pool.Close()
			time.Sleep(time.Minute)
			_ = h.stream.Close()
			if m != nil {
				_ = m.Tier.Close()
			}
			_ = h.be.Close()
		})
	})
}
