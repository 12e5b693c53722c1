package snapshot

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/kvcache/internal/kind"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// decoder takes fields from a payload. The first that is not right is kept, and what follows it is zero.
type decoder struct {
	rest []byte
	why  string // what is wrong
}

func (d *decoder) fail(format string, args ...any) {
	if d.why == "" {
		d.why, d.rest = fmt.Sprintf(format, args...), nil
	}
}

func (d *decoder) take(n int) []byte {
	if d.why != "" {
		return nil
	}
	if len(d.rest) < n {
		d.fail("it ends within a field")
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) u8() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) zero(n int) {
	for _, b := range d.take(n) {
		if b != 0 {
			d.fail("a reserved field is not zero")
		}
	}
}

func (d *decoder) u32() uint32 {
	if b := d.take(4); b != nil {
		return le.Uint32(b)
	}
	return 0
}

// n is a number that an int of any machine has.
func (d *decoder) n() int {
	v := d.u32()
	if v > math.MaxInt32 {
		d.fail("the number %d is too large", v)
		return 0
	}
	return int(v)
}

// upTo is a number of at most a limit.
func (d *decoder) upTo(limit int, of string) int {
	v := d.n()
	if v > limit {
		d.fail("%s %d of %d", of, v, limit)
		return 0
	}
	return v
}

// list is the number of things that follow, each of at least so many bytes: no more than there is room for.
func (d *decoder) list(each int) int {
	n := d.n()
	if n > len(d.rest)/each {
		d.fail("a list of %d is longer than what is left", n)
		return 0
	}
	return n
}

func (d *decoder) bytes() []byte {
	n := d.list(1)
	return append([]byte{}, d.take(n)...)
}

func (d *decoder) flags(known byte) byte {
	f := d.u8()
	if f&^known != 0 {
		d.fail("unknown flags %#x", f)
	}
	return f
}

func (d *decoder) end() {
	if len(d.rest) > 0 {
		d.fail("%d bytes behind the last field", len(d.rest))
	}
}

func (d *decoder) scopes() (all []prefix.Scope) {
	for range d.list(13) {
		f := d.flags(3)
		var s prefix.Scope
		salt, a := d.bytes(), prefix.Adapter{ID: string(d.bytes()), Version: string(d.bytes())}
		if f&1 != 0 {
			s.Salt = salt
		} else if len(salt) > 0 {
			d.fail("a salt of a scope without")
		}
		if f&2 != 0 {
			s.Adapter = &a
		} else if (a != prefix.Adapter{}) {
			d.fail("an adapter of a scope without")
		}
		all = append(all, s)
	}
	return all
}

func (d *decoder) strips() (all []Strip) {
	for range d.list(16) {
		s := Strip{Kind: Kind(d.u8()), Keeps: d.u8()}
		d.zero(2)
		s.Group, s.Tokens = d.n(), d.n()
		if s.Kind > State || kind.Of(s.Keeps).Keeps == kind.Nothing || s.Tokens == 0 {
			d.fail("a strip of kind %d, %d, with chunks of %d tokens", s.Kind, s.Keeps, s.Tokens)
		}
		for range d.list(8) {
			l := Layer{Number: d.n()}
			if n := len(s.Layers); n > 0 && l.Number <= s.Layers[n-1].Number {
				d.fail("layer %d behind layer %d", l.Number, s.Layers[n-1].Number)
			}
			for range d.list(12) {
				l.Planes = append(l.Planes, d.plane(&s, &l))
			}
			s.Layers = append(s.Layers, l)
		}
		if len(s.Layers) == 0 {
			d.fail("a strip without layers")
		}
		all = append(all, s)
	}
	return all
}

func (d *decoder) plane(s *Strip, l *Layer) Plane {
	p := Plane{Role: Role(d.u8()), Per: Per(d.u8())}
	d.zero(2)
	p.Heads, p.Bytes = d.n(), d.n()
	last := len(l.Planes) - 1
	switch {
	case p.Role > States || p.Per > PerLayer || p.Heads == 0 || p.Bytes == 0:
		d.fail("a plane of role %d, of whom %d, of %d heads, %d bytes", p.Role, p.Per, p.Heads, p.Bytes)
	case last >= 0 && p.Role <= l.Planes[last].Role:
		d.fail("planes are not in their order")
	case (p.Role == States) != (s.Kind == State) || (p.Per == PerLayer) != (s.Kind == State) || p.Per == PerLayer && p.Heads != 1:
		d.fail("a plane of role %v in a strip of kind %v", p.Role, s.Kind)
	}
	return p
}

