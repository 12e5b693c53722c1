// The extra keys of blocks: what their hashes cover besides tokens.

package kvevents

import (
	"slices"
)

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
