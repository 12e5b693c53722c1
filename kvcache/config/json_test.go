package config

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// draw sets every exported field of v to something that JSON has a form of.
func draw(t *rapid.T, v reflect.Value) {
	enumerations := map[reflect.Type][]any{
		reflect.TypeFor[backend.DType]():       {backend.Invalid, backend.F32, backend.Int4Channel, backend.MXFP4, backend.NVFP4},
		reflect.TypeFor[backend.Pairing]():     {backend.HalfSplit, backend.Interleaved},
		reflect.TypeFor[backend.RoPEScaling](): {backend.NoScaling, backend.YaRNScaling, backend.Llama3Scaling},
		reflect.TypeFor[Layout]():              {LayoutUnset, Contiguous, Paged},
		reflect.TypeFor[group.Kind]():          {group.Full, group.State, group.None},
		reflect.TypeFor[prefix.Policy]():       {prefix.Policy(0), prefix.Adaptive, prefix.Off},
	}
	if values, ok := enumerations[v.Type()]; ok {
		v.Set(reflect.ValueOf(rapid.SampledFrom(values).Draw(t, "enumeration")))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" { // what the program has in memory only
				draw(t, v.Field(i))
			}
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int"))
	case reflect.String:
		v.SetString(rapid.StringMatching(`[a-z/]*`).Draw(t, "string"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Float32:
		v.SetFloat(float64(rapid.Float32().Draw(t, "float32")))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, "float64"))
	case reflect.Uint8:
		v.SetUint(uint64(rapid.Byte().Draw(t, "byte")))
	case reflect.Slice:
		if n := rapid.IntRange(0, 3).Draw(t, "length"); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				draw(t, v.Index(i))
			}
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "set") {
			v.Set(reflect.New(v.Type().Elem()))
			draw(t, v.Elem())
		}
	default:
		t.Fatalf("a field of %v: does JSON have a form of it?", v.Type())
	}
}

// What JSON says of a configuration is all of it, whatever fields it has.
func TestJSONHasEveryField(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Config
		draw(t, reflect.ValueOf(&c).Elem())
		text, err := json.Marshal(c)
		require.NoError(t, err)
		back, err := Parse(text)
		require.NoError(t, err, "%s", text)
		require.Equal(t, c, back, "%s", text)
	})
}

func TestJSONNames(t *testing.T) {
	c, err := Parse([]byte(`{
		"model": {"layers": 32, "q_heads": 32, "kv_heads": 8, "head_dim": 128, "act": "bf16",
			"masks": [{"window": 4096, "sink_tokens": 4}], "rope": {"theta": 500000, "scaling": "llama3", "pairing": "interleaved"}},
		"storage": {"k": "int8", "v": "int4", "skip_layers": [0, 31], "residual": 128},
		"memory": {"layout": "paged", "capacity": 8192, "prefix": "slru"},
		"attention": {"scores": true, "min_shared": -1}}`))
	require.NoError(t, err)
	require.Equal(t, Config{
		Model: Model{
			Layers: 32, QHeads: 32, KVHeads: 8, HeadDim: 128, Act: backend.BF16,
			Masks: []Mask{{Window: 4096, SinkTokens: 4}},
			RoPE:  &backend.RoPE{Theta: 500000, Scaling: backend.Llama3Scaling, Pairing: backend.Interleaved},
		},
		Storage:   Storage{K: backend.Int8, V: backend.Int4, SkipLayers: []int{0, 31}, Residual: 128},
		Memory:    Memory{Layout: Paged, Capacity: 8192, Prefix: prefix.Segmented},
		Attention: Attention{Scores: true, MinShared: -1},
	}, c)
	text, err := json.Marshal(Config{Model: Model{Layers: 2, KVHeads: 2, HeadDim: 64}})
	require.NoError(t, err)
	require.Equal(t, `{"model":{"layers":2,"kv_heads":2,"head_dim":64}}`, string(text), "what is left open is left out")
}

func TestJSONRefuses(t *testing.T) {
	for text, name := range map[string]string{
		``:                                      "JSON",
		`{"model": {"layers": 2}`:               "JSON",
		`{"model": {"layers": 2}} {}`:           "JSON",
		`{"model": {"layer": 2}}`:               "JSON",
		`{"layers": 2}`:                         "JSON",
		`null`:                                  "JSON",
		`[]`:                                    "JSON",
		`{"model": {"layers": 2.5}}`:            "model.layers",
		`{"model": {"layers": "2"}}`:            "model.layers",
		`{"storage": {"k": "int9"}}`:            "DType",
		`{"memory": {"layout": "unset"}}`:       "layout",
		`{"memory": {"prefix": "fifo"}}`:        "policy",
		`{"model": {"rope": {"scaling": "x"}}}`: "RoPEScaling",
		`{"model": {"rope": {"pairing": "x"}}}`: "Pairing",
	} {
		_, err := Parse([]byte(text))
		var e backend.ErrConfig
		require.ErrorAs(t, err, &e, text)
		require.Equal(t, name, e.Name, text)
		require.NotEmpty(t, e.Why)
	}
	for _, c := range []Config{{Memory: Memory{Layout: 9}}, {Storage: Storage{K: 99}}, {Memory: Memory{Prefix: 99}}, {Model: Model{RoPE: &backend.RoPE{Pairing: 9}}}} {
		_, err := json.Marshal(c)
		require.Error(t, err, "%+v", c)
	}
}

// A configuration that a stranger wrote is refused or is what it says: no text of it panics.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"model": {"layers": 32, "kv_heads": 8, "head_dim": 128, "masks": [{}], "rope": {}}}`))
	f.Add([]byte(`{"storage": {"k": "mxfp4", "k_scales": [1e39]}}`))
	f.Add([]byte(`{"storage": {"k": "nvfp4", "k_scales": [0.25], "v_scales": [1e-9]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse(text)
		if err != nil {
			require.ErrorIs(t, err, backend.ErrConfig{})
			return
		}
		again, err := json.Marshal(c)
		require.NoError(t, err)
		back, err := Parse(again)
		require.NoError(t, err, "%s", again)
		one, _ := json.Marshal(back)
		require.Equal(t, string(again), string(one))
		_, _ = c.Resolve()
	})
}

// What a pool's configuration was filled in with is a configuration, too.
func TestResolvedJSON(t *testing.T) {
	for _, layout := range []Layout{Contiguous, Paged} {
		c, err := Config{Model: Model{Layers: 2, KVHeads: 2, HeadDim: 64}, Memory: Memory{Layout: layout, MaxSeqs: 3}}.Resolve()
		require.NoError(t, err)
		text, err := json.Marshal(c)
		require.NoError(t, err)
		back, err := Parse(text)
		require.NoError(t, err)
		again, err := back.Resolve()
		require.NoError(t, err, "%s", text)
		require.Equal(t, [4]any{c.Model, c.Storage, c.Memory, c.Attention}, [4]any{again.Model, again.Storage, again.Memory, again.Attention})
	}
}
