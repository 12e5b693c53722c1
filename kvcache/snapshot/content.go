package snapshot

import (
	"strconv"
	"strings"
)

// text is a content text by fields: those of the model, and behind each line "layer" those of it and the layers after it.
type text struct {
	first  string
	model  fields
	begins []int // layers
	layers []fields
}

type fields struct {
	names  []string
	values map[string]string
}

func (f *fields) add(name, value string) {
	if f.values == nil {
		f.values = map[string]string{}
	}
	f.names, f.values[name] = append(f.names, name), value
}

func (f *fields) value(name string) string {
	if v, ok := f.values[name]; ok {
		return v
	}
	return "absent"
}

func parse(content string) (t text) {
	into := &t.model
	for i, line := range strings.Split(strings.TrimSuffix(content, "\n"), "\n") {
		name, value, _ := strings.Cut(line, " ")
		switch {
		case i == 0:
			t.first = line
		case name == "layer":
			n, _ := strconv.Atoi(value)
			t.begins, t.layers = append(t.begins, n), append(t.layers, fields{})
			into = &t.layers[len(t.layers)-1]
		default:
			into.add(name, value)
		}
	}
	return t
}

// of is the fields of a layer.
func (t *text) of(layer int) *fields {
	at := 0
	for i, begin := range t.begins {
		if begin <= layer {
			at = i
		}
	}
	if len(t.layers) == 0 {
		return &fields{}
	}
	return &t.layers[at]
}

// Compare is ErrMismatch with the first field in which the content of a snapshot differs from that of a pool (docs/keys.md). Contents with
// the same fields are the same, in whichever words: the contiguous layout says of chunks what a mask and what a group says.
func Compare(have, want string) error {
	if have == want {
		return nil
	}
	a, b := parse(have), parse(want)
	if a.first != b.first {
		return ErrMismatch{Field: "content", Layer: -1, Have: strconv.Quote(a.first), Want: strconv.Quote(b.first)}
	}
	if err := differ(&a.model, &b.model, -1); err != nil {
		return err
	}
	begins := append(append([]int(nil), b.begins...), a.begins...)
	var first error
	at := -1
	for _, l := range begins {
		if err := differ(a.of(l), b.of(l), l); err != nil && (at < 0 || l < at) {
			first, at = err, l
		}
	}
	return first
}

func differ(have, want *fields, layer int) error {
	for _, names := range [...][]string{want.names, have.names} {
		for _, name := range names {
			if h, w := have.value(name), want.value(name); h != w {
				return ErrMismatch{Field: name, Layer: layer, Have: h, Want: w}
			}
		}
	}
	return nil
}
