package launch

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// ClearScores sets the attention scores of slots to 0, in one launch. A slot outside the cache is
// skipped.
func ClearScores[B Buffer](c *Calls, p *backend.ClearScoresParams[B]) error {
	c.clear()
	if p.N == 0 {
		return nil
	}
	a := arguments{op: "clear scores"}
	args := abi.ClearMassArgs{Slots: int64(p.Blocks) * int64(p.BlockSize), N: a.count("slots", p.N),
		KVHeads: a.heads("KV heads", p.KVHeads), BlockSize: a.count("block size", p.BlockSize)}
	if a.err != nil {
		return a.err
	}
	buffers := [abi.ClearMassBuffers]Place{abi.ClearMassMass: p.Scores.Place(), abi.ClearMassSlots: p.Slots.Place()}
	c.add(Kernel{Op: OpClearMass}, gridOf(int64(p.N), 256, int64(p.KVHeads), 1), 0, args.Encode(), buffers[:]...)
	return nil
}
