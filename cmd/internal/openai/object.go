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
		return bad("", "the request is not UTF-8")
	}
	err := json.Unmarshal(data, new(json.RawMessage))
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		return bad("", "the request is not JSON: byte %d: %v", syntax.Offset, err)
	}
	return err
}

// taker takes the value of the field with this path. It is not null.
type taker func(path string, value []byte) error

// object reads an object of valid JSON field by field. A field may be there once, and one that is null counts as left out; needed are those that must not be.
func object(path string, data []byte, takers map[string]taker, needed ...string) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return bad(path, "it must be an object")
	}
	within := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	seen, taken := map[string]bool{}, map[string]bool{}
	for d.More() {
		t, _ := d.Token() // what is valid has no errors
		var value json.RawMessage
		_ = d.Decode(&value)
		name, _ := t.(string)
		at := within(name)
		if name == "" || len(name) > 64 { // an error does not repeat all of it
			at = within(fmt.Sprintf("%.16q", name))
		}
		take, known := takers[name]
		switch {
		case seen[name]:
			return bad(at, "it is there twice")
		case !known:
			return bad(at, "this server does not have this field")
		case string(value) != "null":
			if err := take(at, value); err != nil {
				return err
			}
			taken[name] = true
		}
		seen[name] = true
	}
	for _, name := range needed {
		if !taken[name] {
			return bad(within(name), "it is missing")
		}
	}
	return nil
}

// each has the elements of a list taken.
func each(path string, list []byte, accepts string, take taker) error {
	var all []json.RawMessage
	if json.Unmarshal(list, &all) != nil {
		return bad(path, "it must be %s", accepts)
	}
	for i, one := range all {
		if err := take(fmt.Sprintf("%s[%d]", path, i), one); err != nil {
			return err
		}
	}
	return nil
}

// value takes one that fits; nil: of the type, that is all.
func value[T any](to *T, accepts string, fits func(T) bool) taker {
	return func(path string, value []byte) error {
		if json.Unmarshal(value, to) != nil || fits != nil && !fits(*to) {
			return bad(path, "it must be %s", accepts)
		}
		return nil
	}
}

// ignored takes what changes no answer.
func ignored(string, []byte) error { return nil }

// only takes the value that changes no answer; nil: none.
func only(usual any) taker {
	return func(path string, value []byte) error {
		var given any
		switch err := json.Unmarshal(value, &given); {
		case usual == nil:
			return bad(path, "this server does not have it; leave it out")
		case err != nil || !reflect.DeepEqual(given, usual):
			says, _ := json.Marshal(usual)
			return bad(path, "this server does not have it; leave it out, or say %s", says)
		}
		return nil
	}
}

// list is one without null, which encoding/json takes for a zero.
type list[T any] []T

func (l *list[T]) UnmarshalJSON(data []byte) error {
	var all []*T
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	*l = make([]T, len(all))
	for i, one := range all {
		if one == nil {
			return errors.New("null in a list")
		}
		(*l)[i] = *one
	}
	return nil
}
