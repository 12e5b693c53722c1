package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// ErrTrace is a trace that cannot be read: which file, where in it, and why.
// errors.Is(err, ErrTrace{}) matches any.
type ErrTrace struct {
	File  string
	Place string // "line 12", "request 3", "request 3.2" (of a sub-agent); empty: the file
	Field string // empty: none in particular
	Why   error
}

func (e ErrTrace) Error() string {
	parts := []string{e.File}
	for _, p := range []string{e.Place, e.Field} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, ": ") + ": " + e.Why.Error()
}
func (e ErrTrace) Unwrap() error { return e.Why }

// Is matches the same error and the zero value.
func (e ErrTrace) Is(target error) bool {
	t, ok := target.(ErrTrace)
	return ok && (t == e || t == ErrTrace{})
}

// ErrSetting is a policy, a capacity or a size of the synthetic trace that is not
// accepted. errors.Is(err, ErrSetting{}) matches any.
type ErrSetting struct {
	Name  string // "policy"
	Value string
	Why   string // what is accepted
}

func (e ErrSetting) Error() string { return fmt.Sprintf("%s %s: %s", e.Name, e.Value, e.Why) }

// Is matches the same error and the zero value.
func (e ErrSetting) Is(target error) bool {
	t, ok := target.(ErrSetting)
	return ok && (t == e || t == ErrSetting{})
}

// faulty is why a value of a trace is refused, before it is known where it stands.
type faulty struct{ field, why string }

func (f faulty) Error() string { return f.field + ": " + f.why }

// at says where an error happened. One that already says it stays as it is.
func at(file, place string, err error) error {
	var placed ErrTrace
	if errors.As(err, &placed) {
		return err
	}
	e := ErrTrace{File: file, Place: place, Why: err}
	var field faulty
	var mistyped *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	var path *fs.PathError
	switch {
	case errors.As(err, &field):
		e.Field, e.Why = field.field, errors.New(field.why)
	case errors.As(err, &mistyped):
		e.Field, e.Why = mistyped.Field, fmt.Errorf("%s is not %s", mistyped.Value, wordOf(mistyped))
	case errors.As(err, &syntax):
		e.Why = fmt.Errorf("not JSON at byte %d: %w", syntax.Offset, err)
	case errors.As(err, &path):
		e.Why = path.Err // the file is named already
	}
	return e
}

// wordOf says in words what a field should have held.
func wordOf(e *json.UnmarshalTypeError) string {
	switch name := e.Type.String(); name {
	case "uint64":
		return "a whole number from 0 to 2^64−1"
	case "int64":
		return "a whole number"
	case "float64":
		return "a number"
	case "[]uint64", "[]json.RawMessage":
		return "a list"
	default:
		return "an object"
	}
}

// present refuses a field that is absent, null or negative.
func present[T int64 | float64](field string, v *T) error {
	switch {
	case v == nil:
		return faulty{field, "is missing"}
	case *v < 0:
		return faulty{field, fmt.Sprintf("%v is negative", *v)}
	}
	return nil
}
