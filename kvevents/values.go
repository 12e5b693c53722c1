// The values of fields, in all the shapes that engines send.

package kvevents

import (
	"fmt"
	"math"
	"slices"
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

// hash is a hash; false: nil was sent.
func (d *Decoder) hash(field string) (Hash, bool, error) {
	v, err := d.head(field)
	if err != nil {
		return Hash{}, false, err
	}
	switch v.kind {
	case isNil:
		return Hash{}, false, nil
	case isUint, isInt:
		return Hash{Number: v.n}, true, nil
	case isBytes, isString: // msgspec writes no strings here, other encoders do
		b, err := d.r.take(v.n)
		return HashOf(b), true, err
	}
	return Hash{}, false, d.bad(field, "it is %s; want an integer or bytes", kindNames[v.kind])
}

// HashOf returns the hash with these bytes, which it does not copy.
func HashOf(b []byte) Hash {
	if b == nil {
		b = []byte{}
	}
	h := Hash{Bytes: b}
	for _, c := range b[max(0, len(b)-8):] {
		h.Number = h.Number<<8 | uint64(c)
	}
	return h
}

func (d *Decoder) hashes(to []Hash) ([]Hash, error) {
	n, err := d.array("block_hashes")
	if err != nil {
		return to, err
	}
	to = slices.Grow(to, int(n)) // there are as many bytes at least
	for range n {
		h, ok, err := d.hash("block_hashes")
		if err == nil && !ok {
			err = d.bad("block_hashes", "a hash is nil")
		}
		if err != nil {
			return to, err
		}
		to = append(to, h)
	}
	return to, nil
}

// tokens are numbers or pairs of numbers; true: pairs.
func (d *Decoder) tokens(to []uint32) (_ []uint32, pairs bool, err error) {
	n, err := d.array("token_ids")
	if err != nil {
		return to, false, err
	}
	to = slices.Grow(to, int(n))
	for i := range n {
		v, err := d.head("token_ids")
		if err != nil {
			return to, pairs, err
		}
		pair := v.kind == isArray && v.n == 2
		if i > 0 && pair != pairs {
			return to, pairs, d.bad("token_ids", "tokens and pairs of tokens are mixed")
		}
		if pairs = pair; !pair {
			if to, err = d.token(to, v); err != nil {
				return to, pairs, err
			}
			continue
		}
		for range 2 {
			if v, err = d.head("token_ids"); err == nil {
				to, err = d.token(to, v)
			}
			if err != nil {
				return to, pairs, err
			}
		}
	}
	return to, pairs, nil
}

func (d *Decoder) token(to []uint32, v value) ([]uint32, error) {
	if v.kind != isUint || v.n > math.MaxUint32 {
		return to, d.bad("token_ids", "a token is %s; tokens are integers from 0 to 2³² − 1, or pairs of them", kindNames[v.kind])
	}
	return append(to, uint32(v.n)), nil
}

// extraKeys are a list or nil for each block; nil where nil was sent for all.
func (d *Decoder) extraKeys() ([][]Key, error) {
	v, err := d.head("extra_keys")
	if err != nil || v.kind == isNil {
		return nil, err
	}
	if v.kind != isArray {
		return nil, d.bad("extra_keys", "it is %s; want an array", kindNames[v.kind])
	}
	all, err := d.countKeys(v.n)
	if err != nil {
		return nil, err
	}
	d.blocks, d.keys = slices.Grow(d.blocks[:0], int(v.n)), slices.Grow(d.keys[:0], all) // all of these keys are there
	for range v.n {
		n, err := d.array("extra_keys")
		if err != nil {
			return nil, err
		}
		from := len(d.keys)
		for range n {
			k, err := d.key()
			if err != nil {
				return nil, err
			}
			d.keys = append(d.keys, k)
		}
		d.blocks = append(d.blocks, d.keys[from:len(d.keys):len(d.keys)])
	}
	if d.blocks == nil {
		d.blocks = [][]Key{}
	}
	return d.blocks, nil
}

// countKeys is the number of keys of the next n values, which are lists of keys or nil; it reads none of them.
func (d *Decoder) countKeys(n uint64) (all int, err error) {
	from := d.r.i
	for range n {
		keys, err := d.array("extra_keys")
		if err != nil {
			return 0, err
		}
		for range keys {
			if err := d.skip("extra_keys"); err != nil {
				return 0, err
			}
		}
		all += int(keys)
	}
	d.r.i = from
	return all, nil
}

func (d *Decoder) key() (Key, error) {
	from := d.r.i
	v, err := d.head("extra_keys")
	if err != nil {
		return Key{}, err
	}
	if v.kind == isString {
		b, err := d.bytesOf("extra_keys", v)
		return Key{Text: d.intern(b)}, err
	}
	if err := d.skipValue(v, "extra_keys"); err != nil {
		return Key{}, err
	}
	return Key{Raw: d.r.b[from:d.r.i]}, nil
}
