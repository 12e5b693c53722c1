package kvcache

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// uploads is a device that counts what is uploaded, and the buffers that are made for it.
type uploads struct {
	backend.Backend[buffer]
	calls, bytes, made int
}

func (u *uploads) Upload(s backend.Stream, dst buffer, off int, src []byte) error {
	u.calls, u.bytes = u.calls+1, u.bytes+len(src)
	return u.Backend.Upload(s, dst, off, src)
}

func (u *uploads) Alloc(dt backend.DType, n int) (buffer, error) {
	u.made++
	return u.Backend.Alloc(dt, n)
}

func (u *uploads) SubBuffer(b buffer, offset int64, dt backend.DType, n int) (buffer, error) {
	u.made++
	return u.Backend.SubBuffer(b, offset, dt, n)
}

// Plan makes one upload, whatever it plans for, and one more where blocks leave the recent window.
func TestPlanUploadsOnce(t *testing.T) {
	quantized := func(c *Config) { c.Storage.K, c.Storage.V, c.Model.Act = backend.Int8, backend.Int8, backend.F32 }
	for name, c := range map[string]struct {
		change   func(*Config)
		fix      bool
		most     int
		quantize bool
	}{
		"contiguous":  {func(c *Config) { c.Memory.Layout, c.Memory.BlockSize = Contiguous, 0 }, false, 1, false},
		"paged":       {func(*Config) {}, false, 1, false},
		"fixed":       {func(*Config) {}, true, 1, false},
		"scores":      {func(c *Config) { c.Attention.Scores = true }, false, 1, false},
		"two formats": {func(c *Config) { c.Storage.SkipLayers = []int{1} }, false, 1, true},
		"residual":    {func(c *Config) { c.Storage.Residual, c.Memory.StepTokens = 12, 8 }, false, 2, true},
		"both":        {func(c *Config) { c.Storage.Residual, c.Memory.StepTokens, c.Storage.SkipLayers = 12, 8, []int{1} }, false, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := small(Paged)
			cfg.Memory.Capacity = 1024
			if c.quantize {
				quantized(&cfg)
				if !testDevice().Supports(backend.Format{Act: cfg.Model.Act, K: cfg.Storage.K, V: cfg.Storage.V}) {
					t.Skip("the device has no int8")
				}
			}
			c.change(&cfg)
			be := &uploads{Backend: openDevice(t)}
			r := newRig[buffer](t, be, cfg)
			seqs := []*Sequence[buffer]{r.open(), r.open(), r.open()}
			if c.fix {
				require.NoError(t, r.step.FixShape(len(seqs), 1))
			}
			once, made := 0, 0
			for i := range 40 {
				feeds := []feed[buffer]{{seqs[0], sequence(i, 1)}, {seqs[1], sequence(i, 1)}, {seqs[2], sequence(i, 1)}}
				*be = uploads{Backend: be.Backend}
				require.NoError(t, r.plan(r.s, feeds...))
				require.LessOrEqual(t, be.calls, c.most)
				require.LessOrEqual(t, be.bytes, 32<<10+2*r.step.step.Steps[0].Index.Bytes())
				if be.calls == 1 {
					once++
				}
				if made += be.made; i < 20 {
					made = 0
				}
				r.write(r.s, feeds...)
				require.NoError(t, r.step.Commit())
			}
			require.GreaterOrEqual(t, once, 20)
			require.LessOrEqual(t, made, 20, "buffers that are made over and over")
			for _, s := range seqs {
				require.NoError(t, s.Release())
			}
			r.close()
		})
	}
}
