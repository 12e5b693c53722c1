package backend

import (
	"fmt"
	"math"

	"github.com/go-gl/mathgl/mgl32"
)

// RoPE describes a model's rotary position embedding on the host, as found in
// its configuration. The zero value is the plain embedding with theta 10000
// over the whole head.
type RoPE struct {
	Theta   float64 // base of the frequencies; 0: 10000
	Dims    int     // leading dims of a head that rotate; 0: all
	Pairing Pairing
	Scaling RoPEScaling
	Factor  float64 // how many times the context is extended; needed by every scaling
	// OriginalContext is the context length of the training; YaRN and Llama3 need it.
	OriginalContext int
	// BetaFast and BetaSlow bound YaRN's ramp in rotations over the original
	// context (0: 32 and 1), LowFreq and HighFreq that of Llama3 (0: 1 and 4).
	BetaFast, BetaSlow, LowFreq, HighFreq float64
	// Attention is YaRN's factor on queries and keys; 0: 0.1·ln(Factor)+1.
	Attention float64
}

// RoPEScaling is how frequencies are changed for contexts beyond the training's.
type RoPEScaling uint8

const (
	NoScaling     RoPEScaling = iota
	LinearScaling             // positions divided by Factor (position interpolation, arXiv:2306.15595)
	NTKScaling                // theta·Factor^(d/(d−2))
	YaRNScaling               // arXiv:2309.00071
	Llama3Scaling             // Llama 3.1's piecewise scaling of low frequencies
)

// String is none, linear, ntk, yarn or llama3.
func (s RoPEScaling) String() string {
	return [...]string{"none", "linear", "ntk", "yarn", "llama3", "invalid"}[min(s, Llama3Scaling+1)]
}

// Resolve fills the defaults in for heads of headDim elements and checks the result.
func (r RoPE) Resolve(headDim int) (RoPE, error) {
	def := func(v *float64, d float64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&r.Theta, 10000)
	def(&r.BetaFast, 32)
	def(&r.BetaSlow, 1)
	def(&r.LowFreq, 1)
	def(&r.HighFreq, 4)
	if r.Dims == 0 {
		r.Dims = headDim
	}
	bad := func(format string, a ...any) (RoPE, error) {
		return RoPE{}, ErrShape{Op: "rope", What: fmt.Sprintf(format, a...)}
	}
	switch {
	case r.Dims < 2 || r.Dims%2 != 0 || r.Dims > headDim:
		return bad("dims: have %d, need an even number from 2 to the head dim %d", r.Dims, headDim)
	case !(r.Theta > 1) || math.IsInf(r.Theta, 0):
		return bad("theta: have %v, need a finite number above 1", r.Theta)
	case r.Pairing > Interleaved || r.Scaling > Llama3Scaling:
		return bad("unknown pairing %d or scaling %d", r.Pairing, r.Scaling)
	case r.Scaling != NoScaling && (!(r.Factor >= 1) || math.IsInf(r.Factor, 0)):
		return bad("factor: have %v, need a finite number from 1", r.Factor)
	case r.Scaling == NTKScaling && r.Dims < 4:
		return bad("dims: have %d, NTK scaling needs 4", r.Dims)
	case (r.Scaling == YaRNScaling || r.Scaling == Llama3Scaling) && r.OriginalContext <= 0:
		return bad("original context: have %d, this scaling needs it", r.OriginalContext)
	case r.Scaling == YaRNScaling && !(r.BetaFast > r.BetaSlow && r.BetaSlow > 0):
		return bad("betas: have %v and %v, need fast > slow > 0", r.BetaFast, r.BetaSlow)
	case !(r.Attention >= 0) || math.IsInf(r.Attention, 0):
		return bad("attention factor: have %v, need a finite number from 0", r.Attention)
	case r.Scaling == Llama3Scaling && !(r.HighFreq > r.LowFreq && r.LowFreq > 0):
		return bad("frequency factors: have low %v and high %v, need high > low > 0", r.LowFreq, r.HighFreq)
	}
	if r.Attention == 0 {
		r.Attention = 1
		if r.Scaling == YaRNScaling {
			r.Attention = 0.1*math.Log(r.Factor) + 1
		}
	}
	return r, nil
}

// Frequency is the angle in radians by which pair i turns from one position to
// the next. r must be resolved.
func (r RoPE) Frequency(i int) float64 {
	dims := float64(r.Dims)
	freq := func(theta float64) float64 { return math.Pow(theta, -2*float64(i)/dims) }
	f := freq(r.Theta)
	switch r.Scaling {
	case LinearScaling:
		return f / r.Factor
	case NTKScaling:
		return freq(r.Theta * math.Pow(r.Factor, dims/(dims-2)))
	case YaRNScaling:
		at := func(rotations float64) float64 { // the pair that turns so often over the training's context
			return dims * math.Log(float64(r.OriginalContext)/(rotations*2*math.Pi)) / (2 * math.Log(r.Theta))
		}
		low := math.Max(math.Floor(at(r.BetaFast)), 0)
		high := math.Min(math.Ceil(at(r.BetaSlow)), dims-1)
		ramp := clamp01((float64(i) - low) / math.Max(high-low, 0.001))
		return f*(1-ramp) + f/r.Factor*ramp
	case Llama3Scaling:
		rotations := float64(r.OriginalContext) * f / (2 * math.Pi)
		smooth := clamp01((rotations - r.LowFreq) / (r.HighFreq - r.LowFreq))
		return f*smooth + f/r.Factor*(1-smooth)
	}
	return f
}

func clamp01(x float64) float64 { return math.Min(math.Max(x, 0), 1) }

// Rotation is the matrix that turns pair i of a vector by pos positions. Rotations
// compose, Rotation(a)·Rotation(b) = Rotation(a+b), and the inverse is the
// transpose, so a cached key moves to a new position by one product. r must be resolved.
func (r RoPE) Rotation(pos, i int) mgl32.Mat2 {
	return rotation(float64(pos) * r.Frequency(i))
}

func rotation(angle float64) mgl32.Mat2 {
	sin, cos := math.Sincos(angle) // in float64: a float32 angle is coarse far out
	return mgl32.Mat2{float32(cos), float32(sin), float32(-sin), float32(cos)}
}

// Table is the rotations of positions 0 to positions−1 for the kernels: f32
// [positions, Dims/2, 2], the first column (cos, sin) of each matrix.
func (r RoPE) Table(headDim, positions int) ([]float32, error) {
	r, err := r.Resolve(headDim)
	if err != nil {
		return nil, err
	}
	n, ok := Mul(positions, r.Dims)
	if !ok || n > math.MaxInt32 {
		return nil, ErrShape{Op: "rope", What: fmt.Sprintf("positions: %d of %d dims are too many for a table", positions, r.Dims)}
	}
	freq := make([]float64, r.Dims/2)
	for i := range freq {
		freq[i] = r.Frequency(i)
	}
	table := make([]float32, 0, n)
	for pos := range positions {
		for i := range freq {
			m := rotation(float64(pos) * freq[i])
			table = append(table, m.At(0, 0), m.At(1, 0))
		}
	}
	return table, nil
}
