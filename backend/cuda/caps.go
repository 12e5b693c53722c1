//go:build linux && cgo && !nocuda

package cuda

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// capsOf is what a device accepts: any power of two as the size of a block, and ids
// in device memory that nobody reports on.
func capsOf(d driver.Device) backend.Caps {
	return backend.Caps{Formats: launch.Formats, HeadDims: launch.HeadDims, MaxBuffer: d.Memory, Chunk: true, Views: true, TreeWords: plan.TreeWords,
		Latent: true, LatentDims: launch.LatentDims}
}
