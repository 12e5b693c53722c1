package cpu

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
)

// groups is how many items of several sequences a stage's plan has.
func (st *stage) groups() (n int) {
	for _, it := range itemsOf(st.params.Plan) {
		if it.many() {
			n++
		}
	}
	return n
}

// Sequences that begin in the same blocks, as far as they like, get what each gets alone, whatever
// the formats, masks and kernels are.
func TestSharedAgainstReference(t *testing.T) {
	float := rapid.SampledFrom([]backend.DType{backend.F32, backend.F16, backend.BF16})
	key, value := rapid.SampledFrom(storageTypes), rapid.SampledFrom(storageTypes[:len(storageTypes)-1])
	dim := rapid.OneOf(rapid.IntRange(1, 40), rapid.SampledFrom([]int{16, 32, 64}))
	found := 0
	rapid.Check(t, func(r *rapid.T) {
		c := scene{
			kvHeads: rapid.IntRange(1, 3).Draw(r, "kv heads"), kDim: dim.Draw(r, "k dim"), vDim: dim.Draw(r, "v dim"),
			act: float.Draw(r, "act"), k: key.Draw(r, "k"), v: value.Draw(r, "v"),
			block:   rapid.SampledFrom([]int{1, 2, 8, 16, 64}).Draw(r, "block"),
			threads: rapid.IntRange(1, 3).Draw(r, "threads"), mass: rapid.Bool().Draw(r, "mass"), minShared: 1,
			options: Options{Kernels: rapid.SampledFrom(names()).Draw(r, "kernels"), Reproducible: rapid.Bool().Draw(r, "reproducible")},
		}
		c.kDim, c.vDim = wholeBytes(c.k, c.kDim), wholeBytes(c.v, c.vDim)
		c.int8Query = slices.Contains(int8Query(), c.k) && rapid.Bool().Draw(r, "int8 query")
		c.qHeads = c.kvHeads * rapid.SampledFrom([]int{1, 2, 5, 20}).Draw(r, "group")
		for i := range rapid.IntRange(2, 7).Draw(r, "seqs") {
			c.ctx = append(c.ctx, rapid.IntRange(0, 150).Draw(r, "ctx"))
			c.queries = append(c.queries, rapid.SampledFrom([]int{1, 1, 1, 0, 3, 11, 30}).Draw(r, "queries"))
			c.prefixes = append(c.prefixes, prefix{rapid.IntRange(0, max(i-1, 0)).Draw(r, "shares with"), 0})
			if i > 0 {
				c.prefixes[i].tokens = rapid.IntRange(0, 150).Draw(r, "shared tokens")
			}
		}
		c.mask = drawMask(r)
		seed := rapid.Uint64().Draw(r, "seed")
		st := c.set(t, seed)
		found += min(st.groups(), 1)
		got := st.attend(t)
		compare(r, c, got, st.reference(c))
		require.NoError(r, st.be.Close())
		c.prefixes = append([]prefix(nil), c.prefixes...)
		alone := c.set(t, seed)
		alone.shape.Table = nil
		alone.plan(t)
		require.Zero(r, alone.groups())
		want := alone.attend(t)
		require.LessOrEqual(r, rowError(got.out, want.out, c.vDim), 2*tolerance[c.act]+2*roundedWeights)
		require.NoError(r, alone.be.Close())
	})
	if !testing.Short() { // 20 histories may lack it
		require.Positive(t, found)
	}
}

// drawMask draws a call's mask. A window of a call is also the plan's, which then has no groups.
func drawMask(r *rapid.T) (m mask) {
	m = mask{nonCausal: rapid.Bool().Draw(r, "non-causal"), alibi: rapid.Bool().Draw(r, "alibi"), logits: rapid.Bool().Draw(r, "logits")}
	m.softCap = rapid.SampledFrom([]float32{0, 2}).Draw(r, "soft-cap")
	return m
}

