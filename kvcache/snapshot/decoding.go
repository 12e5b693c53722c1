package snapshot

// admit says why a section is not stored as it may be in this stream: all of them are sealed, or none.
func (r *Reader) admit(s *section) error {
	first := r.sections == 0
	switch {
	case first && s.kind == typeSeal && r.guard == nil:
		return ErrMismatch{Field: "secret", Layer: -1, Have: "needed", Want: "none", Why: "the snapshot is sealed; give the secret that it was sealed with"}
	case first && s.kind != typeSeal && s.coding&sealed == 0 && r.guard != nil:
		return ErrMismatch{Field: "secret", Layer: -1, Have: "none", Want: "given", Why: "the snapshot is in the clear, so anybody can have written it; read it without a secret if you trust where it comes from"}
	case (s.kind == typeSeal) != (first && r.guard != nil):
		return r.corrupt("the section is not where it belongs")
	case r.guard != nil && s.coding&sealed == 0:
		return r.corrupt("it is in the clear, in a snapshot that is sealed")
	case r.guard == nil && s.coding&sealed != 0:
		return r.corrupt("it is sealed, in a snapshot that is in the clear")
	}
	return nil
}

// decode makes the payload of a section what it was before it was compressed and sealed.
func (r *Reader) decode(s *section, head *[sectionBytes]byte) error {
	r.payload = r.stored
	if s.coding&sealed != 0 {
		plain, whole := r.guard.open(r.sections, head, r.stored)
		if !whole && s.kind == typeSeal {
			return ErrMismatch{Field: "secret", Layer: -1, Have: "another one", Want: "given", Why: "the snapshot was not sealed with it"}
		}
		if !whole {
			return r.corrupt("it was not sealed as this section of this snapshot")
		}
		r.payload = plain
	}
	if s.coding&compressed != 0 && known(s.kind) {
		if s.kind != typeChunk {
			return r.corrupt("it is compressed, as only chunks are")
		}
		if r.shrinker.Compressor == nil {
			return ErrMismatch{Field: "compression", Layer: -1, Have: "zstd", Want: "none", Why: "give Options a Compressor: package kvcache/snapshot/zstd has it"}
		}
		var why string
		if r.payload, why = r.shrinker.expand(r.payload); why != "" {
			return r.corrupt("what was compressed: %s", why)
		}
	}
	if s.kind == typeSeal {
		if len(r.payload) != idBytes || s.flags != critical {
			return r.corrupt("%d bytes", s.length)
		}
		r.guard.id = [idBytes]byte(r.payload)
	}
	return nil
}