// sequence is one of a stream with what came before it.
func (d *decoder) sequence(h *Head) (s Sequence) {
	if s.Scope = d.n(); s.Scope >= len(h.Scopes) {
		d.fail("scope %d of %d", s.Scope, len(h.Scopes))
	}
	f := d.flags(3)
	s.Silent, s.Private = f&1 != 0, f&2 != 0
	if s.Fidelity = prefix.Fidelity(d.u8()); s.Fidelity > prefix.Requantized|prefix.Evicted|prefix.Truncated {
		d.fail("fidelity %#x", uint8(s.Fidelity))
	}
	d.zero(2)
	s.Len, s.Next = d.n(), d.n()
	s.Draft, s.Prompt = d.upTo(s.Len, "draft"), d.n()
	if s.Prompt > 0 && s.Prompt <= s.Len {
		d.fail("a prompt of %d tokens is left to compute of which there are %d", s.Prompt, s.Len)
	}
	for range d.list(12) {
		s.Items = append(s.Items, prefix.Item{Begin: d.n(), End: d.n(), Hash: d.bytes()})
	}
	for range d.list(8) {
		sp := prefix.Span{Begin: d.n(), End: d.n()}
		if n := len(s.Spans); sp.End < sp.Begin || n > 0 && sp.Begin < s.Spans[n-1].End {
			d.fail("spans do not rise")
		}
		s.Spans = append(s.Spans, sp)
	}
	if n := d.list(4); n > 0 {
		s.Tokens = make([]uint32, n)
		for i := range s.Tokens {
			s.Tokens[i] = d.u32()
		}
		if n != max(s.Len, s.Prompt) {
			d.fail("ids of %d tokens, need %d", n, max(s.Len, s.Prompt))
		}
	} else if s.Prompt > 0 {
		d.fail("the prompt that is left to compute has no tokens")
	}
	d.positions(&s, h)
	for i := range h.Strips {
		s.Strips = append(s.Strips, d.runs(&h.Strips[i], s.Len))
	}
	return s
}

func (d *decoder) positions(s *Sequence, h *Head) {
	n, layers := d.n(), 1
	for i := range h.Strips {
		layers += len(h.Strips[i].Layers)
	}
	if n > layers || s.Len > 0 && n > len(d.rest)/4/s.Len {
		d.fail("%d lists of positions", n)
		return
	}
	if n == 0 && s.Next != s.Len {
		d.fail("the next position is %d, behind %d tokens", s.Next, s.Len)
	}
	for range n {
		list := make([]int, 0, min(s.Len, len(d.rest)/4))
		for range s.Len {
			at := d.n()
			if k := len(list); at >= s.Next || k > 0 && at <= list[k-1] {
				d.fail("position %d, the next token is at %d", at, s.Next)
				return
			}
			list = append(list, at)
		}
		s.Positions = append(s.Positions, list)
	}
}

// runs are those of a strip of a sequence with so many tokens.
func (d *decoder) runs(of *Strip, tokens int) (all []Run) {
	if of.Kind == State {
		return d.states(tokens)
	}
	end := 0
	for range d.list(8) {
		r := Run{First: d.n()}
		if r.First < end {
			d.fail("a run at token %d, behind one up to %d", r.First, end)
		}
		end = r.First
		for range d.list(8) {
			ref := Ref{d.n(), d.n()}
			if ref.Tokens == 0 || ref.Tokens > tokens-end || ref.Tokens > of.Tokens {
				d.fail("chunk %d has %d tokens from %d on, of %d", ref.Chunk, ref.Tokens, end, tokens)
				return nil
			}
			end += ref.Tokens
			r.Refs = append(r.Refs, ref)
		}
		if len(r.Refs) == 0 {
			d.fail("a run without tokens")
		}
		all = append(all, r)
	}
	return all
}

// states are the runs of a strip of them, of a sequence with so many tokens: each with the state after its first ones, the last after all.
func (d *decoder) states(tokens int) (all []Run) {
	last := 0
	for range d.list(16) {
		first, n, ref := d.n(), d.n(), Ref{d.n(), d.n()}
		if first != 0 || n != 1 || ref.Tokens <= last || ref.Tokens > tokens {
			d.fail("a state at token %d, after %d of %d tokens, behind one after %d", first, ref.Tokens, tokens, last)
			return nil
		}
		last = ref.Tokens
		all = append(all, Run{Refs: []Ref{ref}})
	}
	if last < tokens {
		d.fail("a sequence without its state")
	}
	return all
}
