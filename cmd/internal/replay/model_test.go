package replay

import (
	"container/list"
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// model is LRU, or segmented LRU, of a prefix cache in as few words as possible.
// A path is released from its end, so that the front of a list is never an
// ancestor of another cached block.
type model struct {
	free     int
	protect  int // blocks of the protected segment; 0: plain LRU
	segments [2]*list.List
	segment  map[uint32]int // of the stored blocks
	place    map[uint32]*list.Element
}

func newModel(capacity, protect int) *model {
	return &model{capacity, protect, [2]*list.List{list.New(), list.New()}, map[uint32]int{}, map[uint32]*list.Element{}}
}

func (m *model) request(path []uint32) (hits int, err error) {
	held := 0
	for ; held < len(path); held++ {
		b := path[held]
		segment, stored := m.segment[b]
		if !stored {
			break
		}
		m.segments[segment].Remove(m.place[b])
		m.segment[b] = min(m.protect, 1)
	}
	hits = held
	for ; held < len(path) && (m.free > 0 || m.evict()); held++ {
		m.free--
		m.segment[path[held]] = 0
	}
	for i := held - 1; i >= 0; i-- {
		m.push(path[i])
		if m.protect > 0 && m.segments[1].Len() > m.protect {
			demoted := m.segments[1].Remove(m.segments[1].Front()).(uint32)
			m.segment[demoted] = 0
			m.push(demoted)
		}
	}
	return hits, nil
}

func (m *model) push(b uint32) { m.place[b] = m.segments[m.segment[b]].PushBack(b) }

func (m *model) evict() bool {
	for _, s := range m.segments {
		if first := s.Front(); first != nil {
			delete(m.segment, s.Remove(first).(uint32))
			m.free++
			return true
		}
	}
	return false
}

// traceOf is a trace of paths.
func traceOf(t require.TestingT, paths [][]uint64) *Trace {
	b := newBuilder()
	b.trace.BlockTokens = 16
	for i, p := range paths {
		require.NoError(t, b.add(float64(i), p))
	}
	return b.finish("test")
}

// drawTrace draws requests with common beginnings: up to five ids at every place
// of up to six, so that a cache of a few blocks hits, misses and overflows.
func drawTrace(t *rapid.T, requests int) *Trace {
	path := rapid.SliceOfN(rapid.Uint64Range(0, 4), 1, 6)
	return traceOf(t, rapid.SliceOfN(path, 1, requests).Draw(t, "paths"))
}

// hits is what a cache has of a trace.
func hits(t require.TestingT, trace *Trace, c cache) (sum int) {
	for i := range trace.Requests() {
		n, err := c.request(trace.Path(i))
		require.NoError(t, err)
		sum += n
	}
	return sum
}

// replayed is hits of a policy.
func replayed(t require.TestingT, trace *Trace, policy string, blocks int) int {
	r, err := trace.Replay(context.Background(), policy, Capacity{blocks: blocks}, Setup{}, func(int) {})
	require.NoError(t, err)
	require.Equal(t, blocks, r.Blocks)
	return r.Hits
}

func unlimited(t testing.TB, trace *Trace, policy string) int {
	r, err := trace.Replay(t.Context(), policy, Capacity{}, Setup{}, func(int) {})
	require.NoError(t, err)
	return r.Hits
}
