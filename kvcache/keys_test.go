package kvcache

import (
	"embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/golden"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

//go:embed testdata/keys.txt
var keyVectors embed.FS

// C6: keys are the same in every process, on every machine and in every language: the
// vectors of docs/keys.md, which scripts/check-keys computes without this library.
func TestC6KeysAreStable(t *testing.T) {
	defer func() {
		if t.Failed() {
			t.Error("keys are in files and in other processes: another one for the same input needs another version of the format (docs/keys.md)")
		}
	}()
	golden.Run(t, keyVectors, "testdata/keys.txt", new(vectors).do)
}

// vectors runs the commands of the script.
type vectors struct {
	cfg    Config
	layers int
}

func (v *vectors) do(t testing.TB, c golden.Command) string {
	args := map[string]string{}
	var items []string
	var spans []prefix.Span
	for _, a := range c.Args {
		args[a.Key] = a.Value
		if a.Key == "item" {
			items = append(items, a.Value)
		}
		if begin, end, _ := strings.Cut(a.Value, ","); a.Key == "span" {
			spans = append(spans, prefix.Span{Begin: intArg(t, begin), End: intArg(t, end)})
		}
	}
	switch c.Name {
	case "content":
		v.content(t, args)
	case "rope":
		v.rope(t, args)
	case "layers":
		v.layer(t, args)
	case "text":
		v.cfg.Model.Layers = v.layers
		if len(v.cfg.Storage.SkipLayers) == v.layers {
			v.cfg.Storage.SkipLayers = nil // nothing is quantized
		}
		text, err := v.cfg.Content()
		require.NoError(t, err)
		f, err := v.cfg.Fingerprint()
		require.NoError(t, err)
		return text + "sum 0x" + f.Content.String() + "\n"
	case "fingerprint":
		f := prefix.Fingerprint{Content: keyArg(t, args["content"]), BlockTokens: intArg(t, args["block-tokens"]), Group: string(bytesArg(t, args["group"]))}
		return f.Text() + "key 0x" + f.Key().String() + "\n"
	case "part":
		return partLines(t, args)
	case "root":
		f := prefix.Fingerprint{Content: keyArg(t, args["content"]), BlockTokens: intArg(t, args["block-tokens"]), Group: prefix.AllLayers}
		s := prefix.Scope{Salt: bytesArg(t, args["salt"])}
		if args["adapter"] != "absent" {
			id, version, _ := strings.Cut(args["adapter"], ",")
			s.Adapter = &prefix.Adapter{ID: string(bytesArg(t, id)), Version: string(bytesArg(t, version))}
		}
		return "key 0x" + f.Root(s).Key.String() + "\n"
	case "items":
		return keyLines("extra", prefix.ItemKeys(itemArgs(t, items), intArg(t, args["tokens"]), intArg(t, args["block-tokens"])))
	case "spans":
		return keyLines("extra", prefix.SpanKeys(tokensArg(t, args["prompt"]), itemArgs(t, items), spans, intArg(t, args["block-tokens"])))
	case "chain":
		return chainLines(t, args)
	default:
		require.Fail(t, "unknown command "+c.Name)
	}
	return ""
}

func (v *vectors) content(t testing.TB, args map[string]string) {
	v.layers = 0
	v.cfg = Config{
		Model:   Model{Digest: bytesArg(t, args["model"]), Act: typeArg(t, args["activation"]), QHeads: intArg(t, args["query-heads"]), KVHeads: intArg(t, args["kv-heads"]), HeadDim: intArg(t, args["key-dim"]), VHeadDim: intArg(t, args["value-dim"]), Scale: float32(realArg(t, args["scale"])), NonCausal: args["non-causal"] == "yes", Latent: args["latent"] == "yes"},
		Storage: Storage{Residual: intArg(t, args["residual"])},
		Memory:  Memory{Layout: Paged, Prefix: prefix.Off},
	}
	v.cfg.Storage.K, v.cfg.Storage.V = v.cfg.Model.Act, v.cfg.Model.Act
}

func (v *vectors) rope(t testing.TB, args map[string]string) {
	r := &backend.RoPE{
		Dims: intArg(t, args["dims"]), Theta: realArg(t, args["theta"]), Factor: realArg(t, args["factor"]), OriginalContext: intArg(t, args["original-context"]),
		BetaFast: realArg(t, args["beta-fast"]), BetaSlow: realArg(t, args["beta-slow"]), LowFreqFactor: realArg(t, args["low-freq"]), HighFreqFactor: realArg(t, args["high-freq"]),
	}
	r.NoTruncate = args["truncate"] == "no"
	if args["attention"] != "yarn" {
		r.AttentionFactor = realArg(t, args["attention"])
	}
	for r.Pairing.String() != args["pairing"] {
		r.Pairing++
	}
	for r.Scaling.String() != args["scaling"] {
		r.Scaling++
	}
	v.cfg.Model.RoPE = r
}

// layer adds n layers that are alike.
func (v *vectors) layer(t testing.TB, args map[string]string) {
	c := &v.cfg
	k, val := c.Model.Act, c.Model.Act
	if args["keys"] != "" {
		k = typeArg(t, args["keys"])
	}
	if args["values"] != "" {
		val = typeArg(t, args["values"])
	}
	ks, vs := realsArg(t, args["key-scales"]), realsArg(t, args["value-scales"])
	for range intArg(t, args["n"]) {
		if k == c.Model.Act && val == c.Model.Act {
			c.Storage.SkipLayers = append(c.Storage.SkipLayers, v.layers)
		} else {
			c.Storage.K, c.Storage.V = k, val
		}
		c.Storage.KScales, c.Storage.VScales = append(c.Storage.KScales, ks...), append(c.Storage.VScales, vs...)
		c.Model.Masks = append(c.Model.Masks, Mask{
			Window: intArg(t, args["window"]), SinkTokens: intArg(t, args["sink-tokens"]), Chunk: intArg(t, args["chunk"]), SoftCap: float32(realArg(t, args["soft-cap"])),
			ALiBi: realsArg(t, args["alibi"]), SinkLogits: realsArg(t, args["sink-logits"]),
		})
		v.layers++
	}
	c.Storage.Hadamard = c.Storage.Hadamard || args["hadamard"] == "yes"
	c.Storage.Saturate = c.Storage.Saturate || args["saturate"] == "yes"
	c.Attention.Int8Query = c.Attention.Int8Query || args["int8-query"] == "yes"
}

// chainLines are the digests and keys of the blocks of a chain.
func chainLines(t testing.TB, args map[string]string) string {
	q := prefix.Query{Tokens: tokensArg(t, args["tokens"])}
	if args["extra"] != "" {
		for _, word := range strings.Split(args["extra"], ",") {
			extra := prefix.Key{}
			if word != "absent" {
				extra = keyArg(t, word)
			}
			q.Extra = append(q.Extra, extra)
		}
	}
	var fidelity prefix.Fidelity
	for _, f := range []struct {
		name string
		bit  prefix.Fidelity
	}{{"requantized", prefix.Requantized}, {"evicted", prefix.Evicted}, {"truncated", prefix.Truncated}} {
		if slices.Contains(strings.Split(args["fidelity"], ","), f.name) {
			fidelity |= f.bit
		}
	}
	digests := q.Digests(nil, intArg(t, args["block-tokens"]))
	return keyLines("digest", digests) + keyLines("key", keyArg(t, args["parent"]).Chain(nil, digests, fidelity))
}

// partLines are a part, and the key of its block of an entry.
func partLines(t testing.TB, args map[string]string) string {
	numbers := func(words string) (list []int) {
		for _, word := range strings.Split(words, ",") {
			list = append(list, intArg(t, word))
		}
		return list
	}
	tokens := numbers(args["tokens"])
	p := prefix.Part{Blocks: keyArg(t, args["blocks"]), Kind: args["kind"], Layers: numbers(args["layers"]), Begin: tokens[0], End: tokens[1],
		Pieces: intArg(t, args["pieces"])}
	return p.Text() + keyLines("sum", []prefix.Key{p.Key()}) + keyLines("key", []prefix.Key{keyArg(t, args["entry"]).Part(p.Key())})
}

// keyLines are sums, one a line; a zero one is absent.
func keyLines[K ~[32]byte](name string, keys []K) string {
	var b strings.Builder
	for _, k := range keys {
		if k == (K{}) {
			fmt.Fprintf(&b, "%s absent\n", name)
		} else {
			fmt.Fprintf(&b, "%s 0x%x\n", name, k[:])
		}
	}
	return b.String()
}

// tokensArg is numbers and ranges of them.
func tokensArg(t testing.TB, words string) (tokens []uint32) {
	for _, word := range strings.Split(words, ",") {
		first, last, more := strings.Cut(word, "-")
		if !more {
			last = first
		}
		for token := intArg(t, first); token <= intArg(t, last); token++ {
			tokens = append(tokens, uint32(token))
		}
	}
	return tokens
}

func itemArgs(t testing.TB, words []string) (items []prefix.Item) {
	for _, word := range words {
		part := strings.Split(word, ",")
		require.Len(t, part, 3)
		items = append(items, prefix.Item{Begin: intArg(t, part[0]), End: intArg(t, part[1]), Hash: bytesArg(t, part[2])})
	}
	return items
}

func intArg(t testing.TB, word string) int {
	if word == "" {
		return 0
	}
	n, err := strconv.Atoi(word)
	require.NoError(t, err)
	return n
}

func realArg(t testing.TB, word string) float64 {
	if word == "" {
		return 0
	}
	v, err := strconv.ParseFloat(word, 64)
	require.NoError(t, err)
	return v
}

func realsArg(t testing.TB, words string) (list []float32) {
	if words == "" {
		return nil
	}
	for _, word := range strings.Split(words, ",") {
		list = append(list, float32(realArg(t, word)))
	}
	return list
}

// bytesArg is nil for what is absent.
func bytesArg(t testing.TB, word string) []byte {
	if word == "absent" {
		return nil
	}
	digits, ok := strings.CutPrefix(word, "0x")
	require.True(t, ok, word)
	b, err := hex.DecodeString(digits)
	require.NoError(t, err)
	return b
}

func keyArg(t testing.TB, word string) (k prefix.Key) {
	b := bytesArg(t, word)
	require.Len(t, b, len(k))
	copy(k[:], b)
	return k
}

func typeArg(t testing.TB, name string) backend.DType {
	dt, ok := backend.ParseDType(name)
	require.True(t, ok, name)
	return dt
}
