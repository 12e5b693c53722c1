package launch

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// ClearMass sets the attention mass of slots to 0, in one launch. A slot outside the cache is
// skipped.
func ClearMass[B Buffer](c *Calls, p *backend.ClearMassParams[B]) error {
	c.clear()
	if p.N == 0 {
		return nil
	}
	a := arguments{op: "clear mass"}
	args := abi.ClearMassArgs{Slots: int64(p.Blocks) * int64(p.BlockSize), N: a.count("slots", p.N),
		KVHeads: a.heads("KV heads", p.KVHeads), BlockSize: a.count("block size", p.BlockSize)}
	if a.err != nil {
		return a.err
	}
	buffers := [abi.ClearMassBuffers]Place{abi.ClearMassMass: p.Mass.Place(), abi.ClearMassSlots: p.Slots.Place()}
	c.add(Kernel{Op: OpClearMass}, gridOf(int64(p.N), 256, int64(p.KVHeads), 1), 0, args.Encode(), buffers[:]...)
	return nil
}
