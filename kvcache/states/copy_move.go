// Blocks on their way to the tier and from it: filled up, sealed, and opened.

package states

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/ferrumkv/ferrumkv/internal/seal"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// filledSize returns the size to which a payload of n bytes is padded.
func filledSize(n int) int {
	size := 1 << bits.Len(uint(max(n, smallestFilled)-1))
	if half := size / 4 * 3; n <= half {
		return half
	}
	return size
}

// payload returns room for the payload of a block of n bytes.
func (c *copies) payload(n int) []byte {
	n = filledSize(n)
	if c.s.sealer != nil {
		n += sealedBytes
	}
	return make([]byte, n)
}

// seal makes a block of the n bytes that plain writes.
func (c *copies) seal(b tier.Block, n int, plain func(to []byte) error) (tier.Block, error) {
	b.Bytes = c.payload(n)
	if c.s.sealer == nil {
		return b, plain(b.Bytes[:n])
	}
	room := b.Bytes[seal.NonceBytes:][:filledSize(n)]
	if err := plain(room[:n]); err != nil {
		return b, err
	}
	_, err := c.s.sealer.Seal(b.Bytes[seal.NonceBytes:][:0], (*[seal.NonceBytes]byte)(b.Bytes), room, about(sealedAboutKey, b.Key[:]))
	return b, err
}

func (c *copies) store(ctx context.Context, blocks []tier.Block) error {
	done := make(chan tier.Result, 1)
	err := c.mover.Store(ctx, tier.Job{Blocks: blocks, Wait: true, Done: func(r tier.Result) { done <- r }})
	if err == nil {
		err = (<-done).Err
	}
	return err
}

// load reads the first blocks of the keys, each of the given size, up to one that is missing. They are whole as their keys say only where
// there is a secret. The error is why there are not more, other than that they are not there.
func (c *copies) load(ctx context.Context, keys []tier.Key, bytes []int) ([][]byte, error) {
	blocks := make([]tier.Block, len(keys))
	for i := range blocks {
		blocks[i] = tier.Block{Key: keys[i], Bytes: c.payload(bytes[i])}
	}
	done := make(chan tier.Result, 1)
	if err := c.mover.Load(ctx, tier.Job{Blocks: blocks, Wait: true, Done: func(r tier.Result) { done <- r }}); err != nil {
		return nil, err
	}
	r := <-done
	var out [][]byte
	for i, b := range blocks[:r.Blocks] {
		plain := b.Bytes
		if c.s.sealer != nil {
			var err error
			sealed := plain[seal.NonceBytes:]
			if plain, err = c.s.sealer.Open(sealed[:0], (*[seal.NonceBytes]byte)(b.Bytes), sealed, about(sealedAboutKey, b.Key[:])); err != nil {
				return out, c.wrong(ctx, b.Key, "was not sealed as it is")
			}
		}
		out = append(out, plain[:bytes[i]])
	}
	return out, r.Err
}

// wrong deletes a block that is not what its key says, so that it can be copied again.
func (c *copies) wrong(ctx context.Context, key tier.Key, what string) error {
	_ = c.mover.Delete(ctx, []tier.Key{key})
	return fmt.Errorf("block %x %s", key[:8], what)
}

// has returns how many of the first blocks are there.
func (c *copies) has(ctx context.Context, keys []tier.Key) (n int, err error) {
	places, err := c.mover.Has(ctx, keys)
	for _, p := range places {
		n += p.Blocks
	}
	return n, err
}
