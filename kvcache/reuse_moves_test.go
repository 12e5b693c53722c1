package kvcache

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The moves of reuseMachine besides Open and Step.

func (m *reuseMachine[B]) Fork(t *rapid.T) {
	x := m.pick(t)
	if len(m.xs) >= maxReaders {
		t.Skip("enough sequences")
	}
	child := *x
	var err error
	child.seq, err = x.seq.Fork()
	require.NoError(t, err)
	m.xs = append(m.xs, &child)
	m.quiet[&child], m.silent[&child], m.refused[&child] = m.quiet[x], m.silent[x], m.refused[x]
}

func (m *reuseMachine[B]) Truncate(t *rapid.T) {
	x := m.pick(t)
	n := rapid.IntRange(0, len(x.tokens)).Draw(t, "keep")
	before := m.stats()
	require.NoError(t, x.seq.Truncate(n))
	after := m.stats()
	require.LessOrEqual(t, after.Held, before.Held, "a rewind takes nothing")
	x.tokens, x.want = x.tokens[:n], x.want[:n]
	m.changed(x, n)
}

// changed is for a reader whose prompt is not what it was from a token on.
func (m *reuseMachine[B]) changed(x *reader[B], from int) {
	for _, item := range x.items {
		m.silent[x] = m.silent[x] || from < item.End
	}
	m.quiet[x] = m.quiet[x] || m.silent[x]
	x.rest, x.cut = nil, min(x.cut, from)
}

func (m *reuseMachine[B]) Shift(t *rapid.T) {
	x := m.pick(t)
	begin := rapid.IntRange(0, len(x.want)).Draw(t, "begin")
	end := rapid.IntRange(begin, len(x.want)).Draw(t, "end")
	err := x.seq.Shift(m.stream(t), begin, end)
	if errors.Is(err, ErrOutOfBlocks{}) || begin == end {
		return
	}
	require.NoError(t, err)
	kept := slices.Clone(x.want[:begin])
	for _, tk := range x.want[end:] {
		kept = append(kept, token{tk.id, tk.turn - (end - begin)})
	}
	x.want, x.tokens = kept, append(slices.Clone(x.tokens[:begin]), x.tokens[end:]...)
	m.quiet[x] = true
	m.changed(x, begin)
	m.note(x)
}

// Keep leaves the sequence with content that nobody else may find.
func (m *reuseMachine[B]) Keep(t *rapid.T) {
	x := m.pick(t)
	kept := anyKept(t, len(x.want), 1)
	o := RetainOptions{Reposition: rapid.Bool().Draw(t, "reposition")}
	before, err := x.seq.Positions(nil, 0)
	require.NoError(t, err)
	err = x.seq.Retain(m.stream(t), kept, o)
	if errors.Is(err, ErrOutOfBlocks{}) {
		return
	}
	require.NoError(t, err)
	var want []token
	var ids []uint32
	same := 0
	for i, from := range kept[0] {
		tk := x.want[from]
		if o.Reposition {
			tk.turn += i - before[from]
		}
		if same == i && from == i && tk == x.want[i] {
			same++
		}
		want, ids = append(want, tk), append(ids, x.tokens[from])
	}
	if slices.Equal(want, x.want) { // all of it, where it was
		return
	}
	x.want, x.tokens = want, ids
	m.quiet[x], m.silent[x] = true, true
	m.changed(x, same)
	m.note(x)
}

func (m *reuseMachine[B]) Reserve(t *rapid.T) {
	x := m.pick(t)
	n := rapid.IntRange(0, m.pool.cfg.Memory.Capacity).Draw(t, "tokens")
	if err := m.pool.Reserve(Reservation[B]{x.seq, n}); err != nil {
		require.ErrorIs(t, err, ErrOutOfBlocks{})
	}
}

// KeepPromise grows a sequence to what is reserved for it, which cannot fail.
func (m *reuseMachine[B]) KeepPromise(t *rapid.T) {
	x := m.pick(t)
	n := rapid.IntRange(1, 12).Draw(t, "tokens")
	n = min(n, m.pool.cfg.Memory.Capacity-x.seq.NextPosition())
	if n == 0 || m.pool.Reserve(Reservation[B]{x.seq, len(x.tokens) + n}) != nil {
		t.Skip("no room")
	}
	for range n {
		ids := []uint32{1}
		if len(x.rest) > 0 {
			ids = x.rest[:1]
		}
		require.NoError(t, m.run(m.stream(t), part[B]{x, ids}))
		m.note(x)
		m.refused[x] = m.refused[x] || len(x.tokens)%m.pool.cfg.Memory.BlockSize == 0 // there is a promise
	}
}