// A layer's window may be narrower than the plan's: of what sequences share, each sees its own part.
func TestSharedUnderNarrowerWindows(t *testing.T) {
	found := 0
	rapid.Check(t, func(r *rapid.T) {
		c := scene{act: backend.F32, k: backend.F32, v: backend.F32, kvHeads: 2, block: 8, minShared: 1, threads: 2,
			kDim: rapid.SampledFrom([]int{5, 16}).Draw(r, "k dim"), vDim: 16, mass: rapid.Bool().Draw(r, "mass"),
			mask: mask{logits: rapid.Bool().Draw(r, "logits"), alibi: rapid.Bool().Draw(r, "alibi")}}
		c.qHeads = c.kvHeads * rapid.SampledFrom([]int{1, 8}).Draw(r, "group")
		c.mask.window = rapid.SampledFrom([]int{1, 5, 40, 90, 200}).Draw(r, "window")
		c.mask.sinks = rapid.SampledFrom([]int{0, 1, 4, 60}).Draw(r, "sinks")
		for i := range rapid.IntRange(2, 5).Draw(r, "seqs") {
			c.ctx = append(c.ctx, rapid.IntRange(60, 220).Draw(r, "ctx"))
			c.queries = append(c.queries, rapid.SampledFrom([]int{1, 1, 3}).Draw(r, "queries"))
			c.prefixes = append(c.prefixes, prefix{0, min(i, 1) * rapid.IntRange(8, 220).Draw(r, "shared tokens")})
		}
		st := c.set(t, rapid.Uint64().Draw(r, "seed"))
		require.Zero(r, st.groups())
		st.shape.Window, st.shape.SinkTokens = 0, 0
		st.plan(t)
		found += min(st.groups(), 1)
		compare(r, c, st.attend(t), st.reference(c))
		require.NoError(r, st.be.Close())
	})
	if !testing.Short() { // 20 histories may lack it
		require.Positive(t, found)
	}
}

// longShared is sequences whose common keys are cut into parts.
func longShared() scene {
	return scene{qHeads: 4, kvHeads: 1, kDim: 16, vDim: 16, act: backend.F32, k: backend.F16, v: backend.F16, block: 16, threads: 4, minShared: 1,
		ctx: []int{2100, 1000, 1700, 1603}, queries: []int{1, 1, 2, 1}, prefixes: []prefix{{}, {0, 900}, {0, 1600}, {2, 1600}}, mass: true}
}

// Groups in groups, in parts that threads share or that are fixed, and long contexts of their own.
func TestSharedInParts(t *testing.T) {
	for _, reproducible := range []bool{false, true} {
		for _, group := range []int{4, 8} {
			for _, m := range []mask{{}, {logits: true, alibi: true}, {softCap: 2, nonCausal: true}} {
				t.Run(fmt.Sprint(reproducible, group, m), func(t *testing.T) {
					c := longShared()
					c.qHeads, c.mask, c.options.Reproducible = group, m, reproducible
					st := c.set(t, 4)
					require.Greater(t, st.groups(), 1)
					compare(t, c, st.attend(t), st.reference(c))
				})
			}
		}
	}
}

// Where there is no room for weights, the attention scores comes from a second walk.
func TestSharedMassFromSecondWalk(t *testing.T) {
	for _, group := range []int{1, 8} {
		c := longShared()
		c.qHeads, c.mask = group, mask{alibi: true, logits: true}
		st := c.set(t, 4)
		work := view[uint32](st.params.Work.Buf)
		for i := range st.params.Plan.Items {
			work[headerWords+i*itemWords+8] = 0 // nothing is kept
		}
		require.Positive(t, st.groups())
		compare(t, c, st.attend(t), st.reference(c))
	}
}

// Work is for the table that it was planned with, as far as sequences are read as one.
func TestSharedRefusesOtherTables(t *testing.T) {
	c := longShared()
	st := c.set(t, 4)
	want := st.attend(t).out
	table, stride := st.words(t, st.params.Batch.Table.Buf), st.params.Batch.TableStride
	for _, at := range []int{stride, stride + 20, 2 * stride, 2*stride + 99} { // 900 tokens are 56 whole blocks
		other := table[len(table)-2] // of the last sequence
		if other >= uint32(st.params.Cache.Blocks) {
			other = table[3*stride+100]
		}
		old := table[at]
		table[at] = other
		err := st.be.Attend(st.s, st.params)
		require.ErrorIs(t, err, backend.ErrArgument{}, "entry %d", at)
		require.ErrorContains(t, err, "PlanAttend")
		table[at] = old
	}
	table[stride+56], table[stride+57] = table[stride+57], table[stride+56] // its own
	require.NoError(t, st.be.Attend(st.s, st.params))
	table[stride+56], table[stride+57] = table[stride+57], table[stride+56]
	require.Equal(t, want, st.attend(t).out)

	st.params.Batch.Table, st.params.Batch.TableStride = backend.Opt[*Buffer]{}, 0
	require.ErrorIs(t, st.be.Attend(st.s, st.params), backend.ErrArgument{})
}

