package cpu

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// show gives the stage's call views and a tree of some words a row, and plans it again.
func (st *stage) show(t testing.TB, views, tree []uint32, words int) {
	t.Helper()
	p := &st.params
	if st.shape.Views = views; views != nil {
		p.Batch.Views = backend.Some(numbers(t, st.be, st.s, backend.U32, views))
	}
	if st.shape.TreeWords = words; words > 0 {
		p.Batch.Tree, p.Batch.TreeWords = backend.Some(numbers(t, st.be, st.s, backend.U32, tree)), words
	}
	st.plan(t)
}

// causalViews are those of a scene's queries where nothing is said of them, and chains the rows of a tree in
// which each draft follows the one before it.
func (c scene) causalViews() (views []uint32) {
	for i, n := range c.queries {
		for q := range n {
			pos := max(c.ctx[i]-n+q, -1)
			views = append(views, uint32(max(pos, 0)), uint32(pos+1))
		}
	}
	return views
}

func (c scene) chains(words int) (tree []uint32) {
	for _, n := range c.queries {
		for q := range n {
			row := make([]uint32, words)
			for i := range q + 1 {
				row[i/32] |= 1 << (i % 32)
			}
			tree = append(tree, row...)
		}
	}
	return tree
}

// Views that say what the mask says, and trees without branches, give the same bits.
func TestViewsOfWhatIsPlain(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		for i, m := range []mask{{}, {window: 9, sinks: 3}, {window: 40, sinks: 30, alibi: true}, {part: backend.OlderKeys, recent: 5},
			{part: backend.ResidualKeys, recent: 20}, {softCap: 2, alibi: true, logits: true}} {
			t.Run(fmt.Sprintf("mask %d, reproducible %v", i, fixed), func(t *testing.T) {
				c := scene{qHeads: 4, kvHeads: 2, kDim: 16, vDim: 16, act: backend.F32, k: backend.F16, v: backend.Int8, block: 8, mass: true,
					ctx: []int{150, 40, 700, 9}, queries: []int{60, 1, 7, 9}, mask: m, options: Options{Reproducible: fixed}}
				want := c.set(t, 3).attend(t)
				st := c.set(t, 3)
				st.show(t, c.causalViews(), nil, 0)
				require.Equal(t, want, st.attend(t))
				if m.window > 0 || m.part != backend.AllKeys { // which do not hide drafts
					return
				}
				st = c.set(t, 3)
				st.show(t, c.causalViews(), c.chains(2), 2)
				require.Equal(t, want, st.attend(t))
				st = c.set(t, 3)
				st.show(t, nil, c.chains(3), 3)
				require.Equal(t, want, st.attend(t))
			})
		}
	}
}

// Where results are to be reproducible, a prompt with an image has the same bits however it is cut.
func TestReproducibleViews(t *testing.T) {
	const ctx, n = 150, 70
	for _, m := range []mask{{}, {window: 30, sinks: 5}} {
		c := scene{qHeads: 4, kvHeads: 2, kDim: 16, vDim: 16, act: backend.F32, k: backend.F32, v: backend.F32, block: 8,
			ctx: []int{ctx}, queries: []int{n}, mask: m, options: Options{Reproducible: true}}
		views := c.causalViews()
		for i := 10; i < 50; i++ {
			views[2*i+1] = uint32(ctx - n + 50)
		}
		whole := c.set(t, 5)
		whole.show(t, views, nil, 0)
		want, q := whole.attend(t).out, view[float32](whole.params.Q.Buf)
		for _, last := range []int{1, 21, 33, 45, 69} {
			c.queries = []int{last}
			st := c.set(t, 5)
			copy(view[float32](st.params.Q.Buf), q[(n-last)*c.qHeads*c.kDim:])
			st.show(t, views[2*(n-last):], nil, 0)
			require.Equal(t, want[(n-last)*c.qHeads*c.vDim:], st.attend(t).out, "the last %d queries", last)
		}
	}
}

// What is wrong with a view or a draft is said.
func TestWrongViewsAreNamed(t *testing.T) {
	c := scene{qHeads: 2, kvHeads: 1, kDim: 8, vDim: 8, act: backend.F32, k: backend.F32, v: backend.F32, block: 4,
		ctx: []int{9, 12, 3}, queries: []int{1, 4, 2}}
	for want, spoil := range map[string]func(views, tree []uint32){
		"views: query 3 of sequence 1 is at position 11 and ends at key 13, need at most 2147483647 and its 12 tokens": func(v, _ []uint32) { v[2*4+1] = 13 },
		"views: query 0 of sequence 0 is at position 2147483648":                                                       func(v, _ []uint32) { v[0] = 1 << 31 },
		"tree: query 1 of sequence 1 is at position 7 and ends":                                                        func(v, _ []uint32) { v[2*2] = 7 },
		"ends at key 7, before the first of the 4 drafts of 12":                                                        func(v, _ []uint32) { v[2*2+1] = 7 },
		"tree: query 2 of sequence 1 sees draft 4, there are 4":                                                        func(_, tr []uint32) { tr[2*3] |= 1 << 4 },
		"tree: query 2 of sequence 1 sees draft 63, there are 4":                                                       func(_, tr []uint32) { tr[2*3+1] = 1 << 31 },
		"work: was not planned for these sequences":                                                                    func(v, _ []uint32) { v[2*5]++ },
	} {
		st := c.set(t, 1)
		views, tree := c.causalViews(), c.chains(2)
		clear(tree[2*5:])
		st.show(t, views, tree, 2)
		st.attend(t)
		spoil(st.words(t, st.params.Batch.Views.Buf), st.words(t, st.params.Batch.Tree.Buf))
		err := st.be.Attend(st.s, st.params)
		require.ErrorIs(t, err, backend.ErrArgument{})
		require.ErrorContains(t, err, want)
	}
	c.ctx[1] = 3
	st := c.set(t, 1)
	st.show(t, nil, c.chains(1), 1)
	require.ErrorContains(t, st.be.Attend(st.s, st.params), "before the first of the 4 drafts of 3 tokens")

	c.ctx[1] = 12
	st = c.set(t, 1)
	st.show(t, c.causalViews(), c.chains(1), 1)
	require.NoError(t, backend.Upload(st.be, st.s, st.params.Batch.Table.Buf, st.params.Batch.TableStride+2, bad))
	require.ErrorContains(t, st.be.Attend(st.s, st.params), "block table: entry 2 of sequence 1 is block 4294967295", "a draft is there")
}

