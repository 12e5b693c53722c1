package runner

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/modelfile"
	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
)

// settings are what a file says of its model: config.json, or the metadata of a GGUF file. Values are as encoding/json makes
// them: float64, string, bool, []any and map[string]any, and nil for one that is absent.
type settings struct {
	file
	section string            // what an error calls the place that they stand in
	values  map[string]any    // by the file's own names
	names   map[string]string // the file's names of settings of config.json; absent: the same
	arch    string            // what such a name has in the place of llama.
	pieces  []tokenizer.Piece // see vocabulary
	// cannot is what the runner cannot do of what they ask for, where only the shape of the model is wanted; nil: it is an error.
	cannot *[]error
}

// refuse is what the runner cannot do, and what to do instead. It is said once, not for each layer.
func (s *settings) refuse(feature, remedy string) {
	if s.cannot == nil {
		s.file.refuse(feature, remedy)
	}
	if what := error(modelfile.ErrUnsupported{File: s.name, Feature: feature, Remedy: remedy}); !slices.Contains(*s.cannot, what) {
		*s.cannot = append(*s.cannot, what)
	}
}

func (s *settings) support(has bool, remedy, format string, a ...any) {
	if !has {
		s.refuse(fmt.Sprintf(format, a...), remedy)
	}
}

// listed is the keys of a table but some, for a remedy.
func listed[V any](table map[string]V, but ...string) string {
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(table)), func(key string) bool { return key == "" || slices.Contains(but, key) })
	return strings.Join(keys, ", ")
}

func (s *settings) lookup(key string) (field string, value any) {
	return s.section + " " + s.own(key), s.values[s.own(key)]
}

// own is what the file calls a setting.
func (s *settings) own(key string) string {
	name := cmp.Or(s.names[key], key)
	if rest, ok := strings.CutPrefix(name, "llama."); ok && s.arch != "" {
		return s.arch + "." + rest
	}
	return name
}

// get is a setting of type T; without a default, it must be there.
func get[T any](s *settings, key string, def ...T) T {
	field, value := s.lookup(key)
	if value == nil && len(def) > 0 {
		return def[0]
	}
	s.need(value != nil, field, "is missing")
	return as[T](s, field, value)
}

// as is a value as one of type T. Integers have 32 bits, and numbers may stand for booleans, as Python has it.
func as[T any](s *settings, field string, value any) (v T) {
	number, isNumber := value.(float64)
	switch any(v).(type) {
	case int:
		whole := isNumber && number == math.Trunc(number) && math.Abs(number) <= math.MaxInt32
		if text, ok := value.(string); ok {
			value = strconv.Quote(text)
		}
		s.need(whole, field, "is %v, need an integer of 32 bits", value)
		value = int(number)
	case bool:
		if isNumber {
			value = number != 0
		}
	}
	v, ok := value.(T)
	s.need(ok, field, "is %s, need %s", kindOf(value), kindOf(v))
	return v
}

// kindOf names what a value is as JSON does.
func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case string:
		return "a string"
	case []any, []string, []float64, []uint32:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "a number"
}

// only refuses settings that are there and say something else than is computed.
func (s *settings) only(plain map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(plain)) {
		_, v := s.lookup(key)
		s.support(v == nil || v == plain[key], fmt.Sprintf("it runs models where that is %v or not there", plain[key]), "%s %v", s.own(key), v)
	}
}

// assume gives settings that the file does not have the values of a configuration class. One that is null stays so.
func (s *settings) assume(class map[string]any) {
	for key, value := range class {
		if _, there := s.values[s.own(key)]; !there {
			s.values[s.own(key)] = value
		}
	}
}

// size is a setting from 1 to most, or the default.
func (s *settings) size(key string, most int, def ...int) int {
	v := get(s, key, def...)
	field, _ := s.lookup(key)
	s.need(v <= most && (v >= 1 || slices.Contains(def, v)), field, "have %d, need 1 to %d", v, most)
	return v
}

// tokens are those of a setting that is one, several, or null.
func (s *settings) tokens(key string) (all []uint32) {
	field, value := s.lookup(key)
	if list, ok := value.(ggufList); ok {
		const most = 256 // tokens that end a text
		s.need(list.n <= most, field, "has %d tokens, at most %d are accepted", list.n, most)
		for _, token := range ggufFloats(s, key, list.n) {
			all = append(all, uint32(as[int](s, field, token)))
		}
		return all
	}
	several, ok := value.([]any)
	if !ok && value != nil {
		several = []any{value}
	}
	for _, token := range several {
		all = append(all, uint32(as[int](s, field, token)))
	}
	return all
}

// flatten makes the fields of a setting that is an object settings of their own, such as rope_scaling.factor.
func (s *settings) flatten(key string) {
	for name, value := range get(s, key, map[string]any{}) {
		s.values[key+"."+name] = value
	}
}

// inherited are settings of a larger model that count for its text model, too.
var inherited = []string{"model_type", "bos_token_id", "eos_token_id", "tie_word_embeddings", "quantization_config", "quantization"}

