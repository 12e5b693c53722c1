package plan

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

func splitPlan(t testing.TB) (backend.AttendPlan, Call) {
	s := shapeOf(f16, 8, 2, []uint32{5000, 30, 0}, []uint32{1, 20, 1})
	s.Window, s.SinkTokens, s.Scores = 4000, 4, true
	plan, err := Attend(s, Capacity{100, 100, 100}.Resident)
	require.NoError(t, err)
	require.Positive(t, plan.Parts)
	return plan, callOf(s)
}

func sees(nonCausal bool, window, sinkTokens int) *Visibility {
	v := visible(nonCausal, window, sinkTokens, 0, backend.AllKeys, 0, 0)
	return &v
}

// A plan is good for the call that it was made for and for narrower masks, and for
// no other.
func TestReadRecognisesItsCall(t *testing.T) {
	plan, good := splitPlan(t)
	for name, change := range map[string]func(*Call){
		"the same":          func(*Call) {},
		"a narrower window": func(c *Call) { c.See = *sees(false, 17, 4) },
		"fewer sinks":       func(c *Call) { c.See = *sees(false, 4000, 0) },
	} {
		c := good
		change(&c)
		_, err := readWork(plan.Work, c)
		require.NoError(t, err, name)
	}
	for name, change := range map[string]func(*Call){
		"query heads":    func(c *Call) { c.QHeads = 16 },
		"KV heads":       func(c *Call) { c.KVHeads = 4 },
		"key dim":        func(c *Call) { c.KDim++ },
		"value dim":      func(c *Call) { c.VDim++ },
		"types":          func(c *Call) { c.Format = f32 },
		"sequences":      func(c *Call) { c.Seqs++ },
		"tokens":         func(c *Call) { c.Tokens-- },
		"wider window":   func(c *Call) { c.See.Window++ },
		"no window":      func(c *Call) { c.See.Window = 0 },
		"more sinks":     func(c *Call) { c.See.SinkTokens++ },
		"no causal mask": func(c *Call) { c.See = *sees(true, 0, 0) },
		"another part":   func(c *Call) { c.See.Part = backend.OlderKeys },
		"no mass":        func(c *Call) { c.Mass = false },
	} {
		c := good
		change(&c)
		_, err := readWork(plan.Work, c)
		require.ErrorIs(t, err, backend.ErrArgument{}, name)
	}
	for n := range len(plan.Work) {
		_, err := readWork(plan.Work[:n], good)
		require.ErrorIs(t, err, backend.ErrArgument{}, "%d words", n)
	}
	shape := shapeOf(f16, 8, 2, []uint32{5000, 30, 0}, []uint32{1, 20, 1})
	shape.Part, shape.Residual = backend.OlderKeys, 100
	plan, err := Attend(shape, Capacity{100, 100, 100}.Resident)
	require.NoError(t, err)
	_, err = readWork(plan.Work, callOf(shape))
	require.NoError(t, err)
	for name, change := range map[string]func(*Visibility){
		"all keys":      func(v *Visibility) { *v = Visibility{} },
		"the other":     func(v *Visibility) { v.Part = backend.ResidualKeys },
		"fewer recent":  func(v *Visibility) { v.Residual-- },
		"more recent":   func(v *Visibility) { v.Residual++ },
		"larger blocks": func(v *Visibility) { v.Block *= 2 },
	} {
		c := callOf(shape)
		change(&c.See)
		_, err := readWork(plan.Work, c)
		require.ErrorIs(t, err, backend.ErrArgument{}, name)
	}
	plan, good = splitPlan(t)
	_, err = readWork(append(slices.Clone(plan.Work), make([]uint32, abi.ItemWords)...), good)
	require.ErrorIs(t, err, backend.ErrArgument{})
}

// Whatever the words are, what is read lies inside them.
func FuzzRead(f *testing.F) {
	plan, call := splitPlan(f)
	f.Add(backend.BytesOf(plan.Work))
	for _, v := range []uint32{0, 1, 1 << 20, math.MaxUint32} {
		for i := range abi.WorkHeader {
			bad := slices.Clone(plan.Work)
			bad[i] = v
			f.Add(backend.BytesOf(bad))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		words := make([]uint32, len(data)/4)
		for i := range words {
			words[i] = binary.NativeEndian.Uint32(data[4*i:])
		}
		w, err := readWork(words, call)
		if err != nil {
			require.ErrorIs(t, err, backend.ErrArgument{})
			return
		}
		end := uint32(0)
		for _, list := range append(w.Kinds[:], w.Merges) {
			require.Equal(t, end, list.First)
			end += list.Count
		}
		require.Equal(t, w.Merges.First, w.All.Count)
		require.Equal(t, abi.WorkHeader+abi.ItemWords*end, w.Shared.First)
		require.Len(t, words, int(w.Shared.First+abi.RowWords*w.Shared.Count))
		require.GreaterOrEqual(t, w.Space.Len, w.Space.Partial+w.PartialRows*call.VDim)
	})
}