// A call whose plan was made for other masks is refused.
func TestPlansForOtherViews(t *testing.T) {
	c := scene{qHeads: 2, kvHeads: 1, kDim: 8, vDim: 8, act: backend.F32, k: backend.F32, v: backend.F32, block: 4,
		ctx: []int{9, 12}, queries: []int{1, 4}}
	refused := func(st *stage, want string) {
		err := st.be.Attend(st.s, st.params)
		require.ErrorIs(t, err, backend.ErrArgument{})
		require.ErrorContains(t, err, want)
	}
	const other = "work: was not planned for these sequences"
	plain, shown := c.set(t, 1), c.set(t, 1)
	shown.show(t, c.causalViews(), c.chains(1), 1)
	shown.attend(t)
	batch := shown.params.Batch
	shown.params.Batch.Views = backend.Opt[*Buffer]{}
	refused(shown, other)
	shown.params.Batch = batch
	shown.params.Batch.Tree = backend.Opt[*Buffer]{}
	refused(shown, other)
	plain.params.Batch.Views = backend.Some(numbers(t, plain.be, plain.s, backend.U32, c.causalViews()))
	refused(plain, other)
	plain.params.Batch.Views = backend.Opt[*Buffer]{}
	plain.params.Batch.Tree, plain.params.Batch.TreeWords = backend.Some(numbers(t, plain.be, plain.s, backend.U32, c.chains(2))), 2
	refused(plain, other)
	plain.params.Batch.Tree = backend.Opt[*Buffer]{}
	plain.params.Mask.NonCausal = true
	refused(plain, other)
	plain.params.Mask = backend.Mask[*Buffer]{Chunk: 4}
	plain.attend(t)
	plain.shape.Chunk = 4
	plain.plan(t)
	plain.attend(t)
	plain.params.Mask.Chunk = 5
	refused(plain, "mask: chunks of 5, the plan was made for chunks of 4")
	plain.shape.Chunk, plain.shape.Window = 0, 8
	plain.plan(t)
	refused(plain, "mask: window 0 and 0 sink tokens, the plan was made for 8 and 0")
}

// Views and trees are looked at once a step, and again when they are overwritten.
func TestOverwrittenViewsAreSeen(t *testing.T) {
	st := many.set(t, 1)
	st.show(t, many.causalViews(), many.chains(1), 1)
	for range 5 {
		st.attend(t)
	}
	require.Equal(t, 1, st.be.verdicts.added)
	for _, b := range []*Buffer{st.params.Batch.Views.Buf, st.params.Batch.Tree.Buf} {
		before := slices.Clone(view[uint32](b))
		require.NoError(t, backend.Upload(st.be, st.s, b, 1, bad))
		require.ErrorIs(t, st.be.Attend(st.s, st.params), backend.ErrArgument{})
		require.NoError(t, backend.Upload(st.be, st.s, b, 0, before))
		st.attend(t)
	}
	require.NoError(t, st.be.Free(st.params.Batch.Tree.Buf))
	require.ErrorIs(t, st.be.Attend(st.s, st.params), backend.ErrFreed)
}

// Windows that no context has, at positions that none has, show what they should.
func TestWindowsBeyondAll(t *testing.T) {
	c := scene{qHeads: 1, kvHeads: 1, kDim: 8, vDim: 8, act: backend.F32, k: backend.F32, v: backend.F32, block: 4, ctx: []int{9}, queries: []int{1}}
	want := c.set(t, 1).attend(t)
	c.mask.window = math.MaxInt
	st := c.set(t, 1)
	st.show(t, []uint32{backend.MaxPosition, 9}, nil, 0)
	require.Equal(t, want, st.attend(t))
	c.mask.window = 1
	st = c.set(t, 1)
	st.show(t, []uint32{backend.MaxPosition, 9}, nil, 0)
	got := st.attend(t)
	require.Equal(t, negInf, got.lse[0])
	require.Equal(t, make([]float32, 8), got.out)
}
