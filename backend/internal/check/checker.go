// Package check validates the parameters of every operation, once for all devices: that
// each buffer is a live one of the device (Operands), and that they fit each other and the
// device's capabilities. It looks at shapes and types only, never at the contents of device memory.
//
// A check that passes allocates nothing. One that fails says which operand is
// wrong, what it has and what it needs, as backend.ErrArgument, or as
// backend.ErrUnsupported for a valid request that the device cannot do.
package check

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/ferrumkv/ferrumkv/backend"
)

// checker remembers the first thing that is wrong with a call. Checks after it
// run on, so they must stand any size, zero included.
type checker struct {
	op  string
	err error
}

func (c *checker) shape(format string, args ...any) {
	if c.err == nil {
		c.err = backend.ErrArgument{Op: c.op, What: fmt.Sprintf(format, args...)}
	}
}

func (c *checker) unsupported(format string, args ...any) {
	if c.err == nil {
		c.err = backend.ErrUnsupported{Op: c.op, Why: fmt.Sprintf(format, args...)}
	}
}

// least checks a count against its smallest value. It is small enough to be compiled into its
// callers, as a step has hundreds of such checks.
func (c *checker) least(name string, have, need int) {
	if have < need {
		c.tooFew(name, have, need)
	}
}

func (c *checker) tooFew(name string, have, need int) {
	c.shape("%s: have %d, need at least %d", name, have, need)
}

// product is the number of elements of a shape of two dims; 0 when it overflows.
func (c *checker) product(name string, a, b int) int {
	high, low := bits.Mul(uint(a), uint(b))
	if a|b < 0 || high != 0 || low > math.MaxInt {
		c.overflow(name)
		return 0
	}
	return int(low)
}

func (c *checker) overflow(name string) {
	c.shape("%s: the number of elements is negative or overflows", name)
}

// volume is the number of elements of a shape of more dims; 0 when it overflows.
func (c *checker) volume(name string, a, b int, more ...int) int {
	n := c.product(name, a, b)
	for _, d := range more {
		n = c.product(name, n, d)
	}
	return n
}

// sum adds two sizes that are not negative; 0 when it overflows.
func (c *checker) sum(name string, a, b int) int {
	if a > math.MaxInt-b {
		c.shape("%s: the number of elements overflows", name)
		return 0
	}
	return a + b
}

// positive checks a factor that must be a usable number above 0.
func (c *checker) positive(name string, v float32) {
	if !(v > 0) || math.IsInf(float64(v), 0) {
		c.shape("%s: have %v, need a finite number above 0", name, v)
	}
}

// storage checks the types of keys and values where nothing is computed.
func (c *checker) storage(caps *backend.Caps, k, v backend.DType) {
	stored := func(d backend.DType) bool { return d.Float() || d.Quantized() }
	if !stored(k) || !stored(v) {
		c.shape("cache: keys are %s and values %s, need storage types", k, v)
		return
	}
	for _, have := range caps.Formats {
		if have.K == k && have.V == v {
			return
		}
	}
	c.unsupported("keys of %s with values of %s", k, v)
}

// format checks the types of activations, keys and values together.
func (c *checker) format(caps *backend.Caps, f backend.Format) {
	if !f.Act.Float() {
		c.shape("activations: are %s, need f32, f16 or bf16", f.Act)
	}
	c.storage(caps, f.K, f.V)
	if c.err == nil && !caps.Supports(f) {
		c.unsupported("activations of %s with keys of %s and values of %s", f.Act, f.K, f.V)
	}
}

// heads checks that every KV head has the same number of query heads.
func (c *checker) heads(qHeads, kvHeads int) {
	if c.least("query heads", qHeads, 1); kvHeads > 0 && qHeads%kvHeads != 0 {
		c.shape("query heads: have %d, need a multiple of the %d KV heads", qHeads, kvHeads)
	}
}

// dims checks the head dims of keys and values.
func (c *checker) dims(caps *backend.Caps, kDim, vDim int, latent bool) {
	c.least("key dim", kDim, 1)
	c.least("value dim", vDim, 1)
	switch {
	case c.err != nil:
	case latent && vDim > kDim:
		c.shape("value dim: have %d, a latent cache has at most the %d of its keys", vDim, kDim)
	case latent && !caps.Latent:
		c.unsupported("latent caches")
	case latent && !caps.SupportsLatent(kDim, vDim):
		c.unsupported("latent caches of %d key and %d value dims", kDim, vDim)
	case !latent && !caps.SupportsDims(kDim, vDim):
		c.unsupported("heads of %d key and %d value dims", kDim, vDim)
	}
}
