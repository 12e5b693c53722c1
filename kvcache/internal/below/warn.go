package below

import (
	"log/slog"
	"slices"
	"sync"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
)

// warned is what was logged.
var warned sync.Map

// Warn logs the variables that a pool ignores, each once in a process: those of its configuration, and those whose tier could not be
// opened.
func (b *Below[B]) Warn(cfg *config.Config) {
	for _, i := range slices.Concat(cfg.Ignored(), b.Ignored) {
		if _, again := warned.LoadOrStore(i, true); !again {
			slog.Warn("kvcache: an environment variable is ignored", "variable", i.Variable, "value", i.Value, "why", i.Why)
		}
	}
}
