// The fields of each event, in the order in which engines declare them. The encoder and the decoder go through the same tables.

package kvevents

const (
	tagStored  = "BlockStored"
	tagRemoved = "BlockRemoved"
	tagCleared = "AllBlocksCleared"
)

// field is a field of an event E.
type field[E any] struct {
	name   string
	always forms // the forms that have it even where it is not set, as nil
	never  forms // those that have no place for it
	set    func(*E) bool
	put    func([]byte, *E, Form) []byte
	get    func(*Decoder, *E) error
}

// forms is a set of forms.
type forms uint

const (
	vllmForms   forms = 1<<VLLM | 1<<VLLMArrays
	arrayForms  forms = 1<<VLLMArrays | 1<<SGLangArrays
	mediumForms       = vllmForms | arrayForms // msgspec leaves no field of an array out
	allForms    forms = 1<<formCount - 1
)

func (s forms) has(f Form) bool { return s>>f&1 != 0 }

var storedFields = []field[Stored]{
	{"block_hashes", allForms, 0,
		func(*Stored) bool { return true },
		func(b []byte, e *Stored, f Form) []byte { return appendHashes(b, e.Hashes, f) },
		func(d *Decoder, e *Stored) (err error) { e.Hashes, err = d.hashes(e.Hashes[:0]); return err }},
	{"parent_block_hash", allForms, 0,
		func(e *Stored) bool { return e.HasParent },
		func(b []byte, e *Stored, f Form) []byte { return appendHash(b, e.Parent, f) },
		func(d *Decoder, e *Stored) (err error) {
			e.Parent, e.HasParent, err = d.hash("parent_block_hash")
			return err
		}},
	{"token_ids", allForms, 0,
		func(*Stored) bool { return true },
		func(b []byte, e *Stored, _ Form) []byte { return appendTokens(b, e.Tokens, e.Pairs) },
		func(d *Decoder, e *Stored) (err error) { e.Tokens, e.Pairs, err = d.tokens(e.Tokens[:0]); return err }},
	{"block_size", allForms, 0,
		func(*Stored) bool { return true },
		func(b []byte, e *Stored, _ Form) []byte { return appendInt(b, int64(e.BlockSize)) },
		func(d *Decoder, e *Stored) (err error) { e.BlockSize, _, err = d.integer("block_size"); return err }},
	{"lora_id", allForms, 0,
		func(e *Stored) bool { return e.LoRAID != 0 },
		func(b []byte, e *Stored, _ Form) []byte { return appendInt(b, e.LoRAID) },
		func(d *Decoder, e *Stored) error { n, _, err := d.integer("lora_id"); e.LoRAID = int64(n); return err }},
	text("medium", mediumForms, 0, func(e *Stored) *string { return &e.Medium }),
	{"lora_name", vllmForms, 0,
		func(e *Stored) bool { return e.LoRAName != "" },
		func(b []byte, e *Stored, _ Form) []byte { return appendString(b, e.LoRAName) },
		func(d *Decoder, e *Stored) error { return d.loraName(e) }},
	{"extra_keys", 0, 0,
		func(e *Stored) bool { return e.ExtraKeys != nil },
		func(b []byte, e *Stored, _ Form) []byte { return appendExtraKeys(b, e.ExtraKeys) },
		func(d *Decoder, e *Stored) (err error) { e.ExtraKeys, err = d.extraKeys(); return err }},
	group(func(e *Stored) (*int, *bool) { return &e.Group, &e.HasGroup }),
	text("kv_cache_spec_kind", 0, 0, func(e *Stored) *string { return &e.Kind }),
	{"kv_cache_spec_sliding_window", 0, 0,
		func(e *Stored) bool { return e.Window != 0 },
		func(b []byte, e *Stored, _ Form) []byte { return appendInt(b, int64(e.Window)) },
		func(d *Decoder, e *Stored) (err error) {
			e.Window, _, err = d.integer("kv_cache_spec_sliding_window")
			return err
		}},
	text("locality", 0, 0, func(e *Stored) *string { return &e.Locality }),
	text("ownership", 0, 0, func(e *Stored) *string { return &e.Ownership }),
	text("cache_salt", 0, arrayForms, func(e *Stored) *string { return &e.CacheSalt }),
	text("session_id", 0, 0, func(e *Stored) *string { return &e.SessionID }),
}

var removedFields = []field[Removed]{
	{"block_hashes", allForms, 0,
		func(*Removed) bool { return true },
		func(b []byte, e *Removed, f Form) []byte { return appendHashes(b, e.Hashes, f) },
		func(d *Decoder, e *Removed) (err error) { e.Hashes, err = d.hashes(e.Hashes[:0]); return err }},
	text("medium", mediumForms, 0, func(e *Removed) *string { return &e.Medium }),
	group(func(e *Removed) (*int, *bool) { return &e.Group, &e.HasGroup }),
	text("locality", 0, 0, func(e *Removed) *string { return &e.Locality }),
	text("ownership", 0, 0, func(e *Removed) *string { return &e.Ownership }),
}

// text is a field that is a string, and is set unless it is empty.
func text[E any](name string, always, never forms, of func(*E) *string) field[E] {
	return field[E]{name, always, never,
		func(e *E) bool { return *of(e) != "" },
		func(b []byte, e *E, _ Form) []byte { return appendString(b, *of(e)) },
		func(d *Decoder, e *E) (err error) { *of(e), err = d.text(name); return err }}
}

// group is the field of the group.
func group[E any](of func(*E) (*int, *bool)) field[E] {
	return field[E]{"group_idx", 0, 0,
		func(e *E) bool { _, has := of(e); return *has },
		func(b []byte, e *E, _ Form) []byte { n, _ := of(e); return appendInt(b, int64(*n)) },
		func(d *Decoder, e *E) (err error) {
			n, has := of(e)
			*n, *has, err = d.integer("group_idx")
			return err
		}}
}
