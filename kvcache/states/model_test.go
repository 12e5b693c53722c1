package states

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot/zstd"
)

// model is a store, and what it has: what was put last under each key, but for what was evicted for others' room, or damaged.
type model struct {
	random  *rand.Rand
	o       Options
	clock   *clock
	faults  *faults
	s       *Store
	want    map[ID]*wanted
	hurt    map[ID]bool     // a chunk of these was damaged since they were put
	torn    map[string]bool // packs that were damaged, of which the next Open has nothing if it is their index
	evicted uint64          // of the store, at the last look
}

type wanted struct {
	key     Key
	parts   [][]byte
	pinned  bool
	expires time.Time
}

func (m *model) key() Key {
	k := Key{Identity: llama, Tokens: tokens(uint64(m.random.IntN(3)), m.random.IntN(8))}
	k.Salt = string(rune('a' + m.random.IntN(3)))
	if m.random.IntN(6) == 0 {
		k.Engine = "other"
	}
	return k
}

// any is the ID of a state that is expected, or of none.
func (m *model) any() ID {
	ids := slices.SortedFunc(maps.Keys(m.want), func(a, b ID) int { return bytes.Compare(a[:], b[:]) })
	if len(ids) == 0 || m.random.IntN(10) == 0 {
		return ID{1}
	}
	return ids[m.random.IntN(len(ids))]
}

func (m *model) content() []byte {
	most := 1500
	if m.random.IntN(4) == 0 {
		most = 30_000 // of which packs have several blocks
	}
	b := noise(uint64(m.random.IntN(4)), m.random.IntN(most))
	at := m.random.IntN(len(b) + 1)
	b = slices.Insert(b, at, noise(m.random.Uint64(), m.random.IntN(100))...)
	clear(b[:m.random.IntN(len(b)+1)/2])
	return b
}

func (m *model) put(t testingT) {
	k, o := m.key(), PutOptions{}
	if m.random.IntN(5) == 0 {
		o.TTL = time.Duration(m.random.IntN(400)) * time.Second
	}
	o.Pin = m.random.IntN(12) == 0
	var parts [][]byte
	for range 1 + m.random.IntN(3) {
		parts = append(parts, m.content())
	}
	info, err := m.s.Put(ctx, k, o, sources(parts)...)
	if err != nil {
		require.True(t, errors.Is(err, errDisk) || errors.Is(err, ErrFull{}), "%v", err)
		return
	}
	delete(m.hurt, info.ID)
	if len(k.Tokens) == 0 {
		k.Tokens = nil
	}
	m.want[info.ID] = &wanted{k, parts, o.Pin, info.Expires}
}

// mayMiss reports whether there is a cause for that a state is not there.
func (m *model) mayMiss(id ID) bool {
	w := m.want[id]
	return w == nil || m.hurt[id] || m.expired(w) || !w.pinned && m.s.Stats().Evicted != m.evicted
}

func (m *model) expired(w *wanted) bool { return !w.expires.IsZero() && !m.clock.at.Before(w.expires) }

func (m *model) get(t testingT) {
	id := m.any()
	parts, err := m.s.Get(ctx, id, nil)
	w := m.want[id]
	if err != nil {
		require.True(t, errors.Is(err, ErrMiss{}) || errors.Is(err, ErrDamaged{}) || errors.Is(err, errDisk), "%v", err)
		require.True(t, m.mayMiss(id) || errors.Is(err, errDisk), "%v", err)
		return
	}
	require.NotNil(t, w)
	require.False(t, m.expired(w))
	require.Len(t, parts, len(w.parts))
	for i, p := range parts {
		require.True(t, bytes.Equal(w.parts[i], p.Bytes))
	}
}

func (m *model) nearest(t testingT) {
	k := m.key()
	info, n, err := m.s.Nearest(k.Identity, k.Tokens)
	if errors.Is(err, errDisk) {
		return
	}
	list, listErr := m.s.List()
	require.NoError(t, listErr)
	most := 0
	for _, i := range list {
		if i.Key.Identity == k.Identity {
			most = max(most, common(i.Key.Tokens, k.Tokens))
		}
	}
	require.Equal(t, most, n)
	require.Equal(t, most == 0, errors.Is(err, ErrMiss{}))
	if err == nil {
		require.NotNil(t, m.want[info.ID])
		require.Equal(t, most, common(info.Key.Tokens, k.Tokens))
	}
}

func (m *model) remove(t testingT) {
	id := m.any()
	err := m.s.Delete(id)
	if err == nil {
		delete(m.want, id)
	} else {
		require.True(t, errors.Is(err, ErrMiss{}) || errors.Is(err, errDisk), "%v", err)
	}
}

func (m *model) clear(t testingT) {
	salt := string(rune('a' + m.random.IntN(3)))
	_, err := m.s.Clear(salt)
	if err != nil {
		require.ErrorIs(t, err, errDisk)
	}
	maps.DeleteFunc(m.want, func(id ID, w *wanted) bool { // all of them or, after an error, those that have gone
		_, there := m.s.states[id]
		return w.key.Salt == salt && (err == nil || !there)
	})
}

