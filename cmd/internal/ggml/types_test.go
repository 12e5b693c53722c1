package ggml

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/testutil/external"
)

// Every type sets all numbers of its block, looks at all of its bytes and at no other, and is finite where its scales are.
func TestBlocksAreReadWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for number, typ := range Types {
		if typ.Decode == nil {
			continue
		}
		t.Run(typ.Name, func(t *testing.T) {
			src := make([]byte, typ.Bytes)
			for i := range src {
				src[i] = byte(rng.UintN(256))&0x3b | 0x11 // of scales in f16 not the exponent of infinity, wherever they are, and none is zero
			}
			decode := func() []float32 {
				dst := make([]float32, typ.Block)
				for i := range dst {
					dst[i] = float32(math.NaN())
				}
				typ.Decode(dst, src[:typ.Bytes:typ.Bytes])
				return dst
			}
			want := decode()
			for i, v := range want {
				require.False(t, math.IsNaN(float64(v)) || math.IsInf(float64(v), 0), "%s (%d), element %d", typ.Name, number, i)
			}
			for i := range src {
				seen := false
				for bit := range 8 {
					src[i] ^= 1 << bit
					seen = seen || !equal(decode(), want)
					src[i] ^= 1 << bit
				}
				require.True(t, seen, "byte %d says nothing", i)
			}
			require.Panics(t, func() { typ.Decode(make([]float32, typ.Block), src[:typ.Bytes-1:typ.Bytes-1]) }, "a block that is cut")
		})
	}
}

func equal(a, b []float32) bool {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return false
		}
	}
	return true
}

