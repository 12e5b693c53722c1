package block

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// history drives an allocator and its model by a string of op codes, so that rapid
// and the fuzzer share one interpreter.
type history struct {
	t      require.TestingT
	code   []byte
	a      *BlockAllocator
	m      *model
	old    []Block // every handle that was ever given out
	claims [3]Claim
}

// next reads n choices' worth of the code; at its end every choice is 0.
func (h *history) next(n int) int {
	if len(h.code) == 0 {
		return 0
	}
	b := h.code[0]
	h.code = h.code[1:]
	return int(b) % n
}

// handle is a block's current handle, or one that is old, or one that never was.
func (h *history) handle() Block {
	id := uint32(h.next(h.m.total))
	switch h.next(8) {
	case 7:
		return Block{id, h.m.gen[id] + 1}
	case 6:
		return Block{id + uint32(h.m.total), 1}
	case 5, 4:
		if len(h.old) > 0 {
			return h.old[h.next(len(h.old))]
		}
	}
	return Block{id, h.m.gen[id]}
}

func (h *history) handles() []Block {
	out := make([]Block, h.next(5))
	for i := range out {
		out[i] = h.handle()
	}
	return out
}

func (h *history) got(want, bs []Block, err, wantErr error) {
	h.same(err, wantErr)
	if wantErr == nil {
		require.Equal(h.t, append([]Block{}, want...), append([]Block{}, bs...))
		h.old = append(h.old, bs...)
	}
}

func (h *history) same(err, want error) {
	if want == nil {
		require.NoError(h.t, err)
		return
	}
	require.ErrorIs(h.t, err, want)
}

func (h *history) step() {
	switch h.next(12) {
	case 0:
		want, wantErr := h.m.allocate(nil, 1)
		b, err := h.a.Allocate()
		h.got(want, []Block{b}, err, wantErr)
	case 1:
		n := h.next(5)
		want, wantErr := h.m.allocate(nil, n)
		bs, err := h.a.AllocateN(nil, n)
		h.got(want, bs, err, wantErr)
	case 2:
		b := h.handle()
		h.same(h.a.Retain(b), h.m.retain(b))
	case 3:
		bs := h.handles()
		h.same(h.a.RetainN(bs), h.m.retain(bs...))
	case 4:
		b, filled := h.handle(), h.next(2)
		h.same(h.a.Release(b, filled == 1), h.m.release([]Block{b}, filled))
	case 5:
		bs := h.handles()
		filled := h.next(len(bs) + 1)
		h.same(h.a.ReleaseN(bs, filled), h.m.release(bs, filled))
	case 6:
		b := h.handle()
		h.same(h.a.Take(b), h.m.take(b))
	case 7:
		b := h.handle()
		h.same(h.a.Discard(b), h.m.discard(b))
	case 8:
		rs := make([]Reservation, h.next(4))
		for i := range rs {
			rs[i] = Reservation{&h.claims[h.next(len(h.claims))], h.next(h.m.total + 2)}
		}
		h.same(h.a.Reserve(rs), h.m.reserve(rs))
	case 9:
		c, n := &h.claims[h.next(len(h.claims))], h.next(5)
		want, wantErr := h.m.allocate(c, n)
		bs, err := h.a.AllocateClaimed(c, nil, n)
		h.got(want, bs, err, wantErr)
	case 10:
		c := &h.claims[h.next(len(h.claims))]
		h.a.Cancel(c)
		delete(h.m.claims, c)
	case 11:
		n := h.next(3)
		if h.m.total > 20 {
			n = 0
		}
		require.NoError(h.t, h.a.Grow(n))
		h.m.grow(n)
	}
}

// agree compares everything that can be seen, and the order of reuse.
func (h *history) agree() {
	require.NoError(h.t, h.a.Check())
	require.Equal(h.t, append([]uint32{}, h.m.order...), order(h.a))
	require.Equal(h.t, [6]int{h.m.total, h.m.held(), len(h.m.cached), h.m.reserved(), h.m.available(), h.m.peak},
		[6]int{h.a.Total(), h.a.Held(), h.a.Cached(), h.a.Reserved(), h.a.Available(), h.a.Peak()})
	require.Equal(h.t, h.a.Total(), h.a.Free()+h.a.Cached()+h.a.Held())
	for id := range uint32(h.m.total) {
		b := Block{id, h.m.gen[id]}
		if n, err := h.a.Refs(b); b.Gen > 0 {
			require.NoError(h.t, err)
			require.Equal(h.t, h.m.refs[id], n)
		}
	}
	for i := range h.claims {
		require.Equal(h.t, h.m.claims[&h.claims[i]], h.claims[i].Blocks())
	}
}

// drain lets every owner go: what was held comes back (A10).
func (h *history) drain() {
	for id, n := range h.m.refs {
		for range n {
			require.NoError(h.t, h.a.Release(Block{id, h.m.gen[id]}, id%2 == 0))
		}
	}
	for i := range h.claims {
		h.a.Cancel(&h.claims[i])
	}
	require.NoError(h.t, h.a.Check())
	require.Equal(h.t, h.a.Total(), h.a.Available())
}

func run(t require.TestingT, code []byte) {
	h := &history{t: t, code: code}
	total := 1 + h.next(12)
	a, err := New(total)
	require.NoError(t, err)
	h.a, h.m = a, newModel(total)
	for len(h.code) > 0 {
		h.step()
		h.agree()
	}
	h.drain()
}

// A6, A10: thousands of random histories, bad handles included, look like the model's.
func TestA6HistoriesMatchModel(t *testing.T) {
	for range 20 { // of a hundred histories each
		rapid.Check(t, func(t *rapid.T) {
			run(t, rapid.SliceOfN(rapid.Byte(), 50, 1000).Draw(t, "code"))
		})
	}
}

func FuzzAllocator(f *testing.F) {
	f.Add([]byte{4, 1, 3, 5, 2, 0, 0, 1, 0, 2, 6, 0, 0, 0, 1, 4})
	f.Add([]byte{11, 8, 3, 0, 4, 1, 5, 0, 6, 9, 0, 4, 10, 1, 7, 0, 0})
	f.Fuzz(func(t *testing.T, code []byte) {
		if len(code) > 1<<12 {
			t.Skip("longer histories show nothing new")
		}
		run(t, code)
	})
}
