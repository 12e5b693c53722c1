package config

import (
	"crypto/sha256"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// variation is what a field may be changed to, in a configuration where it has an effect.
type variation struct {
	base   func(*Config) // what gives it one; nil: nothing is needed
	change func(t *rapid.T, c *Config)
}

// contentFields change the content of blocks, by the names of fields of Config, Mask and RoPE.
var contentFields = map[string]variation{
	"Model.Layers": {change: func(t *rapid.T, c *Config) {
		c.Model.Layers = other(t, c.Model.Layers, 1, 9)
		c.Model.Masks = c.Model.Masks[:1]
	}},
	"Model.QHeads":   {plainMasks, func(t *rapid.T, c *Config) { c.Model.QHeads = 2 * other(t, c.Model.QHeads/2, 1, 9) }},
	"Model.KVHeads":  {nil, func(t *rapid.T, c *Config) { c.Model.KVHeads = other(t, c.Model.KVHeads, 1, 2) }},
	"Model.HeadDim":  {nil, func(t *rapid.T, c *Config) { c.Model.HeadDim = 64 * other(t, 1, 1, 4) }},
	"Model.Latent":   {func(c *Config) { c.Model.VHeadDim, c.Model.RoPE.Dims = 48, 16 }, func(_ *rapid.T, c *Config) { c.Model.Latent = true }},
	"Model.VHeadDim": {nil, func(t *rapid.T, c *Config) { c.Model.VHeadDim = 64 * other(t, 1, 1, 4) }},
	"Storage.K":      {nil, func(t *rapid.T, c *Config) { c.Storage.K = otherType(t, c.Storage.K) }},
	"Storage.V":      {nil, func(t *rapid.T, c *Config) { c.Storage.V = otherType(t, c.Storage.V) }},
	"Model.Act": {nil, func(t *rapid.T, c *Config) {
		c.Model.Act = rapid.SampledFrom([]backend.DType{backend.F32, backend.BF16}).Draw(t, "act")
	}},
	"Storage.SkipLayers": {nil, func(t *rapid.T, c *Config) { c.Storage.SkipLayers = []int{rapid.IntRange(0, 2).Draw(t, "layer")} }},
	"Storage.Hadamard":   {nil, func(_ *rapid.T, c *Config) { c.Storage.Hadamard = true }},
	"Storage.KScales": {
		func(c *Config) { c.Storage.K = backend.FP8E4M3 },
		func(t *rapid.T, c *Config) { c.Storage.KScales = scalesOf(t, c) },
	},
	"Storage.VScales": {
		func(c *Config) { c.Storage.V = backend.FP8E5M2 },
		func(t *rapid.T, c *Config) { c.Storage.VScales = scalesOf(t, c) },
	},
	"Storage.Residual":    {residual, func(t *rapid.T, c *Config) { c.Storage.Residual = other(t, c.Storage.Residual, 1, 999) }},
	"Storage.Saturate":    {nil, func(_ *rapid.T, c *Config) { c.Storage.Saturate = true }},
	"Attention.Int8Query": {nil, func(_ *rapid.T, c *Config) { c.Attention.Int8Query = true }},
	"Model.Scale":         {nil, func(t *rapid.T, c *Config) { c.Model.Scale *= rapid.Float32Range(1.001, 9).Draw(t, "scale") }},
	"Model.NonCausal":     {func(c *Config) { c.Memory.Prefix = prefix.Off }, func(_ *rapid.T, c *Config) { c.Model.NonCausal = true }},
	"Mask.Chunk":          {func(c *Config) { c.Model.Masks[0].Window, c.Model.Masks[0].SinkTokens = 0, 0 }, func(t *rapid.T, c *Config) { m := aMask(t, c); m.Chunk = other(t, m.Chunk, 1, 99) }},
	"Model.Masks":         {nil, func(_ *rapid.T, c *Config) { c.Model.Masks = nil }},
	"Model.Groups":        {unmasked, func(t *rapid.T, c *Config) { c.Model.Groups = someGroups(t) }},
	"Model.RoPE":          {nil, func(_ *rapid.T, c *Config) { c.Model.RoPE = nil }},
	"Model.Digest":        {nil, func(t *rapid.T, c *Config) { c.Model.Digest = rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "model") }},
	"Mask.Window":         {nil, func(t *rapid.T, c *Config) { m := aMask(t, c); m.Window = other(t, m.Window, 0, 99) }},
	"Mask.SinkTokens":     {nil, func(t *rapid.T, c *Config) { m := aMask(t, c); m.SinkTokens = other(t, m.SinkTokens, 0, 99) }},
	"Mask.SoftCap": {nil, func(t *rapid.T, c *Config) {
		aMask(t, c).SoftCap = rapid.SampledFrom([]float32{0, 1e-30, 31}).Draw(t, "cap")
	}},
	"Mask.ALiBi":      {nil, func(t *rapid.T, c *Config) { m := aMask(t, c); m.ALiBi = otherList(t, m.ALiBi) }},
	"Mask.SinkLogits": {nil, func(t *rapid.T, c *Config) { m := aMask(t, c); m.SinkLogits = otherList(t, m.SinkLogits) }},
	"RoPE.Theta":      {nil, func(t *rapid.T, c *Config) { c.Model.RoPE.Theta *= rapid.Float64Range(1.0001, 99).Draw(t, "theta") }},
	"RoPE.Dims":       {nil, func(t *rapid.T, c *Config) { c.Model.RoPE.Dims = 2 * other(t, 32, 4, 31) }},
	"RoPE.Pairing":    {nil, func(_ *rapid.T, c *Config) { c.Model.RoPE.Pairing = backend.Interleaved }},
	"RoPE.Scaling":    {nil, func(t *rapid.T, c *Config) { c.Model.RoPE.Scaling = backend.RoPEScaling(other(t, 3, 0, 4)) }},
	"RoPE.Factor":     {nil, func(t *rapid.T, c *Config) { c.Model.RoPE.Factor *= rapid.Float64Range(1.0001, 9).Draw(t, "factor") }},
	"RoPE.OriginalContext": {nil, func(t *rapid.T, c *Config) {
		c.Model.RoPE.OriginalContext = other(t, c.Model.RoPE.OriginalContext, 1, 1<<20)
	}},
	"RoPE.BetaFast": {nil, func(t *rapid.T, c *Config) { c.Model.RoPE.BetaFast = rapid.Float64Range(33, 99).Draw(t, "beta") }},
	"RoPE.BetaSlow": {nil, func(t *rapid.T, c *Config) { c.Model.RoPE.BetaSlow = rapid.Float64Range(1.001, 9).Draw(t, "beta") }},
	"RoPE.LowFreqFactor": {llama3, func(t *rapid.T, c *Config) {
		c.Model.RoPE.LowFreqFactor = rapid.Float64Range(1.001, 3.9).Draw(t, "low")
	}},
	"RoPE.HighFreqFactor": {llama3, func(t *rapid.T, c *Config) {
		c.Model.RoPE.HighFreqFactor = rapid.Float64Range(4.001, 9).Draw(t, "high")
	}},
	"RoPE.NoTruncate": {nil, func(_ *rapid.T, c *Config) { c.Model.RoPE.NoTruncate = true }},
	"RoPE.AttentionFactor": {nil, func(t *rapid.T, c *Config) {
		c.Model.RoPE.AttentionFactor = rapid.Float64Range(0.5, 2).Draw(t, "attention")
	}},
}

