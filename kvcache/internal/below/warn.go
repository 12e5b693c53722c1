package below

import (
	"context"
	"log/slog"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
)

// Warn logs the variables that a pool ignores: those of its configuration, and those whose tier could not be opened.
func (b *Below[B]) Warn(log *slog.Logger, cfg *config.Config) {
	for _, i := range slices.Concat(cfg.Ignored(), b.Ignored) {
		log.LogAttrs(context.Background(), slog.LevelWarn, "kvcache: an environment variable is ignored", slog.String("variable", i.Variable), slog.String("value", i.Value), slog.String("why", i.Why))
	}
}
