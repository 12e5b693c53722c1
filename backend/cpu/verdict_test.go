package cpu

import (
	"errors"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// many is a decode step of enough sequences that it is remembered.
var many = scene{qHeads: 2, kvHeads: 1, kDim: 8, vDim: 8, act: backend.F32, k: backend.F32, v: backend.F32, block: 4,
	ctx: slices.Repeat([]int{9}, 24), queries: slices.Repeat([]int{1}, 24)}

// vectors is the index vectors of a stage.
func (st *stage) vectors() map[string]**Buffer {
	p := &st.params
	return map[string]**Buffer{"block table": &p.Batch.Table.Buf, "context lengths": &p.Batch.ContextLens,
		"query offsets": &p.Batch.QueryOffsets.Buf, "work": &p.Work.Buf}
}

// A model's layers look at what a step's vectors hold once, and once more for each mask and each
// plan.
func TestContentsAreLookedAtOnce(t *testing.T) {
	st := many.set(t, 1)
	layers := func() {
		for range 32 {
			st.attend(t)
		}
	}
	layers()
	require.Equal(t, 1, st.be.verdicts.added)
	p := st.params
	for range 16 { // windows narrower than planned for, in turns
		st.params.Mask.Window = 5
		st.attend(t)
		st.params = p
		st.attend(t)
	}
	require.Equal(t, 2, st.be.verdicts.added)
	work := slices.Clone(view[uint32](p.Work.Buf))
	require.NoError(t, backend.Upload(st.be, st.s, p.Work.Buf, 0, work))
	layers()
	require.Equal(t, 3, st.be.verdicts.added)
	require.NoError(t, st.be.Free(p.Work.Buf))
	require.Zero(t, st.be.verdicts.known, "freed buffers are held")
	require.ErrorIs(t, st.be.Attend(st.s, p), backend.ErrFreed)

	few := many
	few.ctx, few.queries = few.ctx[:2], few.queries[:2]
	st = few.set(t, 1)
	layers()
	require.Zero(t, st.be.verdicts.added, "a look takes no longer")
}

// bad is an element that leads outside of everything.
var bad = []uint32{math.MaxUint32}

// Whoever overwrites a vector between two layers, in whatever way, it is seen.
func TestOverwrittenVectorsAreSeen(t *testing.T) {
	for way, write := range map[string]func(st *stage, b *Buffer, at int) error{
		"upload": func(st *stage, b *Buffer, at int) error { return backend.Upload(st.be, st.s, b, at, bad) },
		"fill":   func(st *stage, b *Buffer, at int) error { return st.be.Fill(st.s, b, at, 1, math.MaxUint32) },
		"copy": func(st *stage, b *Buffer, at int) error {
			from, err := backend.AllocFrom(st.be, st.s, backend.U32, bad)
			return errors.Join(err, st.be.Copy(st.s, b, at, from, 0, 1))
		},
		"a set of blocks": func(st *stage, b *Buffer, at int) error {
			set, err := backend.NewBlockSet(st.be, []backend.BlockPlane[*Buffer]{{Buf: b, Each: 1}})
			host, failed := backend.HostAlloc(st.be, 4)
			copy(host.Bytes(), backend.BytesOf(bad))
			return errors.Join(err, failed, set.Unpack(st.s, []uint32{uint32(at)}, host, 0), set.Close(), host.Close())
		},
		"handle": func(st *stage, b *Buffer, at int) error {
			h, err := st.be.Handle(b)
			of[uint32](h.Host)[at] = bad[0]
			return err
		},
		"host bytes": func(st *stage, b *Buffer, at int) error {
			mem, err := st.be.HostBytes(b)
			of[uint32](mem)[at] = bad[0]
			return err
		},
		"a sub-buffer": func(st *stage, b *Buffer, at int) error {
			sub, err := st.be.SubBuffer(b, int64(4*at), backend.U32, 1)
			return errors.Join(err, backend.Upload(st.be, st.s, sub, 0, bad))
		},
		"bytes of it": func(st *stage, b *Buffer, at int) error {
			sub, err := st.be.SubBuffer(b, int64(4*at), backend.Int8, 4)
			return errors.Join(err, st.be.Upload(st.s, sub, 0, backend.BytesOf(bad)))
		},
		"an import": func(st *stage, b *Buffer, at int) error {
			h, err := st.be.Handle(b)
			alias, failed := st.be.Import(h, backend.U32, b.Len())
			return errors.Join(err, failed, backend.Upload(st.be, st.s, alias, at, bad))
		},
		"keys":          func(st *stage, b *Buffer, at int) error { return st.appendKey(b, at) },
		"scales":        func(st *stage, b *Buffer, at int) error { return st.appendScales(b, at, backend.Int8) },
		"scale's words": func(st *stage, b *Buffer, at int) error { return st.appendScales(b, at, backend.Int4) },
	} {
		for _, part := range []bool{false, true} { // vectors are sub-buffers
			for _, name := range []string{"block table", "context lengths", "query offsets", "work"} {
				t.Run(way+" over "+name, func(t *testing.T) {
					st := many.set(t, 1)
					own := st.vectors()[name]
					if part {
						whole, err := st.be.Alloc(backend.U32, (*own).Len()+4)
						require.NoError(t, err)
						sub, err := st.be.SubBuffer(whole, 8, backend.U32, (*own).Len())
						require.NoError(t, err)
						require.NoError(t, st.be.Copy(st.s, sub, 0, *own, 0, sub.Len()))
						*own = sub
					}
					before := slices.Clone(view[uint32](*own))
					st.attend(t)
					st.attend(t)
					require.Equal(t, 1, st.be.verdicts.added)
					at := map[string]int{"query offsets": 3, "work": headerWords}[name]
					require.NoError(t, write(st, *own, at))
					require.ErrorIs(t, st.be.Attend(st.s, st.params), backend.ErrArgument{})
					require.NoError(t, backend.Upload(st.be, st.s, *own, 0, before))
					st.attend(t)
				})
			}
		}
	}
}

// appendKey has Append write a key where element at of a vector is.
func (st *stage) appendKey(b *Buffer, at int) error {
	key, err := st.be.SubBuffer(b, int64(4*at), backend.F32, 1)
	row, failed := backend.AllocFrom(st.be, st.s, backend.F32, []float32{1e30})
	slot, failed2 := backend.AllocFrom(st.be, st.s, backend.I64, []int64{0})
	value, failed3 := st.be.Alloc(backend.F32, 1)
	return errors.Join(err, failed, failed2, failed3, st.be.Append(st.s, backend.AppendParams[*Buffer]{
		Cache:  backend.CacheView[*Buffer]{K: backend.Plane[*Buffer]{Data: key, Dim: 1}, V: backend.Plane[*Buffer]{Data: value, Dim: 1}, Blocks: 1, KVHeads: 1, BlockSize: 1},
		Tokens: 1, K: backend.Dense(row), V: backend.Dense(row), Slots: slot}))
}

// appendScales has Append write a scale of keys of a type where element at of a vector is.
func (st *stage) appendScales(b *Buffer, at int, dt backend.DType) error {
	words, n, _ := dt.Scales(1, 1, 1, 32)
	scales, err := st.be.SubBuffer(b, int64(4*at), words, n)
	alloc := func(dt backend.DType) *Buffer {
		b, failed := st.be.Alloc(dt, 32)
		err = errors.Join(err, failed)
		return b
	}
	codes, values, rows, slots := alloc(dt), alloc(backend.F32), alloc(backend.F32), alloc(backend.I64)
	err = errors.Join(err, st.be.Fill(st.s, rows, 0, 32, 0), st.be.Fill(st.s, rows, 0, 1, 1000), st.be.Fill(st.s, slots, 0, 32, 0))
	return errors.Join(err, st.be.Append(st.s, backend.AppendParams[*Buffer]{
		Cache: backend.CacheView[*Buffer]{K: backend.Plane[*Buffer]{Data: codes, Dim: 32, Scales: backend.Some(scales)},
			V: backend.Plane[*Buffer]{Data: values, Dim: 32}, Blocks: 1, KVHeads: 1, BlockSize: 1},
		Tokens: 1, K: backend.Dense(rows), V: backend.Dense(rows), Slots: slots}))
}

// Goroutines attend over the same vectors, and write their own, at the same time.
func TestVerdictsOfManyStreams(t *testing.T) {
	st := many.set(t, 1)
	var users sync.WaitGroup
	for i := range 4 {
		s, err := st.be.NewStream()
		require.NoError(t, err)
		p := st.params
		out, err := st.be.Alloc(backend.F32, p.Out.Rows.Buf.Len())
		require.NoError(t, err)
		p.Out.Rows.Buf, p.Out.LSE = out, backend.Opt[*Buffer]{}
		if p.Workspace.Set {
			p.Workspace.Buf, err = st.be.Alloc(backend.F32, p.Workspace.Buf.Len())
			require.NoError(t, err)
		}
		table := slices.Clone(view[uint32](p.Batch.Table.Buf))
		if i%2 == 1 { // with a table of its own
			p.Batch.Table.Buf, err = backend.AllocFrom(st.be, s, backend.U32, table)
			require.NoError(t, err)
		}
		users.Go(func() {
			for n := range 50 {
				err := st.be.Attend(s, p)
				if i%2 == 1 {
					err = errors.Join(err, backend.Upload(st.be, s, p.Batch.Table.Buf, 0, bad))
					if wrong := st.be.Attend(s, p); !errors.Is(wrong, backend.ErrArgument{}) {
						t.Errorf("user %d, call %d: a table that leads outside gives %v", i, n, wrong)
					}
					err = errors.Join(err, backend.Upload(st.be, s, p.Batch.Table.Buf, 0, table))
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	users.Wait()
}

// Attention and the mass alone are known by the same vectors, and only one of them has a workspace.
func TestMassAloneHasNoWorkspace(t *testing.T) {
	s := many
	s.mass, s.threads = true, 4
	s.ctx = slices.Clone(s.ctx)
	s.ctx[3] = 3000 // which is split
	st := s.set(t, 1)
	p := st.params
	require.NotZero(t, p.Plan.Workspace)
	lse := floats(t, st.be, backend.F32, make([]float32, p.Batch.Tokens*p.QHeads))
	p.Out.LSE = backend.Some(lse)
	alone := backend.AttendScoresParams[*Buffer]{Cache: p.Cache, Batch: p.Batch, Q: p.Q, QHeads: p.QHeads, Scale: p.Scale, Mask: p.Mask,
		LSE: lse, Scores: p.Out.Scores.Buf, Plan: p.Plan, Work: p.Work}
	calls := []func() error{func() error { return st.be.Attend(st.s, p) }, func() error { return st.be.AttendScores(st.s, alone) }}
	for first := range calls {
		st.be.verdicts = verdicts{}
		for i := range 4 {
			require.NoError(t, calls[(first+i)%2]())
		}
		require.Equal(t, 1, st.be.verdicts.added)
	}
}
