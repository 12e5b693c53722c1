package snapshot

import "github.com/ferrumkv/ferrumkv/kvcache/prefix"

// encoder appends fields to a payload.
type encoder []byte

func (e *encoder) u8(v byte)  { *e = append(*e, v) }
func (e *encoder) zero(n int) { *e = append(*e, make([]byte, n)...) }
func (e *encoder) n(v int)    { *e = le.AppendUint32(*e, uint32(v)) }

func (e *encoder) bytes(b []byte) {
	e.n(len(b))
	*e = append(*e, b...)
}

func (e *encoder) flags(set ...bool) {
	var f byte
	for i, is := range set {
		if is {
			f |= 1 << i
		}
	}
	e.u8(f)
}

func (e *encoder) scopes(all []prefix.Scope) {
	e.n(len(all))
	for _, s := range all {
		a := prefix.Adapter{}
		if s.Adapter != nil {
			a = *s.Adapter
		}
		e.flags(s.Salt != nil, s.Adapter != nil)
		e.bytes(s.Salt)
		e.bytes([]byte(a.ID))
		e.bytes([]byte(a.Version))
	}
}

func (e *encoder) strips(all []Strip) {
	e.n(len(all))
	for i := range all {
		s := &all[i]
		e.u8(byte(s.Kind))
		e.u8(s.Keeps)
		e.zero(2)
		e.n(s.Group)
		e.n(s.Tokens)
		e.n(len(s.Layers))
		for _, l := range s.Layers {
			e.n(l.Number)
			e.n(len(l.Planes))
			for _, p := range l.Planes {
				e.u8(byte(p.Role))
				e.u8(byte(p.Per))
				e.zero(2)
				e.n(p.Heads)
				e.n(p.Bytes)
			}
		}
	}
}

func (e *encoder) sequence(s *Sequence) {
	e.n(s.Scope)
	e.flags(s.Silent, s.Private)
	e.u8(byte(s.Fidelity))
	e.zero(2)
	e.n(s.Len)
	e.n(s.Next)
	e.n(s.Draft)
	e.n(s.Prompt)
	e.n(len(s.Items))
	for _, i := range s.Items {
		e.n(i.Begin)
		e.n(i.End)
		e.bytes(i.Hash)
	}
	e.n(len(s.Spans))
	for _, sp := range s.Spans {
		e.n(sp.Begin)
		e.n(sp.End)
	}
	e.n(len(s.Tokens))
	for _, t := range s.Tokens {
		*e = le.AppendUint32(*e, t)
	}
	e.n(len(s.Positions))
	for _, list := range s.Positions {
		for _, at := range list {
			e.n(at)
		}
	}
	for _, runs := range s.Strips {
		e.n(len(runs))
		for _, r := range runs {
			e.n(r.First)
			e.n(len(r.Refs))
			for _, ref := range r.Refs {
				e.n(ref.Chunk)
				e.n(ref.Tokens)
			}
		}
	}
}

func (e *encoder) note(n *Note) {
	e.bytes([]byte(n.Name))
	*e = append(*e, n.Data...)
}
