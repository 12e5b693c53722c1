package kvcache

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// mirror is the naive model of a pool's prefix tree: all blocks in it by their keys,
// as the events tell.
type mirror struct {
	t      testT
	sub    *prefix.Subscription
	slots  int
	blocks map[prefix.Key]stored
	seq    uint64
	gone   int // events that removed
}

type stored struct {
	parent, extra prefix.Key
	tokens        []uint32
	fidelity      prefix.Fidelity
}

func newMirror[B backend.Buffer](t testT, p *Pool[B]) *mirror {
	sub, have, err := p.Watch(1 << 16)
	require.NoError(t, err)
	m := &mirror{t: t, sub: sub, slots: p.cfg.Memory.BlockSize, blocks: map[prefix.Key]stored{}}
	for _, e := range have {
		m.apply(e)
	}
	return m
}

func (m *mirror) apply(e prefix.Event) {
	switch e.Kind {
	case prefix.Stored:
		parent := e.Parent
		if parent == (prefix.Key{}) {
			parent = e.Root
		}
		for i, k := range e.Keys {
			require.NotContains(m.t, m.blocks, k, "stored twice")
			b := stored{parent: parent, tokens: e.Tokens[i*m.slots : min((i+1)*m.slots, len(e.Tokens))]}
			if e.Extra != nil {
				b.extra, b.fidelity = e.Extra[i], e.Fidelity[i]
			}
			m.blocks[k], parent = b, k
		}
	case prefix.Removed:
		for _, k := range e.Keys {
			require.Contains(m.t, m.blocks, k, "removed, but never stored")
			delete(m.blocks, k)
			m.gone++
		}
	case prefix.Cleared:
		clear(m.blocks)
		m.gone++
	}
}

// follow applies what has happened since.
func (m *mirror) follow() {
	for {
		select {
		case e := <-m.sub.C:
			require.Zero(m.t, e.Lost)
			require.Equal(m.t, m.seq+1, e.Seq)
			m.seq = e.Seq
			m.apply(e)
		default:
			return
		}
	}
}

// apart checks that no block is the beginning of another one: of two that begin alike, the longer one
// takes the place of the other.
func (m *mirror) apart() {
	for k, b := range m.blocks {
		if len(b.tokens) == m.slots {
			continue
		}
		for other, o := range m.blocks {
			require.NotEqual(m.t, k, o.parent, "behind a block that is not full")
			same := k != other && b.parent == o.parent && b.extra == o.extra && b.fidelity == o.fidelity
			require.False(m.t, same && len(o.tokens) >= len(b.tokens) && slices.Equal(o.tokens[:len(b.tokens)], b.tokens), "%v has %v", o.tokens, b.tokens)
		}
	}
}

// longest is the longest prefix of a query, tried against every block.
func (m *mirror) longest(root prefix.Root, q prefix.Query) int {
	best := map[prefix.Key]int{root.Key: 0}
	most := 0
	for at := 0; len(best) > 0; at++ {
		ends := map[prefix.Key]int{}
		for k, b := range m.blocks {
			n, ok := best[b.parent]
			if !ok || n != at*m.slots || b.fidelity&^q.Accept != 0 || b.extra != extraOf(q, at) {
				continue
			}
			shared := 0
			for shared < len(b.tokens) && n+shared < len(q.Tokens) && b.tokens[shared] == q.Tokens[n+shared] {
				shared++
			}
			most = max(most, n+shared)
			if shared == m.slots { // nothing is behind a block that is not full
				ends[k] = n + shared
			}
		}
		best = ends
	}
	return most
}

func extraOf(q prefix.Query, i int) prefix.Key {
	if i < len(q.Extra) {
		return q.Extra[i]
	}
	return prefix.Key{}
}
