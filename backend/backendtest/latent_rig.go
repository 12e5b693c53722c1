package backendtest

import "github.com/ferrumkv/ferrumkv/backend"

// cacheOf is a cache that may be latent: its values are then the first elements of its keys.
func (r *rig[B]) cacheOf(latent bool, g geometry) *cache[B] {
	if !latent {
		return r.cache(g)
	}
	c := &cache[B]{geometry: g, latent: true, k: r.plane("latent cache", g, g.format.K, g.kDim)}
	c.v = &plane[B]{region: c.k.region, geometry: g, dim: g.vDim, of: c.k}
	return c
}

// behind is how many elements of a key come before those that turn.
func (c *cache[B]) behind() int {
	if c.latent {
		return c.vDim
	}
	return 0
}

// dimsOf is dims of a cache that may be latent.
func (r *rig[B]) dimsOf(latent bool, kDim, vDim int) (int, int) {
	if !latent {
		return r.dims(kDim, vDim)
	}
	return listedDimsOf(r.be.Caps(), latent, kDim, vDim)
}

// listedDimsOf is listedDims of a cache that may be latent.
func listedDimsOf(caps backend.Caps, latent bool, kDim, vDim int) (int, int) {
	switch {
	case !latent:
		return listedDims(caps, kDim, vDim)
	case caps.SupportsLatent(kDim, vDim) || len(caps.LatentDims) == 0:
		return kDim, vDim
	}
	return caps.LatentDims[0][0], caps.LatentDims[0][1]
}

// storingOf is storing for a cache that may be latent, whose values are of the type of its keys.
func (r *rig[B]) storingOf(latent bool, dt backend.DType) backend.Format {
	f := r.storing(dt)
	if latent {
		f.V = f.K
	}
	return f
}

// latentTypes are the storage types of latent caches.
func latentTypes(yield func(backend.DType) bool) {
	for dt := range backend.StorageTypes {
		if !byChannel(dt) && !yield(dt) {
			return
		}
	}
}

// latentFormats are the formats of latent caches that a device lists: what is computed with, and each quantized
// type with the activation types in turn; all of them where it lists none.
func latentFormats(caps backend.Caps) (listed []backend.Format) {
	var all []backend.Format
	for _, f := range formatAxis {
		if f.K == f.V {
			all = append(all, f)
		}
	}
	for i, dt := range rowTypes {
		all = append(all, backend.Format{Act: activations[i%len(activations)], K: dt, V: dt})
	}
	for _, f := range all {
		if caps.Supports(f) {
			listed = append(listed, f)
		}
	}
	if listed == nil {
		return all
	}
	return listed
}
