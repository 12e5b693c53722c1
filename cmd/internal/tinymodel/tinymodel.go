// Package tinymodel has a tiny model of each architecture, for tests: its configurations, the shapes of its weights, which are
// seeded, and what scripts/models computes of it in float64.
package tinymodel

import (
	"embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"testing/fstest"

	"github.com/ferrumkv/ferrumkv/backend"
)

//go:embed models/*.json
var files embed.FS

// Model is a tiny model, and logits of some tokens, the columns, at some positions of its text.
type Model struct {
	Name      string
	Configs   map[string]map[string]any // as transformers 4 and 5 write it
	Tokens    int                       // of the text
	Positions []int
	Columns   []int
	Largest   float64 // logit of all
	Logits    [][]float64
	Tensors   []json.RawMessage // name with # for the layer, layers, shape, center, spread, and the type unless it is F32
}

// All is all of them, by name.
func All() (all []*Model) {
	list, _ := files.ReadDir("models")
	for _, file := range list {
		m := &Model{Name: strings.TrimSuffix(file.Name(), ".json")}
		data, _ := files.ReadFile("models/" + file.Name())
		unmarshal(data, m)
		all = append(all, m)
	}
	return all
}

func unmarshal(data []byte, v any) {
	if err := json.Unmarshal(data, v); err != nil {
		panic(err) // the files are part of the program
	}
}

// uniform is numbers from 0 to 1 that scripts/models/weights.py makes alike.
func uniform(name string, n int) []float64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	out := make([]float64, n)
	for i := range out {
		z := h.Sum64() + uint64(i+1)*0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		out[i] = float64((z^z>>31)>>40) / (1 << 24)
	}
	return out
}

// Text is what the model reads: BOS and bytes.
func (m *Model) Text() []uint32 {
	out := []uint32{256}
	for _, u := range uniform(m.Name, m.Tokens-1) {
		out = append(out, uint32(u*256))
	}
	return out
}

// array is a tensor of a file.
type array struct {
	name, kind string
	shape      []int
	data       []byte
}

// arrays are the model's tensors; prefix stands before the names of those of the text model.
func (m *Model) arrays(prefix func(name string) string) (list []array) {
	for _, row := range m.Tensors {
		name, kind := "", "F32"
		var layers, shape []int
		var center, spread float64
		unmarshal(row, &[]any{&name, &layers, &shape, &center, &spread, &kind})
		size, _ := backend.Mul(shape...)
		for _, l := range layers {
			name := strings.ReplaceAll(name, "#", fmt.Sprint(l))
			a := array{prefix(name), kind, shape, nil}
			for _, u := range uniform(m.Name+" "+name, size) {
				v := center + float64(spread*(2*u-1)) // products are rounded, on every processor
				switch b := byte(v); {
				case kind == "F32":
					a.data = binary.LittleEndian.AppendUint32(a.data, math.Float32bits(float32(v)))
				case kind == "F8_E4M3" && b&0x7f == 0x7f: // no number
					a.data = append(a.data, b-1)
				default:
					a.data = append(a.data, b)
				}
			}
			list = append(list, a)
		}
	}
	return list
}

// Folder is the model as files: one of weights in the spelling of transformers "4", two and an index in that of "5". A part of
// a larger model has the names that this gives it.
func (m *Model) Folder(spelling string) fstest.MapFS {
	out := fstest.MapFS{}
	prefix := func(name string) string {
		part, inner := strings.CutPrefix(name, "model.")
		switch _, larger := m.Configs[spelling]["text_config"]; {
		case larger && spelling == "4":
			return "language_model." + name
		case larger && inner:
			return "model.language_model." + part
		}
		return name
	}
	out["config.json"] = jsonFile(m.Configs[spelling])
	list := m.arrays(prefix)
	if spelling == "4" {
		out["model.safetensors"] = safetensors(list)
		return out
	}
	index := map[string]string{}
	for i, part := range [][]array{list[:len(list)/2], list[len(list)/2:]} {
		name := fmt.Sprintf("model-%05d-of-00002.safetensors", i+1)
		out[name] = safetensors(part)
		for _, a := range part {
			index[a.name] = name
		}
	}
	out["model.safetensors.index.json"] = jsonFile(map[string]any{"metadata": map[string]int{"total_size": 1}, "weight_map": index})
	return out
}

func jsonFile(value any) *fstest.MapFile {
	data, _ := json.Marshal(value) // which came from JSON
	return &fstest.MapFile{Data: data}
}

func safetensors(list []array) *fstest.MapFile {
	header, data := map[string]any{}, []byte{}
	for _, a := range list {
		begin := len(data)
		data = append(data, a.data...)
		header[a.name] = map[string]any{"dtype": a.kind, "shape": a.shape, "data_offsets": []int{begin, len(data)}}
	}
	text := jsonFile(header).Data
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return &fstest.MapFile{Data: slices.Concat(out, text, data)}
}
