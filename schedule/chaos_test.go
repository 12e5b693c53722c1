package schedule

import (
	"context"
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
			closed := false
			var hogs []*kvcache.Sequence[buffer]
			kind := rapid.IntRange(0, 4).Draw(rt, "kind")
			fault := func() {
				switch kind {
				case 0:
					if !closed {
						closed = true
						_ = h.pool.Close()
					}
				case 1:
					dev.SetFault(func(backendtest.Call) error { return backend.ErrLost })
				case 2:
					seq, _, err := h.pool.Open([]uint32{1}, kvcache.OpenOptions{})
					if err == nil {
						_ = h.pool.Reserve(kvcache.Reservation[buffer]{Seq: seq, Tokens: 60})
						hogs = append(hogs, seq)
					}
				case 3:
					_ = h.batch.Close()
				case 4:
					_ = h.pool.Clear(true)
				}
			}
			h.model.forward = func(*Step[buffer]) error { time.Sleep(time.Millisecond); return nil }
			h.schedule(rt, true, fault)
			step := h.model.forward
			h.model.forward = func(s *Step[buffer]) error {
				h.fair(s)
				h.play(false)
				return step(s)
			}
			go func() {
				for h.play(true) {
					for _, g := range h.answers {
						<-g.Done()
					}
				}
				h.s.Drain()
			}()
			h.run(context.Background())
			dev.SetFault(nil)
			for _, g := range h.answers {
				g.most = 0
				g.check(rt, h.pool.Config().Memory.Capacity)
			}
			for _, seq := range hogs {
				_ = seq.Release()
			}
			if !closed {
				_ = h.pool.Close()
			}
			time.Sleep(time.Minute)
			_ = h.stream.Close()
			if m != nil {
				_ = m.Tier.Close()
			}
			_ = h.be.Close()
		})
	})
}
