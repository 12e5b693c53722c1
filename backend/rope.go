package backend

import (
	"fmt"
	"math"

	"github.com/go-gl/mathgl/mgl32"
)

// RoPE describes a model's rotary position embedding as in its configuration file. The zero value
// is the plain embedding with theta 10000 over the whole head, which rotates elements i and i+Dims/2
// together, as Hugging Face's models do. Llama models in GGUF and llama2.c files need Interleaved.
type RoPE struct {
	Theta   float64     `json:"theta,omitzero"` // base of the frequencies; 0: 10000
	Dims    int         `json:"dims,omitzero"`  // the first dims of a head are rotated; 0: all
	Pairing Pairing     `json:"pairing,omitzero"`
	Scaling RoPEScaling `json:"scaling,omitzero"`
	Factor  float64     `json:"factor,omitzero"` // by how much the context is extended; required by every scaling
	// OriginalContext is the context length of the training; YaRN and Llama3 scaling need it.
	OriginalContext int `json:"original_context,omitzero"`
	// BetaFast and BetaSlow bound YaRN's ramp, in rotations over the original context (0: 32 and
	// 1); LowFreqFactor and HighFreqFactor bound Llama3's (0: 1 and 4).
	BetaFast       float64 `json:"beta_fast,omitzero"`
	BetaSlow       float64 `json:"beta_slow,omitzero"`
	LowFreqFactor  float64 `json:"low_freq_factor,omitzero"`
	HighFreqFactor float64 `json:"high_freq_factor,omitzero"`
	// AttentionFactor is YaRN's factor on queries and keys; 0: 0.1·ln(Factor)+1.
	AttentionFactor float64 `json:"attention_factor,omitzero"`
	// NoTruncate leaves the bounds of YaRN's ramp where the betas put them, between two pairs, as gpt-oss has it
	// (truncate: false in its configuration); else they are whole pairs.
	NoTruncate bool `json:"no_truncate,omitzero"`
}

// RoPEScaling says how frequencies are changed for contexts longer than those of the training.
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

// MarshalText is String, of a valid scaling: JSON has scalings by their names.
func (s RoPEScaling) MarshalText() ([]byte, error) { return nameText("RoPEScaling", s, Llama3Scaling) }

// UnmarshalText is the inverse of MarshalText.
func (s *RoPEScaling) UnmarshalText(text []byte) error {
	return parseName("RoPEScaling", text, s, Llama3Scaling)
}

// Resolve fills in defaults for heads of headDim elements and checks the result (ErrArgument).
func (r RoPE) Resolve(headDim int) (RoPE, error) {
	def := func(v *float64, d float64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&r.Theta, 10000)
	def(&r.BetaFast, 32)
	def(&r.BetaSlow, 1)
	def(&r.LowFreqFactor, 1)
	def(&r.HighFreqFactor, 4)
	if r.Dims == 0 {
		r.Dims = headDim
	}
	bad := func(format string, a ...any) (RoPE, error) {
		return RoPE{}, ErrArgument{Op: "rope", What: fmt.Sprintf(format, a...)}
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
	case !(r.AttentionFactor >= 0) || math.IsInf(r.AttentionFactor, 0):
		return bad("attention factor: have %v, need a finite number from 0", r.AttentionFactor)
	case r.Scaling == Llama3Scaling && !(r.HighFreqFactor > r.LowFreqFactor && r.LowFreqFactor > 0):
		return bad("frequency factors: have low %v and high %v, need high > low > 0", r.LowFreqFactor, r.HighFreqFactor)
	}
	if r.AttentionFactor == 0 {
		r.AttentionFactor = 1
		if r.Scaling == YaRNScaling {
			r.AttentionFactor = 0.1*math.Log(r.Factor) + 1
		}
	}
	return r, nil
}

// Frequency is the angle in radians by which pair i is rotated per position. r must be resolved.
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
		low, high := at(r.BetaFast), at(r.BetaSlow)
		if !r.NoTruncate {
			low, high = math.Floor(low), math.Ceil(high)
		}
		low, high = math.Max(low, 0), math.Min(high, dims-1)
		ramp := clamp01((float64(i) - low) / math.Max(high-low, 0.001))
		return f*(1-ramp) + f/r.Factor*ramp
	case Llama3Scaling:
		rotations := float64(r.OriginalContext) * f / (2 * math.Pi)
		smooth := clamp01((rotations - r.LowFreqFactor) / (r.HighFreqFactor - r.LowFreqFactor))
		return f*smooth + f/r.Factor*(1-smooth)
	}
	return f
}

func clamp01(x float64) float64 { return math.Min(math.Max(x, 0), 1) }

// Rotation is the matrix that rotates pair i of a vector by pos positions. Rotations compose,
// Rotation(a)·Rotation(b) = Rotation(a+b), and the inverse is the transpose, so one product moves a
// cached key to another position. r must be resolved.
func (r RoPE) Rotation(pos, i int) mgl32.Mat2 {
	return rotation(float64(pos) * r.Frequency(i))
}

func rotation(angle float64) mgl32.Mat2 {
	sin, cos := math.Sincos(angle) // in float64: a float32 angle is coarse far out
	return mgl32.Mat2{float32(cos), float32(sin), float32(-sin), float32(cos)}
}

// Table computes the rotations of positions 0 to positions−1 as kernels read them: f32 [positions,
// Dims/2, 2], cos and sin of each pair's angle. ErrArgument when r or the size is invalid.
func (r RoPE) Table(headDim, positions int) ([]float32, error) {
	r, err := r.Resolve(headDim)
	if err != nil {
		return nil, err
	}
	n, ok := Mul(positions, r.Dims)
	if !ok || n > math.MaxInt32 {
		return nil, ErrArgument{Op: "rope", What: fmt.Sprintf("positions: %d of %d dims are too many for a table", positions, r.Dims)}
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
