package runner

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
)

// settings are what a file says of its model: config.json, or the metadata of a GGUF file. Values are as encoding/json makes
// them: float64, string, bool, []any and map[string]any, and nil for one that is absent.
type settings struct {
	*reader
	section string            // what an error calls the place that they stand in
	values  map[string]any    // by the file's own names
	names   map[string]string // the file's names of settings of config.json; absent: the same
}

func (s *settings) lookup(key string) (field string, value any) {
	return s.section + " " + s.own(key), s.values[s.own(key)]
}

// own is what the file calls a setting.
func (s *settings) own(key string) string { return cmp.Or(s.names[key], key) }

// get is a setting of type T; without a default, it must be there.
func get[T any](s *settings, key string, def ...T) (v T) {
	field, value := s.lookup(key)
	if value == nil && len(def) > 0 {
		return def[0]
	}
	v, ok := value.(T)
	if value == nil {
		s.fail(field, "is missing")
	} else if !ok {
		s.fail(field, "has type %T, need %T", value, v)
	}
	return v
}

// integer is v, which must be one of 32 bits.
func (s *settings) integer(field string, v any) int {
	f, ok := v.(float64)
	if !ok || f != math.Trunc(f) || math.Abs(f) > math.MaxInt32 {
		s.fail(field, "is %v, need an integer of 32 bits", v)
	}
	return int(f)
}

// truth is v, which must be a boolean or, as Python has it, a number.
func (s *settings) truth(field string, v any) bool {
	if number, ok := v.(float64); ok {
		return number != 0
	}
	flag, ok := v.(bool)
	if !ok && v != nil {
		s.fail(field, "is %v, need true or false", v)
	}
	return flag
}

func (s *settings) int(key string, def ...int) int {
	field, value := s.lookup(key)
	if value == nil && len(def) > 0 {
		return def[0]
	}
	return s.integer(field, get[any](s, key))
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
	v := s.int(key, def...)
	if v > most || v < 1 && !slices.Contains(def, v) {
		field, _ := s.lookup(key)
		s.fail(field, "have %d, need 1 to %d", v, most)
	}
	return v
}

// tokens are those of a setting that is one, several, or null.
func (s *settings) tokens(key string) (all []uint32) {
	field, value := s.lookup(key)
	several, ok := value.([]any)
	if !ok && value != nil {
		several = []any{value}
	}
	for _, token := range several {
		all = append(all, uint32(s.integer(field, token)))
	}
	return all
}

// flatten makes the fields of a setting that is an object settings of their own, as rope_scaling.factor.
func (s *settings) flatten(key string) {
	for name, value := range get(s, key, map[string]any{}) {
		s.values[key+"."+name] = value
	}
}

// inherited are settings of a larger model that count for its text model, too.
var inherited = []string{"model_type", "bos_token_id", "eos_token_id", "tie_word_embeddings", "quantization_config"}

// larger are the models whose text models are those of a family.
var larger = []string{"gemma3", "llama4"}

// parseSettings reads a JSON object.
func parseSettings(f file, section string) (*settings, error) {
	s := &settings{reader: &reader{file: f}, section: section}
	if err := json.Unmarshal(f.data, &s.values); err != nil {
		return nil, f.bad(section, "%v", err)
	}
	if s.values == nil {
		return nil, f.bad(section, "is no JSON object")
	}
	return s, nil
}

// parseConfig reads config.json, or of the configuration of a larger model the part of its text model.
func parseConfig(f file) (Config, error) {
	s, err := parseSettings(f, "configuration")
	if err != nil {
		return Config{}, err
	}
	if text := get(s, "text_config", map[string]any(nil)); text != nil {
		outer := s.values
		if name := get(s, "model_type", ""); !slices.Contains(larger, name) { // whose text may see in other ways, as PaliGemma's does
			return Config{}, s.unsupported("model_type %s with a text_config", name)
		}
		s.section, s.values = "configuration text_config", text
		maps.DeleteFunc(outer, func(key string, _ any) bool { return !slices.Contains(inherited, key) })
		s.assume(outer)
	}
	c := s.config()
	s.check(&c)
	return c, s.err
}