func TestSharedRefusesOtherWork(t *testing.T) {
	c := longShared()
	c.ctx, c.queries, c.prefixes = []int{400, 90, 80}, []int{1, 2, 20}, []prefix{{}, {0, 64}, {0, 64}}
	for _, name := range names() {
		c.options = Options{Kernels: name}
		require.Positive(t, c.set(t, 1).groups())
		refusesOtherWork(t, c)
	}
}

// Where bits are to be reproducible, they do not depend on the step, so nothing is read as one
// unless the caller says so; they never depend on threads then.
func TestSharedReproducibly(t *testing.T) {
	c := longShared()
	c.options.Reproducible, c.mass = true, false
	want := c.set(t, 4)
	require.Positive(t, want.groups())
	c.threads = 1
	require.Equal(t, want.attend(t), c.set(t, 4).attend(t))

	s := sharedShape(64, 8192, 128, 1, 8)
	for _, reproducible := range []bool{false, true} {
		be, _ := openWith(t, Options{Threads: 2, Reproducible: reproducible})
		p, err := be.PlanAttend(s)
		require.NoError(t, err)
		require.Equal(t, !reproducible, p.Work[wordListed] > 0)
	}
}

// sharedShape is a decode step whose sequences begin in the same blocks.
func sharedShape(seqs, shared, own, group, kvHeads int) backend.AttendShape {
	s := shapeOf(group*kvHeads, kvHeads, nil, nil)
	s.KDim, s.VDim, s.Format = 128, 128, backend.Format{Act: backend.F16, K: backend.F16, V: backend.F16}
	s.TableStride = (shared + own) / s.BlockSize
	for seq := range seqs {
		s.ContextLens, s.QueryLens = append(s.ContextLens, uint32(shared+own)), append(s.QueryLens, 1)
		for i := range s.TableStride {
			if i >= shared/s.BlockSize {
				i += (seq + 1) * 100000
			}
			s.Table = append(s.Table, uint32(i))
		}
	}
	return s
}

// Sequences are read as one where that takes less time.
func TestSharedWhereItPays(t *testing.T) {
	be, _ := open(t, 2)
	if be.tileRows() != tallRows {
		t.Skip("no products of matrices")
	}
	f32, int4 := backend.Format{Act: backend.F32, K: backend.F32, V: backend.F32}, backend.Format{Act: backend.F32, K: backend.Int4, V: backend.Int4}
	for _, c := range []struct {
		seqs, shared, group int
		format              backend.Format
		want                bool
	}{
		{64, 8192, 1, backend.Format{}, true},
		{64, 8192, 4, backend.Format{}, true},
		{64, 8192, 4, f32, true},
		{64, 8192, 4, int4, true},
		{8, 8192, 4, backend.Format{}, false}, // as much arithmetic, and keys are laid out
		{8, 8192, 4, f32, true},
		{2, 2048, 1, backend.Format{}, true},
		{2, 2048, 4, backend.Format{}, false}, // as much arithmetic
		{2, 16, 1, backend.Format{}, false},   // the merge takes longer
		{1, 8192, 1, backend.Format{}, false},
	} {
		s := sharedShape(c.seqs, c.shared, 64, c.group, 8)
		if c.format != (backend.Format{}) {
			s.Format = c.format
		}
		p, err := be.PlanAttend(s)
		require.NoError(t, err)
		require.Equal(t, c.want, p.Work[wordListed] > 0, "%+v", c)
		s.MinShared = math.MaxInt
		p, err = be.PlanAttend(s)
		require.NoError(t, err)
		require.Zero(t, p.Work[wordListed])
	}
}

// A step that is read as one is planned, and attends, without allocations.
func TestSharedAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector empties pools")
	}
	st := longShared().set(t, 1)
	require.Positive(t, st.groups())
	st.shape.Work = slices.Clone(st.params.Plan.Work)
	require.Zero(t, testing.AllocsPerRun(20, func() {
		_, err := st.be.PlanAttend(st.shape)
		if err == nil {
			err = st.be.Attend(st.s, st.params)
		}
		if err != nil {
			t.Fatal(err)
		}
	}))
}
