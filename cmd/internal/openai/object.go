package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// valid refuses what is not one JSON value in UTF-8.
func valid(data []byte) error {
	if !utf8.Valid(data) {
		return Error{Status: 400, Message: "the request is not UTF-8"}
	}
	var syntax *json.SyntaxError
	if err := json.Unmarshal(data, new(json.RawMessage)); errors.As(err, &syntax) {
		return Error{Status: 400, Message: fmt.Sprintf("the request is not JSON: byte %d: %v", syntax.Offset, err)}
	} else if err != nil {
		return Error{Status: 400, Message: "the request is not JSON: " + err.Error()}
	}
	return nil
}

// fields reads an object of valid JSON field by field, each of which may be there once. prefix is in front of names in errors.
func fields(data []byte, prefix string, field func(name, path string, value []byte) error) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return bad(strings.TrimSuffix(prefix, "."), "it must be an object")
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		name, _ := t.(string)
		var value json.RawMessage
		if err == nil {
			err = d.Decode(&value)
		}
		switch path := prefix + name; {
		case err != nil: // what is valid has none
			return bad(path, "%v", err)
		case seen[name]:
			return bad(path, "it is there twice")
		default:
			if err := field(name, path, value); err != nil {
				return err
			}
		}
		seen[name] = true
	}
	return nil
}

// read reads a value; null leaves to as it is.
func read[T any](path string, value []byte, to *T) error {
	if json.Unmarshal(value, to) != nil {
		return bad(path, "it must be %s", kindOf[reflect.TypeFor[T]().Kind()])
	}
	return nil
}

var kindOf = map[reflect.Kind]string{reflect.String: "a string", reflect.Bool: "true or false", reflect.Int: "an integer", reflect.Int64: "an integer",
	reflect.Float64: "a number", reflect.Pointer: "an integer", reflect.Slice: "a list of strings, or of tokens"}

// list reads a list without null in it; null is none.
func list[T any](path string, value []byte) ([]T, error) {
	var all []*T
	if err := read(path, value, &all); err != nil || all == nil {
		return nil, err
	}
	out := make([]T, len(all))
	for i, v := range all {
		if v == nil {
			return nil, bad(path, "it has null in it")
		}
		out[i] = *v
	}
	return out, nil
}