// otherFields decide nothing of what a block of given tokens holds, for the reason given.
var otherFields = map[string]struct {
	why string
	variation
}{
	"Memory.Layout": {"where tokens lie", variation{nil, func(_ *rapid.T, c *Config) { c.Memory.Layout, c.Memory.Prefix = Contiguous, 0 }}},
	"Memory.StepTokens": {
		"bounds a step; what a residual pool rounds when is in no key, for it publishes nothing",
		variation{residual, func(t *rapid.T, c *Config) { c.Memory.StepTokens = other(t, 0, 1, 99) }},
	},
	"Attention.Scores":    {"kept beside keys and values", variation{nil, func(_ *rapid.T, c *Config) { c.Attention.Scores = true }}},
	"Attention.MinShared": {"the order in which a device adds", variation{nil, func(t *rapid.T, c *Config) { c.Attention.MinShared = other(t, 0, -1, 99) }}},
	"Memory.BlockSize":    {"in the fingerprint beside the content", variation{nil, func(_ *rapid.T, c *Config) { c.Memory.BlockSize = 64 }}},
	"Memory.Capacity":     {"size", variation{nil, func(t *rapid.T, c *Config) { c.Memory.Capacity = other(t, DefaultCapacity, 1, 9999) }}},
	"Memory.MaxSeqs":      {"size", variation{nil, func(t *rapid.T, c *Config) { c.Memory.MaxSeqs = other(t, DefaultMaxSeqs, 1, 99) }}},
	"Memory.Blocks":       {"size", variation{nil, func(t *rapid.T, c *Config) { c.Memory.Blocks = other(t, 0, 1, 99) }}},
	"Memory.Rollback":     {"how long something is kept", variation{nil, func(_ *rapid.T, c *Config) { c.Memory.Rollback = 5 }}},
	"Memory.RetainEvery":  {"policy", variation{nil, func(_ *rapid.T, c *Config) { c.Memory.RetainEvery = 5 }}},
	"Memory.RetainShare":  {"policy", variation{nil, func(_ *rapid.T, c *Config) { c.Memory.RetainShare = 5 }}},
	"Config.memory":       {"follows from groups", variation{nil, func(_ *rapid.T, c *Config) {}}},
	"Config.each":         {"follows from groups", variation{nil, func(_ *rapid.T, c *Config) {}}},
	"Config.stride":       {"follows from groups", variation{nil, func(_ *rapid.T, c *Config) {}}},
	"Memory.Prefix":       {"policy", variation{nil, func(_ *rapid.T, c *Config) { c.Memory.Prefix = prefix.LRU }}},
	"Config.sources":      {"where values came from", variation{nil, func(_ *rapid.T, c *Config) { c.sources[setScale] = FromOption }}},
	"Config.ignored":      {"which variables are ignored", variation{nil, func(_ *rapid.T, c *Config) { c.ignored = []Ignored{{Variable: EnvDiskDir}} }}},
	"Config.resolved":     {"whether they are filled in", variation{nil, func(_ *rapid.T, c *Config) { *c, _ = c.Resolve() }}},
}

