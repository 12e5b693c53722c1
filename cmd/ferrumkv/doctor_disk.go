package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/disk"
)

// diskStatus is what a directory's disk does with the blocks of a cache, and whether it is worth loading them from there.
type diskStatus struct {
	Dir         string        `json:"dir"`
	Error       string        `json:"error,omitempty"`
	BlockTokens int           `json:"block_tokens,omitempty"`
	BlockBytes  int64         `json:"block_bytes,omitempty"`
	Blocks      int           `json:"blocks,omitempty"`                  // that were written and read
	Write       float64       `json:"write_bytes_per_second,omitempty"`  // synced
	Read        float64       `json:"read_bytes_per_second,omitempty"`   // many blocks by one call
	First       float64       `json:"first_block_seconds,omitempty"`     // of a call for one block, the median
	Cold        bool          `json:"cold"`                              // reads came from the disk, as far as the system tells
	BreakEven   []prefillRate `json:"loading_beats_computing,omitempty"` // below these rates
}

// prefillRate is the rate at which computing the keys and values of that many tokens takes as long as loading them.
type prefillRate struct {
	Tokens          int     `json:"tokens"`
	TokensPerSecond float64 `json:"tokens_per_second"`
}

// promptLengths are what doctor reports on: the latency of the first block counts less in long ones.
var promptLengths = [...]int{256, 2048, 16384}

// inBlocks is the tokens and bytes of the blocks that a configuration has in the paged layout, the only one with tiers.
func inBlocks(cfg *kvcache.Config, bytesPerToken int64) (tokens int, bytes int64) {
	tokens = config.DefaultBlockSize
	if cfg.Memory.Layout == kvcache.Paged {
		tokens = cfg.EntryTokens()
	}
	return tokens, int64(tokens) * bytesPerToken
}

// on measures the disk of a directory.
func (s *diskStatus) on(ctx context.Context, dir string, cache *cacheStatus) error {
	s.Dir, s.BlockTokens, s.BlockBytes = dir, cache.blockTokens, cache.blockBytes
	speed, err := disk.Measure(ctx, disk.Options{Dir: dir, Payload: s.BlockBytes})
	if err != nil {
		*s = diskStatus{Dir: dir, Error: err.Error()}
		return fmt.Errorf("--disk %s: %w", dir, err)
	}
	s.Blocks, s.Write, s.Read, s.First, s.Cold = speed.Blocks, speed.Write, speed.Read, speed.First.Seconds(), speed.Cold
	for _, tokens := range promptLengths {
		s.BreakEven = append(s.BreakEven, prefillRate{tokens, s.breakEven(tokens)})
	}
	return nil
}

// breakEven is the tokens a second at which computing takes as long as loading.
func (s *diskStatus) breakEven(tokens int) float64 {
	blocks := (tokens + s.BlockTokens - 1) / s.BlockTokens
	latency := max(s.First-float64(s.BlockBytes)/s.Read, 0) // of a call, beyond what each block takes
	return float64(tokens) / (latency + float64(blocks)*float64(s.BlockBytes)/s.Read)
}

func (s *diskStatus) write(w *strings.Builder) {
	fmt.Fprintf(w, "\ndisk, %s\n", s.Dir)
	from := "from the disk"
	if !s.Cold {
		from = "from memory: the system did not let go of what was written, and the disk may be slower"
	}
	fmt.Fprintf(w, "  %-16s %d of %s, %s each\n", "blocks", s.Blocks, byteSize(s.BlockBytes), count(s.BlockTokens, "token"))
	fmt.Fprintf(w, "  %-16s %s/s, synced\n", "write", byteSize(int64(s.Write)))
	fmt.Fprintf(w, "  %-16s %s/s, %s\n", "read", byteSize(int64(s.Read)), from)
	fmt.Fprintf(w, "  %-16s %s\n", "first block", seconds(s.First))
	for i, r := range s.BreakEven {
		what := ""
		if i == 0 {
			what = "worth loading"
		}
		fmt.Fprintf(w, "  %-16s %s where computing is slower than %s tokens/s\n", what, count(r.Tokens, "token"), threeDigits(r.TokensPerSecond))
	}
}

// threeDigits is a number for people, rounded to three digits that are not zero.
func threeDigits(x float64) string {
	decimals := 2 - int(math.Floor(math.Log10(max(x, 1e-3))))
	unit := math.Pow10(-decimals)
	return fmt.Sprintf("%.*f", max(decimals, 0), math.Round(x/unit)*unit)
}
