package kvcache

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/stretchr/testify/require"
)

// bitwise is a model, texts, and the bits of each of their queries on a CPU with Reproducible: those of a
// pool that computes a text in one step on one thread, and gives nothing back.
type bitwise struct {
	t     testT
	cfg   Config // without Memory, and what does not change bits
	cpu   cpu.Options
	long  bool // texts that are cut into parts
	texts [][]uint32
	want  [][]answers // of each text and layer
}

// answers are the bits of a layer's outputs and log-sum-exps, of each token of a text.
type answers struct{ out, lse [][]uint32 }

// piece is tokens of a text that a step computes, or with asks asks again.
type piece struct {
	*reading
	n    int
	asks bool
}

// reading is a sequence that has the first tokens of a text.
type reading struct {
	seq        *Sequence[*cpu.Buffer]
	text, have int
}

// first is the place in its text of a piece's first token.
func (p *piece) first() int {
	if p.asks {
		return p.have - p.n
	}
	return p.have
}

func (p *piece) tokens(x *bitwise) []uint32 { return x.texts[p.text][p.first():][:p.n] }

func (p *piece) views() (all []View) {
	for i := range p.n {
		all = append(all, View{p.first() + i, p.first() + i + 1})
	}
	return all
}

// on is a pool of the model, with the memory of cfg.
func (x *bitwise) on(threads int, cfg Config) (*rig[*cpu.Buffer], error) {
	x.cpu.Threads = threads
	be, err := cpu.Open(x.cpu)
	require.NoError(x.t, err)
	s, err := be.NewStream()
	require.NoError(x.t, err)
	pool, err := NewPool(be, cfg)
	if err != nil {
		require.NoError(x.t, errors.Join(s.Close(), be.Close()))
		return nil, err
	}
	r := &rig[*cpu.Buffer]{t: x.t, be: be, s: s, pool: pool, step: pool.NewBatch()}
	r.poison()
	return r, nil
}

// compute does a step and returns the answers to it, of each layer.
func (x *bitwise) compute(r *rig[*cpu.Buffer], pieces ...piece) ([]answers, error) {
	var ids, marks []uint32
	var err error
	for _, p := range pieces {
		next := p.tokens(x)
		if p.asks {
			err = errors.Join(err, r.step.Query(p.seq, p.views()))
		} else {
			err = errors.Join(err, r.step.Add(p.seq, next))
		}
		for i := range next {
			ids, marks = append(ids, next[i]), append(marks, next[i]+1<<16)
		}
	}
	if err == nil {
		err = r.step.Plan(r.s)
	}
	if err != nil {
		require.NoError(x.t, r.step.Reset())
		return nil, err
	}
	for of := r.step.step.Size; len(ids) < of.Seqs*of.Tokens; { // of empty places
		ids, marks = append(ids, 0), append(marks, 0)
	}
	all := make([]answers, r.pool.cfg.Model.Layers)
	for layer := range all {
		if r.pool.parts.Layers[layer].Part < 0 {
			continue
		} else if st, _ := r.pool.of(layer); st.States != nil {
			_, err := r.step.State(layer)
			require.NoError(x.t, err)
			continue
		}
		all[layer] = x.attend(r, layer, ids, marks, pieces)
	}
	require.NoError(x.t, r.step.Commit())
	for _, p := range pieces {
		if !p.asks {
			p.have += p.n
		}
	}
	return all, nil
}

// attend appends and attends in a layer.
func (x *bitwise) attend(r *rig[*cpu.Buffer], layer int, ids, marks []uint32, pieces []piece) (a answers) {
	st, _ := r.pool.of(layer)
	m := &st.Config.Model
	hk, hv := newRows(m, ids, layer)
	q, k, v := r.vector(r.s, rows(marks, layer, m.QHeads, m.HeadDim, false)), r.vector(r.s, hk), r.vector(r.s, hv)
	out := r.vector(r.s, make([]float32, len(ids)*m.QHeads*m.VHeadDim))
	lse, err := r.be.Alloc(backend.F32, len(ids)*m.QHeads)
	require.NoError(x.t, err)
	io := Dense(q, k, v, out)
	io.Rotate, io.LSE = m.RoPE != nil, backend.Some(lse)
	if !pieces[0].asks {
		require.NoError(x.t, r.step.Append(layer, io))
	}
	require.NoError(x.t, r.step.Attend(layer, io))
	require.NoError(x.t, r.s.Sync())
	a.out, a.lse = cutRows(r, out, len(ids)), cutRows(r, lse, len(ids))
	r.free(q, k, v, out, lse)
	return a
}

// cutRows are the bits of n rows of a buffer, which has no NaN.
func cutRows(r *rig[*cpu.Buffer], b *cpu.Buffer, n int) (all [][]uint32) {
	var bits []uint32
	if b.DType() == backend.F32 {
		host := make([]float32, b.Len())
		require.NoError(r.t, backend.Download(r.be, r.s, host, b, 0))
		for _, f := range host {
			require.False(r.t, f != f, "NaN")
			bits = append(bits, math.Float32bits(f))
		}
	} else {
		host := make([]uint16, b.Len())
		require.NoError(r.t, backend.Download(r.be, r.s, host, b, 0))
		infinity := map[backend.DType]uint16{backend.F16: 0x7c00, backend.BF16: 0x7f80}[b.DType()]
		for _, f := range host {
			require.LessOrEqual(r.t, f&0x7fff, infinity, "NaN")
			bits = append(bits, uint32(f))
		}
	}
	for i := range n {
		all = append(all, bits[i*len(bits)/n:(i+1)*len(bits)/n])
	}
	return all
}

// learn computes the wanted bits.
func (x *bitwise) learn(cfg Config) error {
	r, err := x.on(1, cfg)
	if err != nil {
		return err
	}
	for text, ids := range x.texts {
		s := &reading{seq: r.open(), text: text}
		all, err := x.compute(r, piece{reading: s, n: len(ids)})
		require.NoError(x.t, err)
		x.want = append(x.want, all)
		require.NoError(x.t, s.seq.Release())
	}
	r.close()
	return nil
}

// differs names the first of a step's answers that is not as wanted; "": none.
func (x *bitwise) differs(got []answers, pieces ...piece) string {
	for layer := range got {
		row := 0
		for i, p := range pieces {
			first := p.have - p.n
			for j := range p.n {
				if got[layer].out == nil {
					break
				}
				want := &x.want[p.text][layer]
				for what, of := range map[string][2][]uint32{"output": {want.out[first+j], got[layer].out[row]}, "log-sum-exp": {want.lse[first+j], got[layer].lse[row]}} {
					for at, bits := range of[0] {
						if of[1][at] != bits {
							return fmt.Sprintf("layer %d, token %d of text %d, call %d of %d and row %d of its %d: element %d of its %s is %#x, want %#x",
								layer, first+j, p.text, i, len(pieces), j, p.n, at, what, of[1][at], bits)
						}
					}
				}
				row++
			}
		}
	}
	return ""
}

// pick is one of several values.
func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// chance is true once in of times.
func chance(rng *rand.Rand, of int) bool { return rng.IntN(of) == 0 }
