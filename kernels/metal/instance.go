package metalkernels

import (
	"fmt"
	"strings"
)

// Instance is a family compiled for types and head dims, or a whole family, whose
// kernels then have names of their own. Fields that are zero are no part of it.
type Instance struct {
	Family     string // file: "attend_decode"
	Name       string // of the kernel: "fkv_attend_decode_f16_f16_128_128"
	In, Out    string // types, in the order of the name: "f32", "f16", "bf16"; Out may be "quant"
	KDim, VDim int
}

// words are what Metal calls the types. What stands for the quantized ones is no type of
// an element.
var words = map[string]string{"f32": "float", "f16": "half", "bf16": "bfloat", "quant": "fkv::Quantized"}

// BFloat reports whether the instance needs bfloat, which is in version 3.1 of the
// language.
func (i Instance) BFloat() bool { return i.In == "bf16" || i.Out == "bf16" }

// Source is the text that a compiler needs for the instance: its macros, then the
// family with every include in its place. Lines keep the names of their files.
func (i Instance) Source() (string, error) {
	var b strings.Builder
	define := func(name, value string) { fmt.Fprintf(&b, "#define %s %s\n", name, value) }
	if i.Name != "" {
		define("FKV_NAME", i.Name)
	}
	for _, t := range [...]struct{ macro, name string }{{"FKV_IN", i.In}, {"FKV_OUT", i.Out}} {
		if t.name == "" {
			continue
		}
		word, ok := words[t.name]
		if !ok {
			return "", fmt.Errorf("kernels: %s: no type %q in Metal", i.Name, t.name)
		}
		define(t.macro, word)
	}
	for _, d := range [...]struct {
		macro string
		dim   int
	}{{"FKV_KDIM", i.KDim}, {"FKV_VDIM", i.VDim}} {
		if d.dim != 0 {
			define(d.macro, fmt.Sprint(d.dim))
		}
	}
	if i.Out == "quant" {
		define("FKV_QUANT", "1")
	}
	if i.BFloat() {
		define("FKV_BFLOAT", "1")
	}
	f := flattener{to: &b, seen: map[string]bool{}}
	if err := f.file(i.Family + ".metal"); err != nil {
		return "", err
	}
	return b.String(), nil
}
