package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Parse reads a Config from JSON, such as json.Marshal writes:
//
//	{"model": {"layers": 32, "q_heads": 32, "kv_heads": 8, "head_dim": 128, "rope": {"theta": 500000}},
//	 "storage": {"k": "int8"}, "memory": {"layout": "paged", "capacity": 8192}}
//
// Fields that are left out stay zero. An unknown name, a value of a wrong type, and anything
// after the object are a backend.ErrConfig: a misspelt setting is never ignored. The result is not
// resolved.
func Parse(data []byte) (Config, error) {
	var c Config
	if string(bytes.TrimSpace(data)) == "null" {
		return Config{}, backend.ErrConfig{Name: "JSON", Value: "null", Why: "need an object"}
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return Config{}, jsonError(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return Config{}, backend.ErrConfig{Name: "JSON", Value: "", Why: "something follows the object"}
	}
	return c, nil
}

// jsonError is what the decoder found, as an error of a setting.
func jsonError(err error) error {
	if e, ok := errors.AsType[backend.ErrConfig](err); ok {
		return e
	}
	if e, ok := errors.AsType[prefix.ErrArgument](err); ok {
		return backend.ErrConfig{Name: e.Op, Value: "", Why: e.Why}
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return backend.ErrConfig{Name: cmp.Or(e.Field, "JSON"), Value: e.Value, Why: "need a value of Go type " + e.Type.String()}
	}
	return backend.ErrConfig{Name: "JSON", Value: "", Why: strings.TrimPrefix(err.Error(), "json: ")}
}
