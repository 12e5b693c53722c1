package kvcache

import (
	"errors"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// reuseMachine drives a pool and its prefix tree with random histories of few tokens,
// so that prompts meet. It compares the tree with a map of all blocks, which follows
// the events, and content with what a model that sees the whole path would write.
type reuseMachine[B backend.Buffer] struct {
	*rig[B]
	streams []backend.Stream
	xs      []*reader[B]
	leases  []*prefix.Lease
	mirror  *mirror
	// shadow is what is in each block, by number, in readers that are not exact.
	shadow  map[uint32][]token
	limited bool // there are limits, or were: what is published cannot be foretold
	quiet   map[*reader[B]]bool
	silent  map[*reader[B]]bool // readers of those that offer nothing
	// refused is readers whose full blocks may not all have been wanted when the last one was: what
	// the tree refuses is offered again with the next full block.
	refused map[*reader[B]]bool
}

var scopes = []prefix.Scope{{}, {Salt: []byte{}}, {Salt: []byte("a")}, {Adapter: &prefix.Adapter{ID: "a"}}}

const maxReaders = 6

func (m *reuseMachine[B]) pick(t *rapid.T) *reader[B] {
	if len(m.xs) == 0 {
		t.Skip("no sequence")
	}
	return m.xs[rapid.IntRange(0, len(m.xs)-1).Draw(t, "sequence")]
}

func (m *reuseMachine[B]) stream(t *rapid.T) backend.Stream {
	return m.streams[rapid.IntRange(0, len(m.streams)-1).Draw(t, "stream")]
}

// anyPrompt begins like others do.
func anyPrompt(t *rapid.T) []uint32 {
	base := make([]uint32, rapid.IntRange(0, 20).Draw(t, "common"))
	for i := range base {
		base[i] = uint32(1 + i/7%2)
	}
	return append(base, rapid.SliceOfN(rapid.Uint32Range(1, 2), 0, 6).Draw(t, "own")...)
}

func anyOptions(t *rapid.T, tokens int) OpenOptions {
	o := OpenOptions{Scope: rapid.SampledFrom(scopes).Draw(t, "scope")}
	o.Priority = rapid.IntRange(0, 2).Draw(t, "priority")
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		o.NoReuse = true
	case 1:
		o.NoPublish = true
	case 2:
		o.Accept = prefix.Truncated
	case 3, 4:
		if tokens > 0 {
			begin := rapid.IntRange(0, tokens-1).Draw(t, "image")
			o.Items = []prefix.Item{{Begin: begin, End: min(begin+3, tokens), Hash: []byte{byte(rapid.IntRange(1, 2).Draw(t, "hash"))}}}
		}
	}
	return o
}

// known is what the map has of a prompt.
func (m *reuseMachine[B]) known(prompt []uint32, o OpenOptions) int {
	m.mirror.follow()
	if o.NoReuse {
		return 0
	}
	q := query(prompt, o)
	q.Extra = prefix.ItemKeys(o.Items, len(prompt), m.pool.cfg.Memory.BlockSize)
	return m.mirror.longest(m.pool.model.Root(o.Scope), q)
}

// Open takes what the map has of a prompt, neither more nor less.
func (m *reuseMachine[B]) Open(t *rapid.T) {
	if len(m.xs) >= maxReaders {
		t.Skip("enough sequences")
	}
	prompt := anyPrompt(t)
	o := anyOptions(t, len(prompt))
	st := m.stats()
	want := m.known(prompt, o)
	got := m.matched(prompt, o)
	if o.Accept == prefix.Exact {
		require.Equal(t, want, got)
	} else { // of several it follows the more exact ones, which may end sooner
		exact := o
		exact.Accept = prefix.Exact
		require.GreaterOrEqual(t, got, m.known(prompt, exact))
		require.LessOrEqual(t, got, want)
	}
	seq, match, err := m.pool.Open(prompt, o)
	require.NoError(t, err)
	require.Equal(t, seq.Len(), match.Cached)
	require.Equal(t, len(prompt), match.Cached+match.Uncached)
	require.True(t, len(prompt) == 0 || match.Uncached > 0)
	require.LessOrEqual(t, match.Cached, got)
	if st.Reserved == 0 && m.known(prompt, o) == want { // nothing went meanwhile
		require.Equal(t, got, match.Cached)
	}
	x := &reader[B]{seq: seq, scope: o.Scope, items: o.Items, cut: len(prompt), tokens: prompt[:match.Cached], rest: prompt[match.Cached:]}
	x.want = x.plain(match.Cached)
	if o.Accept != prefix.Exact {
		x.want = nil
		for _, id := range seq.Blocks(nil) {
			x.want = append(x.want, m.shadow[id]...)
		}
		x.want = x.want[:match.Cached]
	}
	m.xs = append(m.xs, x)
	m.quiet[x] = o.NoReuse || o.NoPublish || o.Accept != prefix.Exact
	m.silent[x] = o.NoPublish
}