// Numbers that were computed by hand from the definitions.
func TestDefinitions(t *testing.T) {
	one := []byte{0x00, 0x3c} // 1 in f16
	fill := func(n int, b byte) []byte {
		out := make([]byte, n)
		for i := range out {
			out[i] = b
		}
		return out
	}
	cat := func(parts ...[]byte) (out []byte) {
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	for _, c := range []struct {
		number uint32
		src    []byte
		want   map[int]float32
	}{
		{2, cat(one, fill(16, 0x1f)), map[int]float32{0: 7, 15: 7, 16: -7, 31: -7}},
		{3, cat(one, one, fill(16, 0x1f)), map[int]float32{0: 16, 16: 2}},
		{6, cat(one, []byte{0x01, 0, 0x01, 0}, fill(16, 0x1f)), map[int]float32{0: 15, 1: -1, 16: 1, 17: -15}},
		{7, cat(one, one, []byte{0x02, 0, 0, 0x80}, fill(16, 0x1f)), map[int]float32{0: 16, 1: 32, 16: 2, 31: 18}},
		{8, cat(one, fill(32, 0xff)), map[int]float32{0: -1, 31: -1}},
		{20, cat(one, fill(16, 0xf0)), map[int]float32{0: -127, 16: 113}},
		{39, cat([]byte{128}, fill(16, 0xf7)), map[int]float32{0: 12, 16: -12}},
		{10, cat(fill(16, 0x32), fill(64, 0xe4), one, one), map[int]float32{0: -3, 32: -1, 64: 1, 96: 3, 128: -3, 255: 3}},
		{11, cat(fill(32, 0x0f), fill(64, 0xe4), fill(12, 0), one), map[int]float32{0: 0, 32: -32, 64: -64, 96: -96, 128: 128, 255: 32}},
		{12, cat(one, one, []byte{1, 2, 3, 4, 5, 6, 7, 8, 0x21, 0x43, 0x65, 0x87}, fill(128, 0x21)), map[int]float32{0: 1 - 5, 32: 4 - 6, 64: 3 - 7, 96: 0, 128: 1 - 2, 160: 6 - 4, 192: 5 - 6, 224: 14 - 8}},
		{13, cat(one, one, []byte{1, 2, 3, 4, 5, 6, 7, 8, 0x21, 0x43, 0x65, 0x87}, fill(32, 0x81), fill(128, 0x21)), map[int]float32{0: 17 - 5, 32: 4 - 6, 224: 7*18 - 8}},
		{14, cat(fill(128, 0x21), fill(64, 0xe4), fill(16, 0xff), one), map[int]float32{0: 31, 32: 15, 64: -2, 96: -18, 255: -18}},
		{23, cat(one, []byte{0xfd, 0xff}, []byte{0x10, 0x32, 0x54, 0x76}, fill(128, 0xf0)), map[int]float32{0: -16 * -127, 16: -16 * 113, 32: 17 * -127, 255: 23 * 113}},
	} {
		typ := Types[c.number]
		require.Len(t, c.src, typ.Bytes, typ.Name)
		dst := make([]float32, typ.Block)
		typ.Decode(dst, c.src)
		for i, want := range c.want {
			require.Equal(t, want, dst[i], "%s, element %d", typ.Name, i)
		}
	}
}

// The files of others, as llama.cpp decodes them.
func TestForeignTensors(t *testing.T) {
	types := map[string]Type{}
	for _, typ := range Types {
		types[typ.Name] = typ
	}
	seen := map[string]int{}
	for _, name := range []string{"llama-q4_0", "llama-q4_k_m", "llama-q8_0", "gemma3-q4_k_m", "gpt-oss-mxfp4", "qwen2-f16"} {
		text, err := os.ReadFile(external.Path(t, "gguf", filepath.Join(name, "tensors.json")))
		require.NoError(t, err)
		var tensors map[string]struct {
			Type        string
			Dims        []int
			Sum         float64
			SumAbs      float64 `json:"sum_abs"`
			First, Last []float32
		}
		require.NoError(t, json.Unmarshal(text, &tensors))
		data, err := os.ReadFile(external.Path(t, "gguf", filepath.Join(name, name+".gguf")))
		require.NoError(t, err)
		places := placesOf(t, data)
		for tensor, want := range tensors {
			typ, at := types[want.Type], places[tensor]
			n := 1
			for _, d := range want.Dims {
				n *= d
			}
			values := make([]float32, n)
			for i := 0; i < n; i += typ.Block {
				typ.Decode(values[i:i+typ.Block], data[at:at+typ.Bytes])
				at += typ.Bytes
			}
			var sum, abs float64
			for _, v := range values {
				sum += float64(v)
				abs += math.Abs(float64(v))
			}
			require.InDelta(t, want.Sum, sum, 1e-6*abs+1e-6, "%s of %s (%s)", tensor, name, want.Type)
			require.InEpsilon(t, want.SumAbs+1e-30, abs+1e-30, 1e-6, "%s of %s (%s)", tensor, name, want.Type)
			for i, v := range want.First {
				require.InDelta(t, v, values[i], 1e-6*math.Abs(float64(v)), "%s of %s (%s), element %d", tensor, name, want.Type, i)
			}
			for i, v := range want.Last {
				require.InDelta(t, v, values[n-len(want.Last)+i], 1e-6*math.Abs(float64(v)), "%s of %s (%s), element %d from the end", tensor, name, want.Type, i)
			}
			seen[want.Type]++
		}
	}
	for _, name := range []string{"Q4_0", "Q4_K", "Q6_K", "Q8_0", "MXFP4", "F16", "F32"} {
		require.Positive(t, seen[name], name)
	}
}

// placesOf is where the tensors of a GGUF file begin.
func placesOf(t *testing.T, data []byte) map[string]int {
	t.Helper()
	at := 8
	u64 := func() int { at += 8; return int(le.Uint64(data[at-8:])) }
	u32 := func() int { at += 4; return int(le.Uint32(data[at-4:])) }
	text := func() string { n := u64(); at += n; return string(data[at-n : at]) }
	sizes := map[int]int{0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
	tensors, keys := u64(), u64()
	for range keys {
		text()
		switch kind := u32(); kind {
		case 8:
			text()
		case 9:
			of, n := u32(), u64()
			for range n {
				if of == 8 {
					text()
				} else {
					at += sizes[of]
				}
			}
		default:
			at += sizes[kind]
		}
	}
	places := map[string]int{}
	for range tensors {
		name := text()
		at += 8 * u32()
		u32()
		places[name] = u64()
	}
	at = (at + 31) &^ 31
	for name := range places {
		places[name] += at
	}
	return places
}

// Of a type with Scales an element is infinite or not a number where one of these is, whatever else is in the block, and only there.
func TestScalesDecideWhatIsFinite(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, typ := range Types {
		for _, at := range Scales[typ.Name] {
			src, dst := make([]byte, typ.Bytes), make([]float32, typ.Block)
			for range 200 {
				for i := range src {
					src[i] = byte(rng.UintN(256))
				}
				for _, s := range Scales[typ.Name] {
					src[s+1] &^= 0x04 // not the largest exponent
				}
				finite := func() bool {
					typ.Decode(dst, src)
					for _, v := range dst {
						if v-v != 0 {
							return false
						}
					}
					return true
				}
				require.True(t, finite(), typ.Name)
				le.PutUint16(src[at:], 0x7c01)
				require.False(t, finite(), "%s: NaN at byte %d", typ.Name, at)
			}
		}
	}
}
