package kvevents

// Form is how a batch is written. A Decoder reads all forms.
type Form int

const (
	VLLM         Form = iota // vLLM from 0.24 on: maps, hashes without sign
	VLLMArrays               // vLLM before 0.24: arrays
	SGLang                   // SGLang from September 2026 on: maps, hashes with sign, CacheSalt
	SGLangArrays             // SGLang before that
	formCount
)

// AppendBatch appends a batch of events to dst and returns it: an array of the time, the events and the rank. In maps the bytes are those that msgspec
// writes for the engine: fields in the order of declaration, integers as short as possible, and of the fields that are not set only those that the engine
// always sends, as nil. Arrays end after the last field that is set or always sent; msgspec fills them with nil up to the last field that the engine's
// version declares, and readers take either. Unknown fields follow the known ones in maps, and keep their places in arrays. CacheSalt is not written to arrays.
// Events that are nil are left out. An unknown form is taken as VLLM. dst must not overlap memory of the events.
func (f Form) AppendBatch(dst []byte, b Batch, events ...Event) []byte {
	if f < 0 || f >= formCount {
		f = VLLM
	}
	dst = appendFloat(appendArray(dst, 3), b.Time)
	n := 0
	for _, e := range events {
		if !missing(e) {
			n++
		}
	}
	dst = appendArray(dst, n)
	for _, e := range events {
		if missing(e) {
			continue
		}
		switch e := e.(type) {
		case *Stored:
			dst = appendEvent(dst, tagStored, e, storedFields, e.Unknown, f)
		case *Removed:
			dst = appendEvent(dst, tagRemoved, e, removedFields, e.Unknown, f)
		case *Cleared:
			dst = appendEvent(dst, tagCleared, e, nil, e.Unknown, f)
		}
	}
	return appendInt(dst, int64(b.Rank))
}

// missing says that an event is nil: it is left out.
func missing(e Event) bool {
	switch e := e.(type) {
	case *Stored:
		return e == nil
	case *Removed:
		return e == nil
	case *Cleared:
		return e == nil
	}
	return true
}

func appendEvent[E any](dst []byte, tag string, e *E, fields []field[E], unknown []Field, f Form) []byte {
	if arrayForms.has(f) {
		return appendAsArray(dst, tag, e, fields, unknown, f)
	}
	n := 1 + len(unknown)
	for i := range fields {
		if fields[i].sent(e, f) {
			n++
		}
	}
	dst = appendString(appendString(appendMap(dst, n), "type"), tag)
	for i := range fields {
		if fields[i].sent(e, f) {
			dst = fields[i].append(appendString(dst, fields[i].name), e, f)
		}
	}
	for _, u := range unknown {
		dst = u.append(appendString(dst, u.Name))
	}
	return dst
}

func appendAsArray[E any](dst []byte, tag string, e *E, fields []field[E], unknown []Field, f Form) []byte {
	places, n := 0, 0 // that there are, and that are used
	for i := range fields {
		if fields[i].never.has(f) {
			continue
		}
		if places++; fields[i].sent(e, f) || len(unknown) > 0 {
			n = places
		}
	}
	dst = appendString(appendArray(dst, 1+n+len(unknown)), tag)
	for i := range fields {
		if n > 0 && !fields[i].never.has(f) {
			dst = fields[i].append(dst, e, f)
			n--
		}
	}
	for _, u := range unknown {
		dst = u.append(dst)
	}
	return dst
}

// sent says whether a form has a field of an event.
func (x *field[E]) sent(e *E, f Form) bool {
	return !x.never.has(f) && (x.always.has(f) || x.set(e))
}

// append appends a field that is sent: nil where it is not set.
func (x *field[E]) append(dst []byte, e *E, f Form) []byte {
	if !x.set(e) {
		return appendNil(dst)
	}
	return x.put(dst, e, f)
}

// append appends the value of a field; one that has none is nil.
func (u *Field) append(dst []byte) []byte {
	if len(u.Value) == 0 {
		return appendNil(dst)
	}
	return append(dst, u.Value...)
}

func appendHash(dst []byte, h Hash, f Form) []byte {
	switch {
	case h.Bytes != nil:
		return appendBytes(dst, h.Bytes)
	case vllmForms.has(f):
		return appendUint(dst, h.Number)
	}
	return appendInt(dst, int64(h.Number))
}

func appendHashes(dst []byte, hashes []Hash, f Form) []byte {
	dst = appendArray(dst, len(hashes))
	for _, h := range hashes {
		dst = appendHash(dst, h, f)
	}
	return dst
}

// appendTokens appends tokens, or pairs of them; the last of an odd number of pairs' tokens is left out.
func appendTokens(dst []byte, tokens []uint32, pairs bool) []byte {
	if !pairs {
		dst = appendArray(dst, len(tokens))
		for _, t := range tokens {
			dst = appendUint(dst, uint64(t))
		}
		return dst
	}
	dst = appendArray(dst, len(tokens)/2)
	for i := 1; i < len(tokens); i += 2 {
		dst = appendUint(appendUint(appendArray(dst, 2), uint64(tokens[i-1])), uint64(tokens[i]))
	}
	return dst
}

// appendExtraKeys appends a list for each block, or nil where it has no key.
func appendExtraKeys(dst []byte, blocks [][]Key) []byte {
	dst = appendArray(dst, len(blocks))
	for _, keys := range blocks {
		if len(keys) == 0 {
			dst = appendNil(dst)
			continue
		}
		dst = appendArray(dst, len(keys))
		for _, k := range keys {
			if len(k.Raw) > 0 {
				dst = append(dst, k.Raw...)
			} else {
				dst = appendString(dst, k.Text)
			}
		}
	}
	return dst
}