// Step computes tokens of some sequences, those of their prompts first, and commits
// or abandons it. It may lack blocks only where a pool without reuse would, too.
func (m *reuseMachine[B]) Step(t *rapid.T) {
	m.pick(t)
	s := m.stream(t)
	var parts []part[B]
	for _, x := range m.xs {
		n := rapid.IntRange(0, 9).Draw(t, "tokens")
		if n = min(n, m.pool.cfg.Memory.Capacity-x.seq.NextPosition()); n == 0 {
			continue
		}
		ids := x.rest[:min(n, len(x.rest))]
		if len(ids) == 0 {
			ids = rapid.SliceOfN(rapid.Uint32Range(1, 2), n, n).Draw(t, "ids")
		}
		parts = append(parts, part[B]{x, ids})
	}
	if len(parts) == 0 {
		t.Skip("nobody feeds")
	}
	before := m.stats()
	need, have := m.plainNeed(parts)
	if err := m.enqueue(s, parts...); err != nil {
		require.ErrorIs(t, err, ErrOutOfBlocks{})
		require.True(t, m.limited || before.Reserved > 0 || need > have, "%v: %d needed, %d there without reuse", err, need, have)
		after := m.stats()
		require.Equal(t, before.Logical, after.Logical)
		require.Equal(t, before.Reserved, after.Reserved)
		return
	}
	if rapid.IntRange(0, 4).Draw(t, "abandon") == 0 {
		m.mirror.follow()
		known := len(m.mirror.blocks)
		require.NoError(t, m.step.Reset())
		m.mirror.follow()
		require.LessOrEqual(t, len(m.mirror.blocks), known, "an abandoned step has published")
		return
	}
	alone := map[*reader[B]]bool{}
	for _, p := range parts {
		alone[p.reader] = m.alone(p.reader)
	}
	require.NoError(t, m.committed(parts...))
	st := m.stats()
	for _, p := range parts {
		m.note(p.reader)
		unsure, slots := m.quiet[p.reader] || !alone[p.reader] || m.limited || st.Reserved > 0 || before.Reserved > 0, m.pool.cfg.Memory.BlockSize
		if len(p.tokens)/slots > (len(p.tokens)-len(p.ids))/slots {
			m.refused[p.reader] = unsure
		}
		if unsure || m.refused[p.reader] {
			continue
		}
		o := OpenOptions{Scope: p.scope, Items: p.items}
		if len(p.tokens) >= p.cut {
			require.GreaterOrEqual(t, m.matched(append(slices.Clip(p.tokens), 9), o), len(p.tokens)/slots*slots, "full blocks are published")
		}
	}
}

// plainNeed is how many blocks a step needs in a pool that reuses nothing, and how
// many that would have.
func (m *reuseMachine[B]) plainNeed(parts []part[B]) (need, have int) {
	p := m.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	owners, used, writers := map[uint32]int{}, map[uint32]bool{}, map[uint32]int{}
	for s := range p.seqs {
		for _, b := range s.runs.In[0].Kept.Blocks {
			used[b.ID] = true
			owners[b.ID]++
		}
	}
	if p.tree != nil {
		p.tree.Leased(func(b block.Block) {
			used[b.ID] = true
			owners[b.ID]++
		})
	}
	have = p.cfg.Memory.Blocks - len(used)
	for _, x := range parts {
		s := x.seq
		n := p.cfg.BlocksOf(s.Len()+len(x.ids)) - len(s.runs.In[0].Kept.Blocks)
		if s.Len()%p.cfg.BlockTokens() != 0 {
			tail := s.runs.In[0].Tail().ID
			if writers[tail]++; owners[tail] > writers[tail] {
				n++ // the last of the owners may write in place
			}
		}
		need += n
	}
	return need, have
}

// alone reports whether nobody else has blocks of a reader that are not in the tree:
// those are published later, when they are his.
func (m *reuseMachine[B]) alone(x *reader[B]) bool {
	for _, b := range x.seq.runs.In[0].Kept.Blocks {
		if owners, err := m.pool.parts.All[0].Kept.Owners(b); (err != nil || owners > 1) && !m.pool.parts.All[0].Kept.Published(b) {
			return false
		}
	}
	return true
}

