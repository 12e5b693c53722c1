package kvcache

import (
	"context"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/stretchr/testify/require"
)

// stepwise is a tier that takes blocks as often as a test lets it.
type stepwise struct {
	tier.Tier
	puts chan struct{}
}

func (s *stepwise) Put(ctx context.Context, blocks []tier.Block) error {
	<-s.puts
	return s.Tier.Put(ctx, blocks)
}

// Flush waits for what was written before, and not for others who always have something on its way.
func TestFlushUnderTraffic(t *testing.T) {
	below := &stepwise{host(t).More[0], make(chan struct{}, 1)}
	r := tiered(t, 40, config.Tiers{More: []tier.Tier{below}})
	r.cache(sequence(1, 23), OpenOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	flushed := make(chan error, 1)
	go func() { flushed <- r.pool.Flush(ctx) }()
	var err error
	for n, over := 2, false; !over; n++ {
		r.cache(sequence(100*n, 23), OpenOptions{})
		for r.moves().Waiting > 0 { // until they are on their way, before the tier has taken those before
			time.Sleep(time.Millisecond)
		}
		select {
		case below.puts <- struct{}{}:
		case err = <-flushed:
			over = true
		}
	}
	close(below.puts)
	require.NoError(t, err)
	require.NotZero(t, below.Stats().Stored)
	r.close()
	require.NoError(t, below.Tier.Close())
}