// someGroups are groups of the three layers of full that compute something else.
func someGroups(t *rapid.T) []Group {
	return rapid.SampledFrom([][]Group{
		{{Layers: []int{0, 1}}, {Kind: group.None, Layers: []int{2}}},
		{{Layers: []int{0, 1}}, {Kind: group.State, Layers: []int{2}, StateBytes: 1 << 10}},
		{{Layers: []int{0}}, {Kind: group.Chunked, Layers: []int{1, 2}, Chunk: 64}},
		{{Layers: []int{0, 2}}, {Kind: group.Window, Layers: []int{1}, Window: 101}},
		{{Layers: []int{0, 1, 2}, Scale: 0.25}},
		{{Layers: []int{0, 1, 2}, KVHeads: 1}},
		{{Layers: []int{0, 1, 2}, NoRoPE: true}},
		{{Layers: []int{0, 1}}, {Layers: []int{2}, K: backend.F16, V: backend.F16}},
	}).Draw(t, "groups")
}

// full is a configuration in which nearly every field has an effect.
func full() Config {
	return Config{
		Model:   Model{Layers: 3, QHeads: 4, KVHeads: 2, HeadDim: 64, VHeadDim: 64, Act: backend.F16, Scale: 0.125, Masks: []Mask{{Window: 100, SinkTokens: 100, SoftCap: 7, ALiBi: []float32{1, 2, 3, 4}, SinkLogits: []float32{1, 2, 3, 4}}}, RoPE: &backend.RoPE{Theta: 1e4, Scaling: backend.YaRNScaling, Factor: 4, OriginalContext: 2048}},
		Storage: Storage{K: backend.Int8, V: backend.Int8},
		Memory:  Memory{Layout: Paged},
	}
}

