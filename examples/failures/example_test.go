package failures_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/examples/internal/demo"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// Whichever call of the device runs out of memory, the runner says so and leaves nothing behind.
func Example_everyFailure() {
	be := demo.Must(cpu.Open(cpu.Options{}))
	defer be.Close()
	dev := backendtest.NewFaulty[*cpu.Buffer](be)
	failed := 0
	for n := 1; ; n++ {
		dev.SetFault(backendtest.Nth(n, backend.ErrOutOfMemory))
		err := serve(dev)
		if be.Info().Buffers != 0 {
			fmt.Println("call", n, "leaves buffers behind")
		}
		if err == nil {
			break // there are fewer than n calls
		}
		if !errors.Is(err, backend.ErrOutOfMemory) {
			fmt.Println("call", n, "is reported as", err)
		}
		failed++
	}
	fmt.Println(failed > 10)
	// Output: true
}

// A lost device is told from all else; what was on it goes with Close.
func Example_lost() {
	be := demo.Must(cpu.Open(cpu.Options{}))
	dev := backendtest.NewFaulty[*cpu.Buffer](be)
	dev.SetFault(func(c backendtest.Call) error {
		if c.Op == backendtest.OpAttend {
			dev.Lose()
			return backend.ErrLost
		}
		return nil
	})
	fmt.Println(errors.Is(serve(dev), backend.ErrLost))
	demo.Check(dev.Close())
	fmt.Println(be.Info().Buffers)
	// Output:
	// true
	// 0
}

// Streams that run late, in twenty orders, and the runner's answer is the same.
func Example_late() {
	for seed := range uint64(20) {
		be := demo.Must(cpu.Open(cpu.Options{}))
		dev := backendtest.NewLate[*cpu.Buffer](be, backendtest.LateOptions{Seed: seed})
		demo.Check(serve(dev))
		demo.Check(dev.Close())
	}
	fmt.Println("every order gives what was expected")
	// Output: every order gives what was expected
}

// serve is a runner: it computes a prompt on one stream and continues it on another one.
func serve(be backend.Backend[*cpu.Buffer]) (err error) {
	given := func(back func() error) { err = errors.Join(err, back()) }
	var streams [2]backend.Stream
	for i := range streams {
		if streams[i], err = be.NewStream(); err != nil {
			return err
		}
		defer given(streams[i].Close)
	}
	pool, err := kvcache.NewPool(be, kvcache.Config{
		Layout: kvcache.Paged, Blocks: 4, BlockSize: 4, Layers: 1, KVHeads: 1, HeadDim: 4, K: backend.F32,
	})
	if err != nil {
		return err
	}
	defer given(pool.Close)
	x, err := backend.AllocFrom(be, streams[0], backend.F32, []float32{1, 2, 3, 4, 1, 2, 3, 4})
	if err != nil {
		return err
	}
	defer given(func() error { return be.Free(x) })
	out, err := be.Alloc(backend.F32, 8)
	if err != nil {
		return err
	}
	defer given(func() error { return be.Free(out) })
	seq, _, err := pool.Open(context.Background(), nil)
	if err != nil {
		return err
	}
	defer given(seq.Release)
	step := pool.NewBatch()
	defer given(step.Close)
	if err := streams[0].Sync(); err != nil { // x is used on both
		return err
	}
	for i, tokens := range [][]uint32{{1, 2}, {3}} {
		if err := forward(step, streams[i], seq, tokens, x, out); err != nil {
			return err
		}
	}
	got := make([]float32, 4)
	if err := backend.Download(be, streams[1], got, out, 0); err != nil {
		return err
	}
	if got[3] != 4 { // each value is the same row, and so is their mean
		return fmt.Errorf("attention gives %v", got)
	}
	return nil
}

// forward is one step.
func forward(step *kvcache.Batch[*cpu.Buffer], s backend.Stream, seq *kvcache.Sequence[*cpu.Buffer], tokens []uint32, x, out *cpu.Buffer) error {
	for _, do := range []func() error{
		step.Reset,
		func() error { return step.Add(seq, tokens) },
		func() error { return step.Plan(s) },
		func() error { return step.Append(0, x, x) },
		func() error { return step.Attend(0, x, out) },
		step.Commit,
	} {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}
