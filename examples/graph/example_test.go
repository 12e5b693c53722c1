package graph_test

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	_ "github.com/ferrumkv/ferrumkv/backend/all"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

const layers, dim = 2, 64

// Keys are 0, so attention is the mean of the values: 1, then of 1 and 2, then of 1, 2 and 3.
func Example() {
	be := must(backend.Default()) // CUDA devices have graphs, the CPU has none
	defer be.Close()
	pool := must(kvcache.NewPool(be, kvcache.Config{
		Model:   kvcache.Model{Layers: layers, KVHeads: 1, HeadDim: dim},
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: kvcache.Paged, Capacity: 64},
	}))
	defer pool.Close()
	stream, step := must(be.NewStream()), pool.NewBatch()
	seq, _, err := pool.Open(nil, kvcache.OpenOptions{})
	check(err)

	// A graph reads and writes the same buffers in every step.
	zeros := func() backend.AnyBuffer {
		return must(backend.AllocFrom(be, stream, backend.F32, make([]float32, dim)))
	}
	q, k, v, out := zeros(), zeros(), zeros(), zeros()
	io := kvcache.Dense(q, k, v, out)
	forward := func() error {
		for layer := range layers {
			if err := step.Append(layer, io); err != nil {
				return err
			}
			if err := step.Attend(layer, io); err != nil {
				return err
			}
		}
		return nil
	}

	check(step.FixShape(1, 1)) // every step is one sequence with one new token
	run := step.Replay
	for token := range uint32(3) {
		check(step.Reset())
		check(step.Add(seq, []uint32{token}))
		check(step.Plan(stream))
		if token == 0 {
			err := step.Capture(forward) // records what forward enqueues, and runs nothing
			if errors.Is(err, backend.ErrUnsupported{}) {
				run = forward // the device has no graphs
			} else {
				check(err)
			}
		}
		check(be.Fill(stream, v, 0, dim, float64(token+1))) // a model computes q, k and v
		check(run())
		check(step.Commit())

		row := make([]float32, dim)
		check(backend.Download(be, stream, row, out, 0))
		fmt.Println(row[0])
	}
	// Output:
	// 1
	// 1.5
	// 2
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