// residual is without what does not go with a window of exact tokens.
func residual(c *Config) { c.Model.Masks, c.Memory.Prefix, c.Storage.Residual = nil, prefix.Off, 5 }

// unmasked leaves what queries see to groups.
func unmasked(c *Config) { c.Model.Masks[0].Window, c.Model.Masks[0].SinkTokens = 0, 0 }

func plainMasks(c *Config) { c.Model.Masks[0].ALiBi, c.Model.Masks[0].SinkLogits = nil, nil }

func llama3(c *Config) { c.Model.RoPE.Scaling = backend.Llama3Scaling }

// Each field of a configuration is in the content of its blocks, or is known not to be: one
// that is new belongs into one of the lists, and into docs/keys.md if it decides content.
func TestEveryFieldIsInTheContentOrKnownNotToBe(t *testing.T) {
	for _, of := range []reflect.Type{reflect.TypeFor[Model](), reflect.TypeFor[Storage](), reflect.TypeFor[Memory](), reflect.TypeFor[Attention](),
		reflect.TypeFor[Config](), reflect.TypeFor[Mask](), reflect.TypeFor[backend.RoPE]()} {
		for field := range of.Fields() {
			name := of.Name() + "." + field.Name
			if of == reflect.TypeFor[Config]() && field.IsExported() {
				continue // a part, whose fields have their own entries
			}
			in, decides := contentFields[name]
			out, known := otherFields[name]
			require.True(t, decides != known, "%s: does the content of a block depend on it?", name)
			if decides {
				rapid.Check(t, func(t *rapid.T) { requireContent(t, name, in, false) })
				continue
			}
			require.NotEmpty(t, out.why)
			rapid.Check(t, func(t *rapid.T) { requireContent(t, name, out.variation, true) })
		}
	}
}

func requireContent(t *rapid.T, name string, v variation, same bool) {
	c := full()
	if v.base != nil {
		v.base(&c)
	}
	before, err := c.Content()
	require.NoError(t, err, name)
	v.change(t, &c)
	after, err := c.Content()
	require.NoError(t, err, name)
	require.Equal(t, same, before == after, "%s\n%s", name, after)
	f, err := c.Fingerprint()
	require.NoError(t, err)
	require.EqualValues(t, sha256.Sum256([]byte(after)), f.Content)
	require.Equal(t, prefix.AllLayers, f.Group)
}

