package schedule

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/stretchr/testify/require"
)

const vocabulary = 97

// fake is a model of one layer whose answers depend on every token before them, by attention over the cache.
type fake struct {
	be    *cpu.Backend
	out   []float32
	steps [][]int // the number of tokens of each part
	fail  func() error
}

const heads, dim = 2, 64

func (f *fake) Forward(s *Step[*cpu.Buffer]) error {
	if f.fail != nil {
		if err := f.fail(); err != nil {
			return err
		}
	}
	n := s.Batch.Tokens()
	q, k, v := make([]float32, n*heads*dim), make([]float32, n*heads*dim), make([]float32, n*heads*dim)
	f.out = make([]float32, n*heads*dim)
	at := 0
	var lens []int
	for _, p := range s.Parts {
		lens = append(lens, len(p.Tokens))
		for i, token := range p.Tokens {
			for j := range heads * dim {
				x := float64(token)*1.7 + float64(p.Seq.NextPosition()+i)*0.37 + float64(j)*0.11
				q[at*heads*dim+j], k[at*heads*dim+j], v[at*heads*dim+j] = float32(math.Sin(x)), float32(math.Cos(x)), float32(math.Sin(3*x))
			}
			at++
		}
	}
	f.steps = append(f.steps, lens)
	var bufs [4]*cpu.Buffer
	for i, row := range [][]float32{q, k, v, f.out} {
		b, err := f.be.Import(backend.HostHandle(row), backend.F32, len(row))
		if err != nil {
			return err
		}
		defer f.be.Free(b)
		bufs[i] = b
	}
	io := kvcache.Dense(bufs[0], bufs[1], bufs[2], bufs[3])
	return errors.Join(s.Batch.Append(0, io), s.Batch.Attend(0, io))
}

func (f *fake) Next(s *Step[*cpu.Buffer], part int) (uint32, bool, error) {
	at := 0
	for _, p := range s.Parts[:part+1] {
		at += len(p.Tokens)
	}
	sum := 0.0
	for i, x := range f.out[(at-1)*heads*dim : at*heads*dim] {
		sum += float64(x) * float64(i+1)
	}
	token := uint32(math.Abs(sum*1e3)) % vocabulary
	return token, token == 0, nil
}

func TestSmoke(t *testing.T) {
	be, err := cpu.Open(cpu.Options{})
	require.NoError(t, err)
	defer be.Close()
	pool, err := kvcache.NewPool(be, kvcache.Config{
		Model:   kvcache.Model{Layers: 1, KVHeads: heads, HeadDim: dim, Act: backend.F32},
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: kvcache.Paged, BlockSize: 4, Blocks: 24, Capacity: 64, MaxSeqs: 8},
	})
	require.NoError(t, err)
	defer pool.Close()
	stream, err := be.NewStream()
	require.NoError(t, err)
	f := &fake{be: be}
	s, err := New[*cpu.Buffer](f, pool, pool.NewBatch(), stream, Options{StepTokens: 16})
	require.NoError(t, err)
	var answers []*Answer
	prompts := [][]uint32{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13}, {5, 6}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 14}, make([]uint32, 40)}
	for _, p := range prompts {
		a, err := s.Submit(t.Context(), Request{Prompt: p, MaxTokens: 20})
		require.NoError(t, err)
		answers = append(answers, a)
	}
	s.Drain()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, s.Run(ctx))
	for _, a := range answers {
		var got []uint32
		for token, err := range a.Tokens() {
			require.NoError(t, err)
			got = append(got, token)
		}
		t.Log(got, a.Report())
	}
	t.Log(f.steps)
	t.Logf("%+v", s.Stats())
	st, err := pool.Stats()
	require.NoError(t, err)
	require.Zero(t, st.Held)
	require.NoError(t, pool.Check())
}
