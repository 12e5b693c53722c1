package kvcache

import (
	"log/slog"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
)

// BenchmarkLogged opens and releases a sequence, which is what the pool logs most, without a logger and with one at each level.
func BenchmarkLogged(b *testing.B) {
	for _, level := range []string{"none", "info", "debug"} {
		b.Run(level, func(b *testing.B) {
			r := tiered(b, 64, config.Tiers{}, func(c *Config) {
				c.Memory.Layout = Paged
				switch level {
				case "info":
					c.Logger = slog.New(slog.NewTextHandler(&lines{}, nil))
				case "debug":
					c.Logger = slog.New(slog.NewTextHandler(&lines{}, &slog.HandlerOptions{Level: slog.LevelDebug}))
				}
			})
			prompt := sequence(0, 23)
			b.ReportAllocs()
			for b.Loop() {
				seq, _, err := r.pool.Open(prompt, OpenOptions{})
				if err != nil {
					b.Fatal(err)
				}
				if err := seq.Release(); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			r.close()
		})
	}
}