func (m *model) pin(t testingT) {
	id, pinned := m.any(), m.random.IntN(3) == 0
	err := m.s.Pin(id, pinned)
	if err == nil {
		m.want[id].pinned = pinned
	} else {
		require.True(t, errors.Is(err, ErrMiss{}) || errors.Is(err, errDisk) || errors.Is(err, ErrFull{}), "%v", err)
	}
}

// damage changes a file.
func (m *model) damage(t testingT) {
	paths, err := filepath.Glob(filepath.Join(m.s.dir, "packs", "*.pack"))
	require.NoError(t, err)
	if len(paths) == 0 {
		return
	}
	path := paths[m.random.IntN(len(paths))]
	for id, st := range m.s.states {
		st.each(func(c chunk) {
			p := m.s.chunks[c.Sum].pack
			m.hurt[id] = m.hurt[id] || p != nil && p.path == path
		})
	}
	m.torn[path] = true
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	if len(b) > 0 && m.random.IntN(3) > 0 {
		b[m.random.IntN(len(b))] ^= 1 << m.random.IntN(8)
		require.NoError(t, os.WriteFile(path, b, 0o600))
	} else {
		require.NoError(t, os.Remove(path))
	}
}

// tear is before the directory is opened again: states with chunks in packs whose index may be damaged may go.
func (m *model) tear() {
	for id, st := range m.s.states {
		st.each(func(c chunk) { m.hurt[id] = m.hurt[id] || m.torn[m.s.chunks[c.Sum].pack.path] })
	}
}

// reopen closes the store, or leaves it as a process that was killed does.
func (m *model) reopen(t testingT) {
	m.faults.at = 0
	m.look(t)
	m.tear()
	if m.random.IntN(2) == 0 {
		require.NoError(t, m.s.Close())
	}
	if m.s.opened { // as it is in a process that was killed
		m.s.opened = false
		require.NoError(t, m.s.lock.Close())
	}
	m.o.Bytes = int64(30+m.random.IntN(100)) * blockBytes
	if m.random.IntN(2) == 0 {
		m.o.Bytes *= 4
	}
	m.s = open(t, m.s.dir, m.o)
	m.evicted = 0
}

// look compares what is listed: it is what was put, and all of that where nothing was lost.
func (m *model) look(t testingT) {
	list, err := m.s.List()
	if err != nil {
		require.ErrorIs(t, err, errDisk)
		return
	}
	there := map[ID]bool{}
	for _, i := range list {
		w := m.want[i.ID]
		require.NotNil(t, w)
		require.Equal(t, w.key, i.Key)
		require.Equal(t, w.pinned, i.Pinned)
		there[i.ID] = true
	}
	for id, w := range m.want {
		if !there[id] {
			require.True(t, m.mayMiss(id), "state %v is lost", w.key)
			delete(m.want, id)
		}
	}
	m.evicted = m.s.Stats().Evicted
	require.LessOrEqual(t, m.s.Stats().Bytes, max(m.o.Bytes, m.pinnedBytes()))
}

func (m *model) pinnedBytes() (n int64) {
	for _, st := range m.s.states {
		if st.Pinned {
			n += st.size
			st.each(func(chunk) { n += blockBytes })
		}
	}
	return n
}

// Random calls, damages, failures of the disk and kills, against what was put. No byte is ever wrong, and nothing is lost without a cause.
func TestRandomCalls(t *testing.T) {
	calls := 10_000
	if testsize.Full() {
		calls = 100_000
	}
	for i, o := range []Options{{}, {Secret: secret}, {Compressor: zstd.Compressor{}}, {Secret: secret, Compressor: zstd.Compressor{}}} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			m := &model{random: rand.New(rand.NewPCG(uint64(i), 3)), o: o, clock: newClock(), want: map[ID]*wanted{}, hurt: map[ID]bool{}, torn: map[string]bool{}}
			m.clock.step = 0
			m.faults = &faults{on: quick, happen: fails}
			m.o.now, m.o.disk, m.o.Bytes = m.clock.now, m.faults.disk(), 400*blockBytes
			m.s = open(t, t.TempDir()+"/d", m.o)
			for range calls / 4 {
				m.clock.sleep(time.Second)
				if m.random.IntN(8) == 0 {
					m.faults.at = m.faults.done + 1 + m.random.IntN(12)
				}
				switch n := m.random.IntN(100); {
				case n < 40:
					m.put(t)
				case n < 65:
					m.get(t)
				case n < 80:
					m.nearest(t)
				case n < 86:
					m.remove(t)
				case n < 87:
					m.clear(t)
				case n < 91:
					m.pin(t)
				case n < 94:
					m.damage(t)
				case n < 97:
					m.reopen(t)
				default:
					m.look(t)
				}
			}
			m.faults.at = 0
			m.look(t)
			m.tear()
			m.s, m.evicted = reopen(t, m.s, m.o), 0
			m.look(t)
			requireTidy(t, m.s)
		})
	}
}