// larger are the models whose text models are those of a family, which may have their names.
var larger = map[string]string{"gemma3": "gemma3_text", "llama4": "llama4_text"}

// maxSettings limits the bytes of a configuration: decoded lists of numbers take many times as much memory.
const maxSettings = 1 << 20

// parseSettings reads a JSON object.
func parseSettings(f file, section string) *settings {
	s := &settings{file: f, section: section}
	f.need(len(f.data) <= maxSettings, section, "has %d bytes, at most %d are accepted", len(f.data), maxSettings)
	err := json.Unmarshal(f.data, &s.values)
	var other *json.UnmarshalTypeError
	f.need(err == nil || errors.As(err, &other), section, "%v", err)
	f.need(s.values != nil, section, "is not a JSON object")
	return s
}

// parseConfig reads config.json, or of the configuration of a larger model the part of its text model.
func parseConfig(f file, cannot *[]error) Config {
	s := parseSettings(f, "configuration")
	s.cannot = cannot
	if text := get(s, "text_config", map[string]any(nil)); text != nil {
		outer := s.values
		name := get(s, "model_type", "")
		// The text of others may see in other ways, such as PaliGemma's.
		s.support(larger[name] != "", "of larger models it runs the text model of "+listed(larger), "model_type %s with a text_config", name)
		s.section, s.values = "configuration text_config", text
		maps.DeleteFunc(outer, func(key string, _ any) bool { return !slices.Contains(inherited, key) })
		s.assume(outer)
	}
	c := s.config()
	s.check(&c)
	return c
}

// scalings are the types of rotary embedding.
var scalings = map[string]backend.RoPEScaling{
	"": backend.NoScaling, "none": backend.NoScaling, "default": backend.NoScaling,
	"linear": backend.LinearScaling, "llama3": backend.Llama3Scaling, "yarn": backend.YaRNScaling,
}

// ropeOf is the prefix of the settings of the rotary embedding of layers of a type. Transformers 4 has theta beside
// rope_scaling, and that of local layers apart; transformers 5 has rope_parameters for both, for all layers or for each type.
func (s *settings) ropeOf(layers string) (prefix string, theta float64) {
	prefix, theta = "rope_scaling.", get(s, "rope_theta", 10000.0)
	if s.values["rope_parameters"] != nil { // theta and scaling in one place
		prefix = "rope_parameters."
	}
	if layers == "sliding_attention" && s.values[s.own("rope_local_base_freq")] != nil {
		prefix, theta = "none.", get[float64](s, "rope_local_base_freq")
	}
	if _, nested := s.values["rope_parameters."+layers].(map[string]any); nested {
		prefix = "rope_parameters." + layers + "."
	}
	return prefix, theta
}

// rope fills in the rotary embedding of a layer of a type, but for its pairing, and dims that are known.
func (s *settings) rope(b *Block, layers string, context int) {
	prefix, theta := s.ropeOf(layers)
	number := func(key string) float64 { return get(s, prefix+key, 0.0) }
	r := &b.RoPE
	r.Theta = get(s, prefix+"rope_theta", theta)
	if part := get(s, prefix+"partial_rotary_factor", get(s, "partial_rotary_factor", 1.0)); part != 1 && r.Dims == 0 {
		r.Dims = int(float64(b.HeadDim) * part)
	}
	key := "rope_type"
	if get[any](s, prefix+key, nil) == nil {
		key = "type"
	}
	kind := get(s, prefix+key, "")
	scaling, known := scalings[kind]
	if !known {
		s.refuse(s.own(prefix+key)+" "+kind, "it runs "+listed(scalings))
	}
	if scaling == backend.NoScaling {
		return
	}
	r.Scaling, r.Factor, r.AttentionFactor = scaling, number("factor"), number("attention_factor")
	r.BetaFast, r.BetaSlow = number("beta_fast"), number("beta_slow")
	r.LowFreqFactor, r.HighFreqFactor = number("low_freq_factor"), number("high_freq_factor")
	r.OriginalContext = get(s, prefix+"original_max_position_embeddings", context)
	if scaling == backend.YaRNScaling {
		if r.Factor == 0 && r.OriginalContext > 0 {
			r.Factor = float64(context) / float64(r.OriginalContext)
		}
		r.NoTruncate = !get(s, prefix+"truncate", true)
		if r.BetaFast == r.BetaSlow && !r.NoTruncate { // as of Kimi-K2: a ramp from the pair below to the one above, which any two betas this close have
			r.BetaFast = math.Nextafter(r.BetaFast, 2*r.BetaFast)
		}
		if m, all := number("mscale"), number("mscale_all_dim"); m != 0 && all != 0 && r.AttentionFactor == 0 {
			r.AttentionFactor = yarnFactor(r.Factor, m) / yarnFactor(r.Factor, all)
		}
	}
}

// yarnFactor is YaRN's factor on queries and keys, of which m scales the logarithm.
func yarnFactor(factor, m float64) float64 { return 0.1*m*math.Log(max(factor, 1)) + 1 }
