package runner

import (
	"fmt"
	"math"
	"slices"
)

// ggufNumber is a numeric type of GGUF's metadata.
type ggufNumber struct {
	bytes int
	read  func(b []byte) float64
}

// ggufNumbers are those types, of which 7 is a boolean.
var ggufNumbers = map[uint32]ggufNumber{
	0: {1, func(b []byte) float64 { return float64(b[0]) }}, 1: {1, func(b []byte) float64 { return float64(int8(b[0])) }},
	2: {2, func(b []byte) float64 { return float64(le.Uint16(b)) }}, 3: {2, func(b []byte) float64 { return float64(int16(le.Uint16(b))) }},
	4: {4, func(b []byte) float64 { return float64(le.Uint32(b)) }}, 5: {4, func(b []byte) float64 { return float64(int32(le.Uint32(b))) }},
	6: {4, func(b []byte) float64 { return float64(math.Float32frombits(le.Uint32(b))) }}, 7: {1, func(b []byte) float64 { return float64(b[0]) }},
	10: {8, func(b []byte) float64 { return float64(le.Uint64(b)) }}, 11: {8, func(b []byte) float64 { return float64(int64(le.Uint64(b))) }},
	12: {8, func(b []byte) float64 { return math.Float64frombits(le.Uint64(b)) }},
}

// ggufList is an array of the metadata, in place in the file: elements that are not used take no memory.
type ggufList struct {
	kind     uint32
	n        int
	elements reader // at the first one
}

// ggufStrings and ggufFloats are arrays of n values.
func ggufStrings(meta *settings, key string, n int) []string {
	list := get[ggufList](meta, key)
	if list.kind != ggufString {
		list.n = 0
	}
	meta.need(list.n == n, "metadata "+key, "has %d values of type string, need %d", list.n, n)
	all := make([]string, n)
	for i := range all {
		all[i] = list.elements.string(key)
	}
	return all
}

func ggufFloats(meta *settings, key string, n int) []float64 {
	list := get[ggufList](meta, key)
	number, ok := ggufNumbers[list.kind]
	if !ok {
		list.n = 0
	}
	meta.need(list.n == n, "metadata "+key, "has %d values of type float64, need %d", list.n, n)
	all := make([]float64, n)
	for i := range all {
		all[i] = number.read(list.elements.bytes(key, uint64(number.bytes)))
	}
	return all
}

// perLayer makes settings that have a value for each layer one, where all are the same. Others are refused; they become the largest one, and are returned.
func (s *settings) perLayer() map[string][]float64 {
	differ := map[string][]float64{}
	for _, key := range []string{"num_attention_heads", "num_key_value_heads", "intermediate_size", "sliding_window_pattern"} {
		field, value := s.lookup(key)
		list, ok := value.(ggufList)
		if !ok {
			continue
		}
		all := ggufFloats(s, s.own(key), s.size("num_hidden_layers", 1<<9))
		if key == "sliding_window_pattern" { // whether each has a window
			s.values["layer_types"] = layerTypesOf(all, "full_attention", "sliding_attention")
			delete(s.values, s.own(key))
			continue
		}
		if s.values[s.own(key)] = slices.Max(all); slices.Min(all) != slices.Max(all) {
			s.refuse(fmt.Sprintf("%s %v, layers that are not alike,", field, list), "it runs models where all layers have the same number")
			differ[key] = all
		}
		if key != "intermediate_size" && slices.Contains(all, 0) {
			s.values["layer_types"] = layerTypesOf(all, otherLayers, "full_attention")
		}
	}
	return differ
}

// layerTypesOf is one type of layers for 0, and one for other numbers.
func layerTypesOf(numbers []float64, zero, other string) (types []any) {
	for _, n := range numbers {
		types = append(types, map[bool]string{true: zero, false: other}[n == 0])
	}
	return types
}

// differ gives layers what they have each, for their sizes.
func (c *Config) differ(each map[string][]float64) {
	if len(each) > 0 && len(c.Blocks) == 0 {
		c.Blocks = slices.Repeat([]Block{c.Block}, c.Layers)
	}
	for l := range c.Blocks {
		b := &c.Blocks[l]
		for key, field := range map[string]*int{"num_attention_heads": &b.Heads, "num_key_value_heads": &b.KVHeads} {
			if all := each[key]; all != nil && all[l] >= 1 {
				*field = int(all[l])
			}
		}
	}
}

// Format prints some of the elements, enough for an error.
func (l ggufList) Format(s fmt.State, _ rune) {
	const most = 8
	var some []any
	for range min(l.n, most) {
		if l.kind == ggufString {
			some = append(some, l.elements.string("element"))
		} else {
			number := ggufNumbers[l.kind]
			some = append(some, number.read(l.elements.bytes("element", uint64(number.bytes))))
		}
	}
	if l.n > most {
		some = append(some, "...")
	}
	fmt.Fprint(s, some)
}
