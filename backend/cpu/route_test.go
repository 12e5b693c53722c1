package cpu

import (
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// What a walk asks for ahead of time is rows that it comes to: those that many keys further on, where
// they lie back to back, and never what lies after them, which may be memory that was never written.
func TestRowsAheadAreThoseOfTheWalk(t *testing.T) {
	for _, block := range []int{0, 16, 32, 64, 128} {
		for _, ctx := range [][]int{{5, 33}, {64, 128}, {100, 130}, {300, 1}, {2500}} {
			for _, dim := range []int{16, 128} {
				for i, m := range []mask{{}, {window: 70}, {window: 150, sinks: 5}, {}, {window: 70}, {window: 150, sinks: 5}} {
					ahead := []distances{usual, {64, 64}}[i/3]
					t.Run(fmt.Sprintf("block=%d/ctx=%v/dim=%d/%+v/%v", block, ctx, dim, m, ahead), func(t *testing.T) {
						c := scene{qHeads: 4, kvHeads: 2, kDim: dim, vDim: dim, act: backend.F32, k: backend.F32, v: backend.Int8,
							ctx: ctx, queries: make([]int, len(ctx)), block: block, mask: m}
						for i := range c.queries {
							c.queries[i] = 1 + i
						}
						st := c.set(t, 1)
						w := newScratch(attentionExtent(&st.params))
						var a attention
						a.bind("attend", &st.params)
						k := *a.k
						k.ahead = ahead
						a.k = &k
						require.NoError(t, a.check(&st.params))
						a.small = dim == 16 // heads that walk side by side whatever the layout is
						for work := a.items; len(work) > 0; work = work[itemWords:] {
							var it item
							it.decode(work)
							together := a.together((it.q1 - it.q0) * a.group)
							for head := 0; head < a.kvHeads; head += together {
								var tile tile
								a.lay(&tile, &it, head, min(together, a.kvHeads-head), w)
								requireAhead(t, &a, &tile, &it, w)
							}
						}
					})
				}
			}
		}
	}
}

// requireAhead goes the way of a walk and compares what its rows say with the list of all.
func requireAhead(t *testing.T, a *attention, tile *tile, it *item, w *scratch) {
	t.Helper()
	var rows, ends []int // of the walk, in its order, and where its legs end in them
	for key := tile.keys.From(it.k0); key < it.k1; {
		n := a.cut(key, it.k1, chunk)
		for h := range tile.heads {
			for pos := key; pos < key+n; pos++ {
				rows = append(rows, a.keys.number(tile.table.at(pos/a.keys.block), tile.head+h, pos%a.keys.block))
			}
		}
		ends = append(ends, len(rows))
		key = tile.keys.From(key + n)
	}
	soon := a.k.ahead.soon
	if a.keys.row >= wideRow {
		soon /= 2
	}
	r := &w.route
	r.begin(a, tile, it)
	at := 0
	for leg := 0; r.chunk(0).n > 0; leg++ {
		known := ends[min(leg+len(r.chunks), len(ends))-1] // rows of the chunks that the walk has
		for h := range tile.heads {
			r.rows(a, tile, h, w)
			for i := range w.keys {
				k, v := &w.keys[i], &w.values[i]
				for _, told := range []struct {
					plane  *plane
					ahead  int
					to     *byte
					scales *uint32
				}{{&a.keys, soon, k.ahead, nil}, {&a.keys, a.k.ahead.later, k.later, k.wanted}, {&a.values, soon, v.ahead, nil}, {&a.values, a.k.ahead.later, v.later, v.wanted}} {
					p, n := told.plane, max(k.n, fewKeys)
					next := rows[min(at+told.ahead, known):min(at+told.ahead+n, known)]
					if told.to == nil {
						require.False(t, len(next) == n && backToBack(next), "row %d: nothing is said of those %d further on", at, told.ahead)
						continue
					}
					first := int(uintptr(unsafe.Pointer(told.to))-uintptr(unsafe.Pointer(&p.mem[0]))) / p.row
					if len(next) == n && backToBack(next) {
						require.Equal(t, next[0], first)
					}
					for j := range n {
						require.True(t, slices.Contains(rows, first+j), "row %d: asks for %d, which the walk does not come to", at, first+j)
					}
					if told.scales != nil {
						require.Same(t, &p.scales[first*p.perRow], told.scales)
					}
				}
				at += k.n
			}
		}
		r.advance(a, tile)
	}
	require.Equal(t, len(rows), at)
}

func backToBack(rows []int) bool {
	for i := range rows {
		if rows[i] != rows[0]+i {
			return false
		}
	}
	return true
}

// Of rows that are loaded the next one is asked for, and after the last none, however long the
// buffer is.
func TestVectorsAheadEndWithTheLast(t *testing.T) {
	const n, width = 3, 16
	be, _ := open(t, 1)
	b := floats(t, be, backend.F16, make([]float32, (n+2)*width))
	v := vectorsOf(backend.Dense(b), n, width)
	var src stored
	v.k = &kernels{}
	v.k.decode[backend.F16] = func(_ []float32, s stored) { src = s }
	for i := range n {
		v.load(make([]float32, width/2), i, width/2)
		if i+1 == n {
			require.Nil(t, src.ahead)
		} else {
			require.Same(t, &b.mem[2*((i+1)*width+width/2)], src.ahead)
		}
	}
}
