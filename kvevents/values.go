// The values of fields that are numbers and texts, and errors that say where a payload is damaged.

package kvevents

import (
	"fmt"
	"math"
)

// ErrPayload is a payload that is not a batch of events. errors.Is(err, ErrPayload{}) matches any.
type ErrPayload struct {
	Offset int    // of the byte where reading stopped
	Field  string // which was read there
	What   string
}

func (e ErrPayload) Error() string {
	return fmt.Sprintf("kvevents: payload: byte %d: %s: %s; it is damaged, or its publisher is not vLLM or SGLang, or is a later version", e.Offset, e.Field, e.What)
}

// Is reports whether target is an ErrPayload.
func (e ErrPayload) Is(target error) bool {
	_, ok := target.(ErrPayload)
	return ok
}

func (d *Decoder) bad(field, format string, args ...any) error {
	return ErrPayload{d.r.i, field, fmt.Sprintf(format, args...)}
}

func (d *Decoder) head(field string) (value, error) {
	v, err := d.r.head()
	if err != nil {
		return v, d.bad(field, "%v", err)
	}
	return v, nil
}

func (d *Decoder) skipValue(v value, field string) error {
	if err := d.r.skip(v, 0); err != nil {
		return d.bad(field, "%v", err)
	}
	return nil
}

func (d *Decoder) skip(field string) error {
	v, err := d.head(field)
	if err == nil {
		err = d.skipValue(v, field)
	}
	return err
}

// array is the number of elements of the next value, which is an array; nil is an empty one.
func (d *Decoder) array(field string) (uint64, error) {
	v, err := d.head(field)
	if err != nil || v.kind == isArray || v.kind == isNil {
		return v.n, err
	}
	return 0, d.bad(field, "it is %s; want an array", kindNames[v.kind])
}

// bytesOf are those of a string or of bytes with the head v.
func (d *Decoder) bytesOf(field string, v value) ([]byte, error) {
	if v.kind != isString && v.kind != isBytes {
		return nil, d.bad(field, "it is %s; want a string", kindNames[v.kind])
	}
	return d.r.take(v.n) // which head has seen
}

// name is the name of a field, tag the tag of an event.
func (d *Decoder) name() ([]byte, error) { return d.string("the name of a field") }
func (d *Decoder) tag() ([]byte, error)  { return d.string("type") }

func (d *Decoder) string(field string) ([]byte, error) {
	v, err := d.head(field)
	if err != nil {
		return nil, err
	}
	return d.bytesOf(field, v)
}

// findTag is the tag among the fields of a map of n, where engines have it first.
func (d *Decoder) findTag(n uint64) ([]byte, error) {
	for range n {
		name, err := d.name()
		if err != nil {
			return nil, err
		}
		if string(name) == "type" {
			return d.tag()
		}
		if err := d.skip("a field before the type"); err != nil {
			return nil, err
		}
	}
	return nil, d.bad("an event", "it has no type")
}

// text is a string, or "" where nil was sent.
func (d *Decoder) text(field string) (string, error) {
	v, err := d.head(field)
	if err != nil || v.kind == isNil {
		return "", err
	}
	b, err := d.bytesOf(field, v)
	return d.intern(b), err
}

// loraName is the name of an adapter; or, in arrays of SGLang from 0.5.18 on, a map with the salt and the session, which SGLang has in that place.
func (d *Decoder) loraName(e *Stored) error {
	v, err := d.head("lora_name")
	if err != nil || v.kind == isNil {
		return err
	}
	if v.kind != isMap {
		b, err := d.bytesOf("lora_name", v)
		e.LoRAName = d.intern(b)
		return err
	}
	for range v.n {
		name, err := d.name()
		if err != nil {
			return err
		}
		switch string(name) {
		case "cache_salt":
			e.CacheSalt, err = d.text("cache_salt")
		case "session_id":
			e.SessionID, err = d.text("session_id")
		default:
			err = d.unknown(&e.Unknown, d.intern(name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// intern is a string, in the same memory as before where it came before: engines send a few again and again. What is kept has 64 KiB at most.
func (d *Decoder) intern(b []byte) string {
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(s) <= 256 {
		if d.names == nil || len(d.names) >= 256 {
			d.names = map[string]string{}
		}
		d.names[s] = s
	}
	return s
}

// integer is a number that an int has; false: nil was sent.
func (d *Decoder) integer(field string) (int, bool, error) {
	v, err := d.head(field)
	switch {
	case err != nil || v.kind == isNil:
		return 0, false, err
	case v.kind == isUint && v.n <= math.MaxInt, v.kind == isInt && int64(v.n) >= math.MinInt:
		return int(v.n), true, nil
	case v.kind == isUint:
		return 0, false, d.bad(field, "%d is too large", v.n)
	}
	return 0, false, d.bad(field, "it is %s; want an integer", kindNames[v.kind])
}
