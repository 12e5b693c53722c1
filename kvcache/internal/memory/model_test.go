package memory

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// list is an owner of blocks as a plain list of tokens, and its blocks as counters of owners.
type list struct {
	table  []block.Block
	tokens []uint32
	owners []*int
}

type machine struct {
	t     *rapid.T
	m     *Memory[byte]
	lists []*list
	next  uint32
}

// stored is what a token's codes and words are.
func (m *machine) stored(token uint32) Rows[byte] {
	r := m.m.Room(1)
	for i := range r.Codes {
		r.Codes[i] = byte(token>>(i%3*8)) + byte(i)
	}
	for i := range r.Words {
		r.Words[i] = token*31 + uint32(i)
	}
	return r
}

func (m *machine) held() int {
	seen := map[*int]bool{}
	for _, l := range m.lists {
		for _, o := range l.owners {
			seen[o] = true
		}
	}
	return len(seen)
}

// append writes n tokens, into a block of the list's own.
func (m *machine) append(l *list, n int) {
	size := m.m.tokens
	shared := len(l.tokens) % size
	more := (len(l.tokens)+n+size-1)/size - len(l.owners)
	copies := shared > 0 && *l.owners[len(l.owners)-1] > 1
	need := more
	if copies {
		need++
	}
	room := m.m.Blocks() - m.held()
	table, err := m.m.Extend(l.table, more, shared)
	if need > room && !m.m.onDemand {
		require.Equal(m.t, block.ErrOutOfBlocks{Need: need, Free: room}, err)
		require.Equal(m.t, l.table, table)
		return
	}
	require.NoError(m.t, err)
	l.table = table
	if copies {
		*l.owners[len(l.owners)-1]--
		one := 1
		l.owners[len(l.owners)-1] = &one
	}
	for range more {
		one := 1
		l.owners = append(l.owners, &one)
	}
	for range n {
		m.next++
		at := len(l.tokens)
		m.m.Rows(l.table[at/size], at%size, at%size+1).Copy(m.stored(m.next))
		l.tokens = append(l.tokens, m.next)
	}
}

func (m *machine) fork(l *list) {
	require.NoError(m.t, m.m.Retain(l.table))
	for _, o := range l.owners {
		*o++
	}
	m.lists = append(m.lists, &list{slices.Clone(l.table), slices.Clone(l.tokens), slices.Clone(l.owners)})
}

func (m *machine) truncate(l *list, n int) {
	keep := (n + m.m.tokens - 1) / m.m.tokens
	require.NoError(m.t, m.m.Release(l.table[keep:]))
	for _, o := range l.owners[keep:] {
		*o--
	}
	l.table, l.owners, l.tokens = l.table[:keep], l.owners[:keep], l.tokens[:n]
}

func (m *machine) agree() {
	require.NoError(m.t, m.m.Check())
	require.Equal(m.t, m.held(), m.m.Held())
	for _, l := range m.lists {
		require.Len(m.t, l.table, len(l.owners))
		for i, token := range l.tokens {
			b, at := l.table[i/m.m.tokens], i%m.m.tokens
			require.Equal(m.t, m.stored(token), m.m.Rows(b, at, at+1))
			require.Equal(m.t, m.stored(token).Codes, m.m.Codes(b, at, at+1))
		}
	}
}

// Random histories of several owners, forked at will, look like plain lists; how many blocks an
// owner lacks is known before, and a memory on demand lacks none and has no more than are owned.
func TestHistoriesMatchLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		format := Format{Codes: rapid.IntRange(1, 5).Draw(t, "codes"), Words: rapid.IntRange(0, 2).Draw(t, "words")}
		tokens := rapid.IntRange(1, 5).Draw(t, "tokens")
		memory, err := New[byte](format, rapid.IntRange(1, 8).Draw(t, "blocks"), tokens)
		if rapid.Bool().Draw(t, "on demand") {
			memory, err = NewOnDemand[byte](format, tokens)
		}
		require.NoError(t, err)
		m := &machine{t: t, m: memory, lists: []*list{{}, {}}}
		for range rapid.IntRange(5, 40).Draw(t, "steps") {
			l := m.lists[rapid.IntRange(0, len(m.lists)-1).Draw(t, "list")]
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
			case op < 5:
				m.append(l, rapid.IntRange(1, 8).Draw(t, "more"))
			case op < 7 && len(m.lists) < 6:
				m.fork(l)
			case op == 7 && !m.m.onDemand:
				slabs := rapid.IntRange(0, 3).Draw(t, "slabs")
				require.NoError(t, m.m.Grow(slabs*int(m.m.slabBlocks)))
				require.GreaterOrEqual(t, m.m.Blocks(), slabs*int(m.m.slabBlocks))
			default:
				m.truncate(l, rapid.IntRange(0, len(l.tokens)).Draw(t, "length"))
			}
			m.agree()
		}
		for _, l := range m.lists {
			m.truncate(l, 0)
		}
		m.agree()
		require.Zero(t, m.m.Held())
	})
}