// Release offers the end of a sequence to others, to its last token, and nothing else: where it is offered, its
// content is what the tokens alone say, or is marked.
func (m *reuseMachine[B]) Release(t *rapid.T) {
	x := m.pick(t)
	m.mirror.follow()
	st, alone, had, slots := m.stats(), m.alone(x), maps.Clone(m.mirror.blocks), m.pool.cfg.Memory.BlockSize
	require.NoError(t, x.seq.Release())
	require.ErrorIs(t, x.seq.Release(), ErrReleased)
	m.mirror.follow()
	for k, b := range m.mirror.blocks {
		if _, known := had[k]; known {
			continue
		}
		require.True(t, alone && !m.silent[x], "%v was offered", b.tokens)
		require.Equal(t, x.tokens[len(x.tokens)/slots*slots:], b.tokens)
		require.True(t, b.fidelity != prefix.Exact || x.exact(), "%v is not what its tokens say", b.tokens)
		require.Less(t, len(b.tokens), slots)
		require.LessOrEqual(t, len(m.mirror.blocks), len(had)+1)
	}
	sure := alone && !m.quiet[x] && !m.refused[x] && !m.limited && st.Reserved == 0
	if o := (OpenOptions{Scope: x.scope, Items: x.items}); sure && (len(x.items) == 0 || len(x.tokens) >= x.cut) {
		whole := append(slices.Clip(x.tokens), 9)
		require.Equal(t, len(x.tokens), m.known(whole, o), "the end is offered")
		require.Equal(t, len(x.tokens), m.matched(whole, o))
	}
	m.xs = slices.DeleteFunc(m.xs, func(o *reader[B]) bool { return o == x })
	delete(m.quiet, x)
	delete(m.silent, x)
	delete(m.refused, x)
}

func (m *reuseMachine[B]) Pin(t *rapid.T) {
	if n := len(m.leases); n > 0 && rapid.Bool().Draw(t, "unpin") {
		require.NoError(t, m.pool.Unpin(m.leases[n-1]))
		require.ErrorIs(t, m.pool.Unpin(m.leases[n-1]), prefix.ErrLeaseEnded)
		m.leases = m.leases[:n-1]
		return
	}
	prompt := anyPrompt(t)
	l, err := m.pool.Pin(prompt, time.Hour, OpenOptions{Scope: rapid.SampledFrom(scopes).Draw(t, "scope")})
	if err != nil { // half of the pool is pinned, or all that is not in use is promised
		require.True(t, errors.Is(err, prefix.ErrPinned{}) || errors.Is(err, ErrOutOfBlocks{}), "%v", err)
		return
	}
	m.leases = append(m.leases, l)
}

func (m *reuseMachine[B]) Limit(t *rapid.T) {
	l := prefix.Limits{Quota: rapid.SampledFrom([]int{0, 2, 8}).Draw(t, "quota"), Floor: rapid.IntRange(0, 2).Draw(t, "floor")}
	require.NoError(t, m.pool.Limit(rapid.SampledFrom(scopes).Draw(t, "scope"), l))
	m.limited = true
}

func (m *reuseMachine[B]) Clear(t *rapid.T) {
	force := rapid.Bool().Draw(t, "force")
	st := m.stats()
	if err := m.pool.Clear(force); err != nil {
		require.False(t, force)
		require.ErrorIs(t, err, prefix.ErrInUse{})
		require.Positive(t, st.Held)
		return
	}
	m.mirror.follow()
	require.Empty(t, m.mirror.blocks)
	for _, x := range m.xs {
		m.silent[x] = m.silent[x] || len(x.tokens) > 0
		m.quiet[x] = m.quiet[x] || m.silent[x]
	}
}

func (m *reuseMachine[B]) Read(t *rapid.T) { m.rig.check(m.stream(t), m.pick(t)) }
