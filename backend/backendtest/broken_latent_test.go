package backendtest

import "github.com/ferrumkv/ferrumkv/backend"

// latentDefects are what a device could get wrong about caches whose values are in their keys.
var latentDefects = []defect{
	{"takes the latent for the rest of the key", "latent", func(b *broken, be device) {
		b.append = func(s backend.Stream, p appendP) error {
			if p.Cache.Latent && p.Cache.K.Dim == 2*p.Cache.V.Dim {
				p.K, p.V = p.V, p.K
			}
			if p.Cache.Latent && p.QHeads > 0 && !p.Rotary.Table.Set {
				p.V = p.K
			}
			return be.Append(s, p)
		}
	}},
	{"leaves keys after the latent unrotated", "latent", func(b *broken, be device) {
		b.rotate = func(s backend.Stream, p rotateP) error {
			if p.Cache.Latent {
				p.N = 0
			}
			return be.Rotate(s, p)
		}
	}},
	{"turns the latent", "latent", func(b *broken, be device) {
		b.rotate = func(s backend.Stream, p rotateP) error {
			if p.Cache.Latent {
				p.Cache.V.Dim = p.Rotary.Dims
			}
			return be.Rotate(s, p)
		}
	}},
	{"leaves the queries of latent caches unrotated", "latent", func(b *broken, be device) {
		b.append = func(s backend.Stream, p appendP) error {
			if p.Cache.Latent {
				p.QHeads = 0
			}
			return be.Append(s, p)
		}
	}},
	{"gathers no values of latent caches", "latent", func(b *broken, be device) {
		b.gather = func(s backend.Stream, p gatherP) error {
			if p.Cache.Latent {
				p.V.Set = false
			}
			return be.Gather(s, p)
		}
	}},
	{"leaves latent blocks where they are", "latent", func(b *broken, be device) {
		b.copy = func(s backend.Stream, p copyP) error {
			if p.From.Latent {
				p.ScoresOnly, p.N = p.FromScores.Set, 0
			}
			return be.CopyBlocks(s, p)
		}
	}},
	{"attends to latent caches by half the scale", "latent", func(b *broken, be device) {
		b.attend = attending(be, func(_ backend.Stream, p *attendP) {
			if p.Cache.Latent {
				p.Scale /= 2
			}
		})
	}},
	{"adds no mass of latent caches", "latent", func(b *broken, be device) {
		b.attend = attending(be, func(_ backend.Stream, p *attendP) {
			if p.Cache.Latent {
				p.Out.Scores.Set = false
			}
		})
	}},
	{"forgets a block that becomes another type", "latent", func(b *broken, be device) {
		b.convert = func(s backend.Stream, p convertP) error {
			if p.From.Latent {
				p.N = max(p.N-2, 0)
			}
			return be.ConvertBlocks(s, p)
		}
	}},
}
