package backendtest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime/debug"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// bench is an open device and the way to open another.
type bench[B backend.Buffer] struct {
	be      backend.Backend[B]
	open    func() backend.Backend[B]
	flushes bool // subnormal numbers count as 0
}

// rig is what one check works with: the device, a stream, the buffers it made,
// and the place where its failures are collected. Checks call testify's require
// with the rig, so that a failure ends the check and not the test: the suite
// can be tested on devices that are wrong on purpose.
type rig[B backend.Buffer] struct {
	bench[B]
	s        backend.Stream
	rng      *rand.Rand
	regions  []*region[B]
	parts    bool // regions are sub-buffers
	wholes   []B  // of which they are parts
	failures []string
}

type failed struct{}

type skipped struct{ why string }

func (s skipped) Error() string { return "skipped: " + s.why }

// Errorf and FailNow make a rig a require.TestingT.
func (r *rig[B]) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// FailNow ends the check.
func (r *rig[B]) FailNow() { panic(failed{}) }

func (r *rig[B]) skip(format string, args ...any) {
	panic(skipped{fmt.Sprintf(format, args...)})
}

// attempt runs a check and returns its first failure. A panic of the device is a
// failure, and so are buffers that are left behind.
func (b bench[B]) attempt(run func(r *rig[B])) error {
	before := b.be.Info().Buffers
	if err := b.onStream(run); err != nil {
		return err
	}
	if after := b.be.Info().Buffers; after != before {
		return fmt.Errorf("%d live buffers after the check, %d before", after, before)
	}
	return nil
}

// onStream runs a check with a stream of its own and gives its buffers back.
func (b bench[B]) onStream(run func(r *rig[B])) error {
	s, err := b.be.NewStream()
	if err != nil {
		return fmt.Errorf("opening a stream: %w", err)
	}
	r := &rig[B]{bench: b, s: s, rng: rand.New(rand.NewPCG(1, 2))}
	if err := r.guarded(run); err != nil {
		_ = r.close() // the failure explains more than what it left behind
		return err
	}
	return r.close()
}

func (r *rig[B]) guarded(run func(r *rig[B])) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failed:
		case skipped:
			err = p
		default:
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		if err == nil && len(r.failures) > 0 {
			err = errors.New(strings.Join(r.failures, "\n"))
		}
	}()
	run(r)
	return nil
}

func (r *rig[B]) close() error {
	var errs []error
	for _, reg := range r.regions {
		errs = append(errs, r.be.Free(reg.buf))
	}
	for _, b := range r.wholes {
		errs = append(errs, r.be.Free(b))
	}
	r.regions, r.wholes = nil, nil
	return errors.Join(append(errs, r.s.Close())...)
}

// seed makes the rig's random numbers depend on the case alone.
func (r *rig[B]) seed(name string) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	r.rng = rand.New(rand.NewPCG(h.Sum64(), 0))
}

// normal returns n values of the standard normal distribution.
func (r *rig[B]) normal(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.rng.NormFloat64())
	}
	return out
}

// bytes returns n random bytes.
func (r *rig[B]) bytes(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(r.rng.Uint32())
	}
	return out
}

// needs skips the check where the device does not list what it is about.
func (r *rig[B]) needs(f backend.Format, kDim, vDim, block int, paged bool) {
	r.needsOf(false, f, kDim, vDim, block, paged)
}

// needsOf is needs of a cache that may be latent.
func (r *rig[B]) needsOf(latent bool, f backend.Format, kDim, vDim, block int, paged bool) {
	caps := r.be.Caps()
	if !caps.Supports(f) {
		r.skip("the device does not list activations %s with K %s, V %s", f.Act, f.K, f.V)
	}
	if latent && !caps.SupportsLatent(kDim, vDim) {
		r.skip("the device does not list latent caches of K %d, V %d", kDim, vDim)
	}
	if !latent && !caps.SupportsDims(kDim, vDim) {
		r.skip("the device does not list head dims K %d, V %d", kDim, vDim)
	}
	if paged && !caps.SupportsBlockSize(block) {
		r.skip("the device does not list block size %d", block)
	}
}

// plain returns a format that the device lists and that stores what it computes
// with, f32 if there is one, for checks that are not about formats.
func (r *rig[B]) plain() backend.Format {
	f := plainFormat(r.be.Caps())
	if !r.be.Caps().Supports(f) {
		r.skip("the device lists no format whose activations and storage are of one type")
	}
	return f
}

func plainFormat(caps backend.Caps) backend.Format { return plainFormats(caps)[0] }

// plainFormats are those that the device lists of the formats that store what they compute
// with; f32 if it lists none.
func plainFormats(caps backend.Caps) []backend.Format {
	var out []backend.Format
	for _, f := range formatAxis[:3] {
		if caps.Supports(f) {
			out = append(out, f)
		}
	}
	if out == nil {
		return []backend.Format{f32}
	}
	return out
}

// dims returns head dims that the device lists, the given ones if it does.
func (r *rig[B]) dims(kDim, vDim int) (int, int) {
	require.False(r, r.be.Caps().HeadDims != nil && len(r.be.Caps().HeadDims) == 0, "Caps.HeadDims is empty and not nil")
	return listedDims(r.be.Caps(), kDim, vDim)
}

func listedDims(caps backend.Caps, kDim, vDim int) (int, int) {
	if caps.SupportsDims(kDim, vDim) || len(caps.HeadDims) == 0 {
		return kDim, vDim
	}
	return caps.HeadDims[0][0], caps.HeadDims[0][1]
}

// blockSize returns a block size that the device lists, the given one if it does.
func (r *rig[B]) blockSize(want int) int { return listedBlock(r.be.Caps(), want) }

func listedBlock(caps backend.Caps, want int) int {
	if len(caps.BlockSizes) == 0 || caps.SupportsBlockSize(want) {
		return want
	}
	return caps.BlockSizes[0]
}
