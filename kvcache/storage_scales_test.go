package kvcache

import (
	"math"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
	"github.com/stretchr/testify/require"
)

// The scales of 8-bit floats are one for all, one for each layer, or one for each head,
// and content follows them.
func TestScalesOfEightBitFloats(t *testing.T) {
	for _, dt := range []backend.DType{backend.FP8E4M3, backend.FP8E5M2} {
		f := backend.Format{Act: backend.F32, K: dt, V: dt}
		if !testDevice().Supports(f) {
			t.Skipf("the device has no %v", f)
		}
		for _, c := range []struct {
			k, v         []float32
			wantK, wantV [2][2]float32 // [layers][heads]
		}{
			{nil, []float32{0.5}, [2][2]float32{{1, 1}, {1, 1}}, [2][2]float32{{.5, .5}, {.5, .5}}},
			{[]float32{0.125, 4}, []float32{3, 0.01}, [2][2]float32{{.125, .125}, {4, 4}}, [2][2]float32{{3, 3}, {.01, .01}}},
			{[]float32{1, 2, 3, 0.004}, nil, [2][2]float32{{1, 2}, {3, .004}}, [2][2]float32{{1, 1}, {1, 1}}},
		} {
			cfg := quantizedConfig(Paged, f)
			cfg.Storage.KScales, cfg.Storage.VScales = c.k, c.v
			r := deviceRig(t, cfg)
			cfg = r.pool.Config()
			a := r.open()
			ids := sequence(1, 21)
			require.NoError(t, r.feed(feed[buffer]{a, ids}))
			for l := range 2 {
				view, _, err := r.pool.Layer(l)
				require.NoError(t, err)
				require.Equal(t, c.wantK[l][:], r.download(view.K.Scales.Buf))
				require.Equal(t, c.wantV[l][:], r.download(view.V.Scales.Buf))
				want, got := pastOf(cfg, l, ids), r.gathered(a, l)
				for h := range 2 {
					for _, plane := range []struct {
						want, got []float32
						scale     float32
					}{{want.k[h*len(want.k)/2:][:len(want.k)/2], got.k[h*len(got.k)/2:], c.wantK[l][h]},
						{want.v[h*len(want.v)/2:][:len(want.v)/2], got.v[h*len(got.v)/2:], c.wantV[l][h]}} {
						for i, x := range plane.want {
							require.LessOrEqual(t, math.Abs(float64(x-plane.got[i])), quant.BoundFP8(dt, x, plane.scale), "%v with scale %v: %v reads as %v", dt, plane.scale, x, plane.got[i])
						}
					}
				}
			}
			require.NoError(t, a.Release())
			r.close()
		}
	}
}
