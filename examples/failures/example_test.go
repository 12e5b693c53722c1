package failures_test

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// Whichever call of the device runs out of memory, the runner returns that error and
// has freed all of its buffers.
func Example_everyFailure() {
	be := must(cpu.Open(cpu.Options{}))
	defer be.Close()
	dev := backendtest.NewFaulty[*cpu.Buffer](be)
	failed := 0
	for n := 1; ; n++ {
		dev.SetFault(backendtest.Nth(n, backend.ErrOutOfMemory{}))
		err := serve(dev)
		if be.Info().Buffers != 0 {
			fmt.Println("a failure of call", n, "leaks buffers")
		}
		if err == nil {
			break // the runner makes fewer than n calls
		}
		if !errors.Is(err, backend.ErrOutOfMemory{}) {
			fmt.Println("a failure of call", n, "is reported as", err)
		}
		failed++
	}
	fmt.Println(failed > 10)
	// Output: true
}

// A lost device has an error of its own. Close frees what was on it.
func Example_lost() {
	be := must(cpu.Open(cpu.Options{}))
	dev := backendtest.NewFaulty[*cpu.Buffer](be)
	dev.SetFault(func(c backendtest.Call) error {
		if c.Op == backendtest.OpAttend {
			dev.Lose()
			return backend.ErrLost
		}
		return nil
	})
	fmt.Println(errors.Is(serve(dev), backend.ErrLost))
	check(dev.Close())
	fmt.Println(be.Info().Buffers)
	// Output:
	// true
	// 0
}

// Late runs what is enqueued later than the CPU would, in an order that the seed chooses
// among those that the streams and their events allow. The result is the same in each.
func Example_late() {
	for seed := range uint64(20) {
		be := must(cpu.Open(cpu.Options{}))
		dev := backendtest.NewLate[*cpu.Buffer](be, backendtest.LateOptions{Seed: seed})
		check(serve(dev))
		check(dev.Close())
	}
	fmt.Println("every order gives the expected result")
	// Output: every order gives the expected result
}

// serve is the runner under test: it computes a prompt on one stream and continues it on
// another.
func serve(be backend.Backend[*cpu.Buffer]) (err error) {
	closing := func(f func() error) { err = errors.Join(err, f()) }
	var streams [2]backend.Stream
	for i := range streams {
		if streams[i], err = be.NewStream(); err != nil {
			return err
		}
		defer closing(streams[i].Close)
	}
	pool, err := kvcache.NewPool(be, kvcache.Config{
		Model:   kvcache.Model{Layers: 1, KVHeads: 1, HeadDim: 4},
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: kvcache.Paged, Blocks: 4, BlockSize: 4},
	})
	if err != nil {
		return err
	}
	defer closing(pool.Close)
	x, err := backend.AllocFrom(be, streams[0], backend.F32, []float32{1, 2, 3, 4, 1, 2, 3, 4})
	if err != nil {
		return err
	}
	defer closing(func() error { return be.Free(x) })
	out, err := be.Alloc(backend.F32, 8)
	if err != nil {
		return err
	}
	defer closing(func() error { return be.Free(out) })
	seq, _, err := pool.Open(nil, kvcache.OpenOptions{})
	if err != nil {
		return err
	}
	defer closing(seq.Release)
	step := pool.NewBatch()
	defer closing(step.Close)

	if err := streams[0].Sync(); err != nil { // both streams read x
		return err
	}
	io := kvcache.Dense(x, x, x, out) // queries, keys and values are the same rows
	if err := forward(step, streams[0], seq, []uint32{1, 2}, io); err != nil {
		return err
	}
	if err := forward(step, streams[1], seq, []uint32{3}, io); err != nil {
		return err
	}
	row := make([]float32, 4)
	if err := backend.Download(be, streams[1], row, out, 0); err != nil {
		return err
	}
	if row[3] != 4 { // all values are the same, so attention is that value
		return fmt.Errorf("attention gives %v", row)
	}
	return nil
}

// forward is one step.
func forward(step *kvcache.Batch[*cpu.Buffer], s backend.Stream, seq *kvcache.Sequence[*cpu.Buffer], tokens []uint32, io kvcache.LayerIO[*cpu.Buffer]) error {
	if err := step.Reset(); err != nil {
		return err
	}
	if err := step.Add(seq, tokens); err != nil {
		return err
	}
	if err := step.Plan(s); err != nil {
		return err
	}
	if err := step.Append(0, io); err != nil {
		return err
	}
	if err := step.Attend(0, io); err != nil {
		return err
	}
	return step.Commit()
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
