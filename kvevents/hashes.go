// Hashes and tokens, in all the shapes that engines send.

package kvevents

import (
	"math"
	"slices"
)

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
