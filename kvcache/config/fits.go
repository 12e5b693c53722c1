package config

import (
	"cmp"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/bytesize"
)

// ErrPoolSize is a pool that is too large for its device, found before anything was
// allocated. It matches backend.ErrOutOfMemory{} with errors.Is; errors.Is(err,
// ErrPoolSize{}) matches any ErrPoolSize.
type ErrPoolSize struct {
	// Bytes is the size of the pool, and Max what is free on the device. With Layer, Bytes is
	// the size of the keys or values of one layer, and Max the largest buffer of the device.
	Bytes, Max int64
	Layer      bool
	Blocks     int // that were asked for: Blocks, or MaxSeqs where Contiguous
	MaxBlocks  int // that would fit
	Contiguous bool
	Recent     bool // the limit concerns the unquantized blocks of Storage.Residual

	lower string // the settings or variables that made it so large
}

func (e ErrPoolSize) Error() string {
	what, limit := "a pool", "free"
	if e.Layer {
		what, limit = "a layer's buffer", "the device's largest"
	}
	size, lower := "blocks", cmp.Or(e.lower, "Memory.Blocks")
	if e.Contiguous {
		size, lower = "sequences", cmp.Or(e.lower, "Memory.MaxSeqs or Memory.Capacity")
	}
	if e.Recent {
		size, lower = "blocks of recent tokens", "Memory.MaxSeqs, Storage.Residual or Memory.StepTokens"
	}
	return fmt.Sprintf("kvcache: %s of %s does not fit, %s are %s: at most %d of %d %s; lower %s, or store K and V in fewer bits: %v",
		what, bytesize.String(e.Bytes), bytesize.String(e.Max), limit, e.MaxBlocks, e.Blocks, size, lower, backend.ErrOutOfMemory{})
}

// Is matches backend.ErrOutOfMemory, and any ErrPoolSize with ErrPoolSize{}.
func (e ErrPoolSize) Is(target error) bool {
	t, ok := target.(ErrPoolSize)
	t.lower, e.lower = "", ""
	return target == backend.ErrOutOfMemory{} || ok && (t == e || t == ErrPoolSize{})
}

// Within is c resolved for a device with free bytes of free memory, 0 for unknown. If
// neither the caller nor the environment chose Blocks or MaxSeqs, it lowers Blocks of a
// paged cache to what fits in nine tenths of free, but not below one sequence of full
// capacity. NewPool does this with the device's free memory.
func (c Config) Within(free int64) (Config, error) {
	c, err := c.Resolve()
	if err != nil || c.Memory.Layout != Paged || free <= 0 || c.sources[setBlocks] != FromDefault || c.sources[setMaxSeqs] != FromDefault {
		return c, err
	}
	fit, err := c.BlocksFor(free - free/10)
	if err == nil && fit < c.Memory.Blocks {
		one := c
		one.Memory.MaxSeqs = 1
		c.Memory.Blocks = max(fit, one.blocksWanted())
		return c.Resolve()
	}
	return c, err
}

// Fits returns nil if the cache fits a device with free bytes of free memory, 0 for unknown, or
// else the ErrPoolSize that NewPool would return. The error names the tightest limit.
func (c Config) Fits(free int64, caps backend.Caps) error {
	c, err := c.Resolve()
	if err != nil {
		return err
	}
	fixed, perBlock, err := c.costs()
	if err != nil {
		return err
	}
	// Every buffer may waste most of a page.
	room := free
	if caps.AllocGranularity > 1 {
		room = max(free-int64(c.MostBuffers())*(caps.AllocGranularity-1), 0)
	}
	blocks := int64(c.Memory.Blocks)
	size := ErrPoolSize{Blocks: c.Memory.Blocks, MaxBlocks: c.Memory.Blocks, Contiguous: c.Memory.Layout == Contiguous, lower: c.SizeSettings()}
	if most := max(room-fixed, 0) / perBlock; free > 0 && most < blocks {
		size.Bytes, size.Max, size.MaxBlocks = fixed+blocks*perBlock, room, int(most)
	}
	for _, block := range c.largest() {
		if most := caps.MaxBuffer / block; most < int64(size.MaxBlocks) {
			size.Bytes, size.Max, size.MaxBlocks, size.Layer = block*blocks, caps.MaxBuffer, int(most), true
		}
	}
	for i := range c.memory.parts {
		if err := c.memory.parts[i].recentFits(caps); err != nil {
			return err
		}
	}
	if size.MaxBlocks == c.Memory.Blocks {
		return nil
	}
	return size
}

// recentFits is Fits of the buffers of the last, unquantized tokens, with Storage.Residual.
func (p *Part) recentFits(caps backend.Caps) error {
	if p.Storage.Residual == 0 {
		return nil
	}
	r := p.recent()
	for _, plane := range r.largest() {
		n, ok := r.planeLen(plane.dim)
		bytes, sized := plane.dt.Size(n)
		if !ok || !sized {
			return p.tooLarge()
		}
		if bytes > caps.MaxBuffer {
			return ErrPoolSize{Bytes: bytes, Max: caps.MaxBuffer, Layer: true, Recent: true, Blocks: r.Memory.Blocks, MaxBlocks: int(caps.MaxBuffer / (bytes / int64(r.Memory.Blocks)))}
		}
	}
	return nil
}
