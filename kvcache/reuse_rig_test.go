package kvcache

import (
	"cmp"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// What a model writes for a token depends on all tokens before it, on the adapter and
// on the images. reader computes that as ids for the rig's rows, so that a block which
// is reused where it should not be shows in what is gathered. The salt counts, too:
// no tenant may read what another one wrote, even if it would be the same.
type reader[B backend.Buffer] struct {
	seq    *Sequence[B]
	scope  prefix.Scope
	items  []prefix.Item // those of positions below cut
	cut    int
	tokens []uint32
	want   []token  // what is in the cache for them
	rest   []uint32 // of the prompt: still to be computed
}

// mix is a step of the hash that stands for the model.
func mix(state, x uint32) uint32 {
	h := (uint64(state)<<32 | uint64(x)) * 0x9e3779b97f4a7c15
	h ^= h >> 31
	h *= 0xbf58476d1ce4e5b9
	return uint32(h >> 32)
}

func mixBytes(state uint32, b []byte) uint32 {
	state = mix(state, uint32(len(b)))
	for _, x := range b {
		state = mix(state, uint32(x))
	}
	return state
}

// origin is the state before the first token.
func (r *reader[B]) origin() uint32 {
	state := uint32(1)
	if r.scope.Salt != nil {
		state = mixBytes(2, r.scope.Salt)
	}
	if a := r.scope.Adapter; a != nil {
		state = mixBytes(mixBytes(mix(state, 3), []byte(a.ID)), []byte(a.Version))
	}
	return state
}

// next is the state after a token at a position.
func (r *reader[B]) next(state, id uint32, pos int) uint32 {
	for _, item := range r.items {
		if pos < r.cut && pos >= item.Begin && pos < item.End {
			state = mixBytes(state, item.Hash)
		}
	}
	return mix(state, id)
}

// plain is what a plain run of the model writes for the first n tokens.
func (r *reader[B]) plain(n int) []token {
	var out []token
	state := r.origin()
	for pos, id := range r.tokens[:n] {
		state = r.next(state, id, pos)
		out = append(out, token{id: state})
	}
	return out
}

// exact reports whether the cache holds what a plain run would.
func (r *reader[B]) exact() bool { return slices.Equal(r.want, r.plain(len(r.tokens))) }

// ids are what the model writes for new tokens, after what is in the cache.
func (r *reader[B]) ids(tokens []uint32) []uint32 {
	state := r.origin()
	if r.exact() {
		if n := len(r.want); n > 0 {
			state = r.want[n-1].id
		}
	} else {
		for _, tk := range r.want {
			state = mix(mix(state, tk.id), uint32(tk.turn))
		}
	}
	var out []uint32
	for i, id := range tokens {
		state = r.next(state, id, len(r.tokens)+i)
		out = append(out, state)
	}
	return out
}

// wrote notes a committed step.
func (r *reader[B]) wrote(ids, content []uint32) {
	r.tokens = append(slices.Clip(r.tokens), ids...)
	r.want = append(slices.Clip(r.want), tokens(content...)...)
	r.rest = r.rest[min(len(ids), len(r.rest)):]
}

// read opens a sequence for a prompt, whose known part must be exact.
func (r *rig[B]) read(prompt []uint32, o OpenOptions) (*reader[B], Match) {
	r.t.Helper()
	seq, m, err := r.pool.Open(prompt, o)
	require.NoError(r.t, err)
	require.Equal(r.t, len(prompt), m.Cached+m.Uncached)
	require.Equal(r.t, m.Cached, seq.Len(), "the position after reuse is the matched length")
	x := &reader[B]{seq: seq, scope: o.Scope, items: o.Items, cut: len(prompt), tokens: prompt[:m.Cached], rest: prompt[m.Cached:]}
	x.want = x.plain(m.Cached)
	return x, m
}

// prefill computes the rest of a reader's prompt in one step, on stream s.
func (r *rig[B]) prefill(s backend.Stream, xs ...*reader[B]) error {
	r.t.Helper()
	feeds := make([]part[B], len(xs))
	for i, x := range xs {
		feeds[i] = part[B]{x, x.rest}
	}
	return r.run(s, feeds...)
}

// part is a reader's share of a step.
type part[B backend.Buffer] struct {
	*reader[B]
	ids []uint32
}

// enqueue plans a step and writes what the model would.
func (r *rig[B]) enqueue(s backend.Stream, parts ...part[B]) error {
	r.t.Helper()
	var adds, writes []feed[B]
	for _, p := range parts {
		adds, writes = append(adds, feed[B]{p.seq, p.ids}), append(writes, feed[B]{p.seq, p.reader.ids(p.ids)})
	}
	if err := r.plan(s, adds...); err != nil {
		return err
	}
	r.write(s, writes...)
	return nil
}

// run does a whole step.
func (r *rig[B]) run(s backend.Stream, parts ...part[B]) error {
	r.t.Helper()
	if err := r.enqueue(s, parts...); err != nil {
		return err
	}
	return cmp.Or(r.committed(parts...), r.step.Reset())
}

// committed commits a step and notes what the readers have then.
func (r *rig[B]) committed(parts ...part[B]) error {
	if err := r.step.Commit(); err != nil {
		return err
	}
	for _, p := range parts {
		p.wrote(p.ids, p.reader.ids(p.ids))
	}
	return nil
}

// on is the rig with a stream and a step of its own: nothing but the sequences puts its
// work behind that of others.
func (r *rig[B]) on(s backend.Stream) *rig[B] {
	return &rig[B]{t: r.t, be: r.be, s: s, pool: r.pool, step: r.pool.NewBatch()}
}

// serve opens a prompt and computes what is missing, on the rig's stream.
func (r *rig[B]) serve(prompt []uint32, o OpenOptions) (*reader[B], Match) {
	r.t.Helper()
	x, m := r.read(prompt, o)
	require.NoError(r.t, r.prefill(r.s, x))
	return x, m
}

// check reads back what a reader has.
func (r *rig[B]) check(s backend.Stream, x *reader[B]) {
	r.t.Helper()
	r.expect(s, x.seq, x.want)
}

// cache leaves a prompt in the cache.
func (r *rig[B]) cache(prompt []uint32, o OpenOptions) {
	r.t.Helper()
	x, _ := r.serve(prompt, o)
	require.NoError(r.t, x.seq.Release())
	r.idle()
}

// idle is the pool's numbers once the device has done all of the rig's work.
func (r *rig[B]) idle() Stats {
	r.t.Helper()
	require.NoError(r.t, r.s.Sync())
	return r.stats()
}

// matched is how much of a prompt the cache has.
func (r *rig[B]) matched(prompt []uint32, o OpenOptions) int {
	r.t.Helper()
	m, err := r.pool.Match(prompt, o)
	require.NoError(r.t, err)
	require.Equal(r.t, len(prompt), m.Cached+m.Uncached)
	return m.Cached
}

// numbers are a reader's block numbers.
func (x *reader[B]) numbers() []uint32 { return x.seq.Blocks(nil) }
