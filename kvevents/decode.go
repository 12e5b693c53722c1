package kvevents

import (
	"math"
	"strconv"
)

// Decoder decodes batches of all forms: maps with their fields in any order, and arrays; hashes that are signed or unsigned integers, or bytes; tokens
// and pairs of tokens. The zero value is ready to use. A Decoder reuses its memory from batch to batch; only one goroutine may use it at a time.
type Decoder struct {
	r       reader
	stored  Stored
	removed Removed
	cleared Cleared
	blocks  [][]Key           // stored.ExtraKeys
	keys    []Key             // those of all blocks
	names   map[string]string // strings that come again and again
	skipped int
}

// Skipped returns how many events have had a tag that this package does not know.
func (d *Decoder) Skipped() int { return d.skipped }

// Decode decodes a payload and calls f with each event, in the order of the batch. It skips events with unknown tags. It returns the Batch, which f also
// receives. If f returns an error, Decode stops and returns it: the remaining events of the batch are lost, so return nil for an event that can be left out.
// If a payload is damaged anywhere, the error is ErrPayload, and f has not been called for any of its events.
//
// The event and everything it refers to, except strings, are valid until f returns. Hash.Bytes, Key.Raw and Field.Value are slices of the payload.
// A decoder needs up to 60 times as much memory as the largest payload: bound what you receive.
func (d *Decoder) Decode(payload []byte, f func(Batch, Event) error) (Batch, error) {
	d.r = reader{b: payload}
	b, from, n, e, err := d.check()
	if err != nil {
		return Batch{}, err
	}
	d.r.i = from
	for range n {
		if n > 1 { // else check has it
			if e, err = d.event(); err != nil {
				return b, err
			}
		}
		if e == nil {
			d.skipped++
		} else if err := f(b, e); err != nil {
			return b, err
		}
	}
	return b, nil
}

// check reads a whole payload: the batch, where its events begin, the number of them, and the last one.
func (d *Decoder) check() (b Batch, from int, n uint64, last Event, err error) {
	fields, err := d.array("the payload")
	if err != nil {
		return b, 0, 0, nil, err
	}
	if fields < 2 {
		return b, 0, 0, nil, d.bad("the payload", "it is an array of %d elements; a batch has a time, events and a rank", fields)
	}
	switch v, err := d.head("the time"); {
	case err != nil:
		return b, 0, 0, nil, err
	case v.kind == isFloat:
		b.Time = math.Float64frombits(v.n)
	case v.kind == isUint:
		b.Time = float64(v.n)
	case v.kind == isInt:
		b.Time = float64(int64(v.n))
	default:
		return b, 0, 0, nil, d.bad("the time", "it is %s", kindNames[v.kind])
	}
	if n, err = d.array("the events"); err != nil {
		return b, 0, 0, nil, err
	}
	from = d.r.i
	for range n {
		if last, err = d.event(); err != nil {
			return b, 0, 0, nil, err
		}
	}
	if fields > 2 {
		if b.Rank, _, err = d.integer("the rank"); err != nil {
			return b, 0, 0, nil, err
		}
	}
	for range fields - min(fields, 3) {
		if err := d.skip("the batch"); err != nil {
			return b, 0, 0, nil, err
		}
	}
	if left := len(d.r.b) - d.r.i; left > 0 {
		return b, 0, 0, nil, d.bad("the payload", "%d bytes follow it", left)
	}
	return b, from, n, last, nil
}

// event reads an event; nil is one of an unknown tag.
func (d *Decoder) event() (Event, error) {
	v, err := d.head("an event")
	if err != nil {
		return nil, err
	}
	from := d.r.i
	switch v.kind {
	case isArray:
		if v.n == 0 {
			return nil, d.bad("an event", "an empty array has no tag")
		}
		tag, err := d.tag()
		if err != nil {
			return nil, err
		}
		return d.known(tag, from, v, true)
	case isMap:
		tag, err := d.findTag(v.n)
		if err != nil {
			return nil, err
		}
		return d.known(tag, from, v, false)
	}
	return nil, d.bad("an event", "it is %s; events are maps or arrays", kindNames[v.kind])
}

// known reads the fields of an event, which has the head v and begins at from.
func (d *Decoder) known(tag []byte, from int, v value, array bool) (Event, error) {
	switch string(tag) {
	case tagStored:
		e := &d.stored
		*e = Stored{Hashes: e.Hashes[:0], Tokens: e.Tokens[:0], Unknown: e.Unknown[:0]}
		return e, readFields(d, e, storedFields, &e.Unknown, from, v, array)
	case tagRemoved:
		e := &d.removed
		*e = Removed{Hashes: e.Hashes[:0], Unknown: e.Unknown[:0]}
		return e, readFields(d, e, removedFields, &e.Unknown, from, v, array)
	case tagCleared:
		e := &d.cleared
		*e = Cleared{Unknown: e.Unknown[:0]}
		return e, readFields(d, e, nil, &e.Unknown, from, v, array)
	}
	d.r.i = from
	return nil, d.skipValue(v, "an event")
}

// readFields reads the fields of an event e.
func readFields[E any](d *Decoder, e *E, fields []field[E], unknown *[]Field, from int, v value, array bool) error {
	d.r.i = from
	if array {
		return readArray(d, e, fields, unknown, v.n)
	}
	next := 0 // the field that probably follows
	for range v.n {
		name, err := d.name()
		if err != nil {
			return err
		}
		at := -1
		for i := range fields {
			if j := (next + i) % len(fields); fields[j].name == string(name) {
				at, next = j, j+1
				break
			}
		}
		switch {
		case at >= 0:
			err = fields[at].get(d, e)
		case string(name) == "type":
			err = d.skip("type")
		default:
			err = d.unknown(unknown, d.intern(name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func readArray[E any](d *Decoder, e *E, fields []field[E], unknown *[]Field, n uint64) error {
	if err := d.skip("type"); err != nil {
		return err
	}
	n--
	for i := range fields {
		if n > 0 && !fields[i].never.has(VLLMArrays) {
			if err := fields[i].get(d, e); err != nil {
				return err
			}
			n--
		}
	}
	for range n {
		if err := d.unknown(unknown, ""); err != nil {
			return err
		}
	}
	return nil
}

// mostUnknown is how many fields of an event are kept that are not known.
const mostUnknown = 256

// shown is a name from a payload for an error: short, and without what would begin a new line.
func shown(name string) string { return strconv.Quote(name[:min(len(name), 64)]) }

// unknown keeps the next value as a field of this name.
func (d *Decoder) unknown(to *[]Field, name string) error {
	if len(*to) >= mostUnknown {
		return d.bad(shown(name), "an event has more than %d fields that are not known", mostUnknown)
	}
	raw, err := d.r.raw()
	if err != nil {
		return d.bad(shown(name), "%v", err)
	}
	*to = append(*to, Field{name, raw})
	return nil
}
