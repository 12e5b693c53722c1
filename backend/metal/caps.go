//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
	"github.com/ferrumkv/ferrumkv/backend/metal/mtl"
)

// capsOf is what a device accepts: any power of two as the size of a block, and ids
// in device memory that nobody reports on.
func capsOf(d mtl.Info) backend.Caps {
	formats := slices.Clone(launch.Formats)
	if !d.BFloat {
		formats = slices.DeleteFunc(formats, func(f backend.Format) bool { return f.Act == backend.BF16 || f.K == backend.BF16 })
	}
	return backend.Caps{Formats: formats, HeadDims: launch.HeadDims, MaxBuffer: min(d.MaxBuffer, d.WorkingSet), AllocGranularity: page,
		Chunk: true, Views: true, TreeWords: plan.TreeWords, Latent: true, LatentDims: launch.LatentDims}
}