// note remembers what is in a reader's blocks.
func (m *reuseMachine[B]) note(x *reader[B]) {
	slots := m.pool.cfg.Memory.BlockSize
	for i, id := range x.numbers() {
		now, had := x.want[i*slots:min((i+1)*slots, len(x.want))], m.shadow[id]
		if len(had) < len(now) || !slices.Equal(had[:len(now)], now) { // others may have more of it
			m.shadow[id] = now
		}
	}
}

// after runs after every action.
func (m *reuseMachine[B]) after(t *rapid.T) {
	st := m.stats()
	require.NoError(t, m.pool.Check())
	m.mirror.follow()
	require.Equal(t, st.Blocks, st.Free+st.Cached+st.Held)
	require.Len(t, m.mirror.blocks, st.Prefix.Blocks)
	m.mirror.apart()
}

func (m *reuseMachine[B]) finish(t *rapid.T) {
	for _, x := range m.xs {
		m.rig.check(m.streams[0], x)
		require.NoError(t, x.seq.Release())
	}
	for _, l := range m.leases {
		require.NoError(t, m.pool.Unpin(l))
	}
	for _, s := range m.streams[1:] {
		require.NoError(t, s.Close())
	}
	require.NoError(t, m.s.Sync())
	st := m.stats()
	require.Zero(t, st.Held+st.Reserved+st.Sequences+st.Prefix.Pinned)
	require.NoError(t, errors.Join(m.pool.Close(), m.s.Close()))
	_, open := <-m.mirror.sub.C
	for open {
		_, open = <-m.mirror.sub.C
	}
}

func runReuse[B backend.Buffer](t *rapid.T, be backend.Backend[B], cfg Config, streams int) {
	cfg.Memory.Prefix = prefix.Policy(rapid.IntRange(int(prefix.Adaptive), int(prefix.Priority)).Draw(t, "policy"))
	m := &reuseMachine[B]{rig: newRig(t, be, cfg), shadow: map[uint32][]token{}, quiet: map[*reader[B]]bool{}, silent: map[*reader[B]]bool{}, refused: map[*reader[B]]bool{}}
	m.mirror = newMirror(t, m.pool)
	m.streams = []backend.Stream{m.s}
	for len(m.streams) < streams {
		s, err := be.NewStream()
		require.NoError(t, err)
		m.streams = append(m.streams, s)
	}
	t.Repeat(map[string]func(*rapid.T){
		"open": m.Open, "open again": m.Open, "mistake": m.Mistake, "step": m.Step, "step again": m.Step, "together": m.Together, "fork": m.Fork, "truncate": m.Truncate,
		"shift": m.Shift, "keep": m.Keep, "reserve": m.Reserve, "keep promise": m.KeepPromise, "release": m.Release, "release again": m.Release,
		"pin": m.Pin, "limit": m.Limit, "clear": m.Clear, "read": m.Read, "": m.after,
	})
	m.finish(t)
}

// Every history of sequences that share what they have in common reads as if each had
// computed all of its own, and the tree has what the events say: on the CPU in its
// typed form, on the test device, and with streams that run late.
func TestReuseAgainstMap(t *testing.T) {
	cfg := small(Paged)
	cfg.Memory.Blocks, cfg.Model.Layers = 20, 1 // fewer than six sequences can fill
	plain := cfg
	plain.Model.HeadDim, plain.Model.VHeadDim = 2, 2
	rapid.Check(t, func(t *rapid.T) {
		typed, be := openCPU(t), openDevice(t) // a case that fails leaves its pool there
		switch rapid.SampledFrom([]string{"typed", "device", "late", "late"}).Draw(t, "where") {
		case "typed":
			runReuse(t, typed, plain, 1)
			require.Zero(t, typed.Info().Buffers)
		case "device":
			runReuse(t, be, cfg, rapid.IntRange(1, 2).Draw(t, "streams"))
			require.Zero(t, be.Info().Buffers)
		case "late":
			dev := newLateDevice(be, backendtest.LateOptions{Seed: rapid.Uint64().Draw(t, "seed")})
			runReuse(t, dev, cfg, 3)
			require.NoError(t, dev.late.Drain())
			require.Zero(t, be.Info().Buffers)
		}
		require.NoError(t, errors.Join(typed.Close(), be.Close()))
	})
}