// A setting that does nothing changes nothing, nor do other words for the same.
func TestContentHasOneForm(t *testing.T) {
	content := func(change func(*Config)) string {
		c := Config{
			Model:   Model{Layers: 2, KVHeads: 2, HeadDim: 64},
			Storage: Storage{K: backend.F16, V: backend.Int8},
			Memory:  Memory{Layout: Paged},
		}
		change(&c)
		text, err := c.Content()
		require.NoError(t, err)
		return text
	}
	plain := content(func(*Config) {})
	for name, change := range map[string]func(*Config){
		"defaults": func(c *Config) {
			c.Model.QHeads, c.Model.VHeadDim, c.Model.Act, c.Model.Scale = 2, 64, backend.F16, 0.125
		},
		"unused queries": func(c *Config) { c.Attention.Int8Query = true },
		"a mask of none": func(c *Config) { c.Model.Masks = []Mask{{}} },
		"masks of none":  func(c *Config) { c.Model.Masks = []Mask{{}, {ALiBi: []float32{}}} },
		"sinks of none":  func(c *Config) { c.Model.Masks = []Mask{{SinkTokens: 4}} },
		"no layer":       func(c *Config) { c.Storage.SkipLayers = []int{} },
	} {
		require.Equal(t, plain, content(change), name)
	}
	rope := content(func(c *Config) { c.Model.RoPE = &backend.RoPE{} })
	require.Equal(t, rope, content(func(c *Config) {
		c.Model.RoPE = &backend.RoPE{Theta: 1e4, Dims: 64, Factor: 3, BetaFast: 9, HighFreqFactor: 9, OriginalContext: 7, AttentionFactor: 1}
	}))
	require.Equal(t, 1, strings.Count(plain, "\nlayer "))
	apart := content(func(c *Config) { c.Model.Layers, c.Storage.SkipLayers = 5, []int{3, 1} })
	require.Equal(t, 5, strings.Count(apart, "\nlayer "))
}

// Every storage type has the line that docs/keys.md says.
func TestFormatTexts(t *testing.T) {
	page, err := os.ReadFile("../../docs/keys.md")
	require.NoError(t, err)
	seen := map[string]bool{}
	for dt := range backend.StorageTypes {
		text := formatText(dt)
		require.Contains(t, string(page), "\n| `"+text+"` |\n")
		require.False(t, seen[text])
		seen[text] = true
	}
	require.Len(t, regexp.MustCompile("(?m)^\\| `\\w+ bits=").FindAll(page, -1), len(seen), "the page has no other formats")
}

// What outlives its process needs to say which weights it is of.
func TestPersistableConfig(t *testing.T) {
	for _, model := range [][]byte{nil, {}} {
		err := Config{Model: Model{Digest: model}}.Persistable()
		var e backend.ErrConfig
		require.ErrorAs(t, err, &e)
		require.Equal(t, "Model.Digest", e.Name)
		require.ErrorContains(t, err, "digest of the weights")
	}
	require.NoError(t, Config{Model: Model{Digest: []byte{0}}}.Persistable())
}

// other is another number of a range.
func other(t *rapid.T, not, from, to int) int {
	return rapid.IntRange(from, to).Filter(func(n int) bool { return n != not }).Draw(t, "other")
}

func otherType(t *rapid.T, not backend.DType) backend.DType {
	all := slices.DeleteFunc(slices.Collect(backend.StorageTypes), func(dt backend.DType) bool { return dt.Coding().Values != dt })
	return rapid.SampledFrom(slices.DeleteFunc(all, func(dt backend.DType) bool { return dt == not })).Draw(t, "type")
}

// scalesOf are scales, of which not all are 1.
func scalesOf(t *rapid.T, c *Config) []float32 {
	n := rapid.SampledFrom([]int{1, c.Model.Layers, c.Model.Layers * c.Model.KVHeads}).Draw(t, "scales")
	list := slices.Repeat([]float32{1}, n)
	list[rapid.IntRange(0, n-1).Draw(t, "which")] = rapid.Float32Range(1.001, 99).Draw(t, "scale")
	return list
}

// aMask is the mask of one layer, which has none of its own before.
func aMask(t *rapid.T, c *Config) *Mask {
	c.Model.Masks = slices.Repeat(c.Model.Masks, c.Model.Layers)
	return &c.Model.Masks[rapid.IntRange(0, c.Model.Layers-1).Draw(t, "layer")]
}

// otherList is a list of as many, of which one is another, or none.
func otherList(t *rapid.T, list []float32) []float32 {
	i := rapid.IntRange(0, len(list)).Draw(t, "which")
	if i == len(list) {
		return nil
	}
	list = slices.Clone(list)
	list[i] += rapid.Float32Range(0.001, 9).Draw(t, "more")
	return list
}
